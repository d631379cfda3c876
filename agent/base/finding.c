/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdarg.h>

#include "finding.h"
#include "grow.h"
#include "utf8.h"

/* Name, exit code and gravity of each verdict: a thing known to be broken is graver than a thing not
 * known. */
static const struct {
        const char *name;
        int exit_code, gravity;
} verdicts[] = {
        [VERDICT_OK] = { "OK", 0, 0 },
        [VERDICT_WARN] = { "WARN", 1, 2 },
        [VERDICT_FAIL] = { "FAIL", 2, 3 },
        [VERDICT_UNKNOWN] = { "UNKNOWN", 3, 1 },
};
static_assert(ELEMENTSOF(verdicts) == _VERDICT_MAX, "every verdict has a row");

const char *verdict_name(enum verdict v) {
        assert(v < _VERDICT_MAX);
        return verdicts[v].name;
}

int verdict_exit_code(enum verdict v) {
        assert(v < _VERDICT_MAX);
        return verdicts[v].exit_code;
}

int verdict_gravity(enum verdict v) {
        assert(v < _VERDICT_MAX);
        return verdicts[v].gravity;
}

enum verdict verdict_worse(enum verdict a, enum verdict b) {
        assert(a < _VERDICT_MAX && b < _VERDICT_MAX);
        return verdicts[a].gravity >= verdicts[b].gravity ? a : b;
}

int verdict_parse(const char *name, enum verdict *ret) {
        for (size_t i = 0; i < ELEMENTSOF(verdicts); i++)
                if (streq(verdicts[i].name, name)) {
                        *ret = (enum verdict) i;
                        return 0;
                }
        return -EINVAL;
}

void finding_init(struct finding *f, const char *check, const char *subject) {
        *f = (struct finding) { .verdict = VERDICT_UNKNOWN };
        finding_set(f->check, "%s", check);
        finding_set(f->subject, "%s", subject ? subject : "");
}

/* Cuts at a character boundary of UTF-8 and ends the text in "…" (3 bytes). */
static void mark_cut(char *field, size_t size) {
        static const char ellipsis[] = "…";
        size_t end = size - sizeof(ellipsis);

        while (end > 0 && ((unsigned char) field[end] & 0xc0) == 0x80)
                end--;
        memcpy(field + end, ellipsis, sizeof(ellipsis));
}

void finding_format(char *field, size_t size, const char *fmt, ...) {
        va_list ap;
        int n;

        assert(size > 8);
        va_start(ap, fmt);
        n = vsnprintf(field, size, fmt, ap);
        va_end(ap);
        if (n >= 0 && (size_t) n >= size)
                mark_cut(field, size);
        (void) utf8_scrub(field, strlen(field)); /* NICs may have any bytes for a name */
}

int finding_list_add(struct finding_list *l, const struct finding *f) {
        if (l->n == FINDING_LIST_MAX)
                return -E2BIG;
        if (grow(&l->items, &l->size, l->n + 1, sizeof(*l->items)) < 0)
                return -ENOMEM;
        l->items[l->n++] = *f;
        return 0;
}

void finding_list_clear(struct finding_list *l) {
        free(l->items);
        *l = FINDING_LIST_NULL;
}

enum verdict finding_list_worst(const struct finding_list *l) {
        enum verdict worst = VERDICT_OK;

        for (size_t i = 0; i < l->n; i++)
                worst = verdict_worse(worst, l->items[i].verdict);
        return worst;
}
