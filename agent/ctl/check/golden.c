/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>

#include "golden.h"
#include "probe.h"
#include "report.h"

#define GOLDEN_BYTES_MAX (8 * 1024 * 1024)

static int read_checks(const json_t *checks, struct finding_list *ret, char why[static GOLDEN_WHY_MAX]) {
        struct finding f;
        const json_t *o;
        size_t i;
        int r = json_is_array(checks) ? 0 : -EBADMSG;

        if (r < 0)
                (void) snprintf(why, GOLDEN_WHY_MAX, "JSON without a list \"checks\"");
        json_array_foreach(checks, i, o)
                if (r == 0 && finding_from_json(o, &f) == 0 && f.check[0])
                        r = finding_list_add(ret, &f);
        if (r < 0 && r != -EBADMSG)
                (void) snprintf(why, GOLDEN_WHY_MAX, "%s", strerror(-r));
        return r;
}

int golden_load(const char *path, struct finding_list *ret, char why[static GOLDEN_WHY_MAX]) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        _cleanup_free_ char *text = malloc(GOLDEN_BYTES_MAX);
        json_error_t error;
        json_t *o;
        size_t n;
        int r;

        if (!f || !text) {
                r = f ? -ENOMEM : -errno;
                (void) snprintf(why, GOLDEN_WHY_MAX, "%s", strerror(-r));
                return r;
        }
        n = fread(text, 1, GOLDEN_BYTES_MAX, f);
        if (n == GOLDEN_BYTES_MAX) {
                (void) snprintf(why, GOLDEN_WHY_MAX, "larger than any report");
                return -E2BIG;
        }
        o = json_loadb(text, n, 0, &error);
        if (!o) {
                (void) snprintf(why, GOLDEN_WHY_MAX, "line %d: %.120s", error.line, error.text);
                return -EBADMSG;
        }
        r = read_checks(json_object_get(o, "checks"), ret, why);
        json_decref(o);
        return r;
}

static const struct finding *find_in(const struct finding_list *l, const struct finding *f) {
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].check, f->check) && streq(l->items[i].subject, f->subject))
                        return &l->items[i];
        return NULL;
}

static bool varies(const char *check) {
        const struct probe *p;
        char name[32];

        (void) snprintf(name, sizeof(name), "%.*s", (int) strcspn(check, "."), check);
        p = probe_find(name);
        return p && p->varies;
}

/* Who a host is differs between any two. */
static bool is_identity(const char *check) {
        return startswith(check, "identity") && (check[8] == '\0' || check[8] == '.');
}

/* true with *ret filled when f differs from what stood there (NULL: nothing). */
static bool differs(const struct finding *f, const struct finding *there, struct finding *ret) {
        bool same_verdict = there && there->verdict == f->verdict;
        bool same_found = there && (varies(f->check) || streq(there->found, f->found));

        if (same_verdict && same_found)
                return false;
        *ret = *f;
        finding_set(ret->found, "%s%s%s",
                    f->verdict != VERDICT_OK || !same_verdict ? verdict_name(f->verdict) : "",
                    f->verdict != VERDICT_OK || !same_verdict ? ": " : "", f->found[0] ? f->found : "-");
        finding_set(ret->source, "the golden report");
        if (!there)
                finding_set(ret->wanted, "nothing of that name");
        else
                finding_set(ret->wanted, "%s%s%s", !same_verdict ? verdict_name(there->verdict) : "",
                            !same_verdict ? ": " : "", there->found);
        /* Worse here keeps its verdict. Better here is shown, and is no fault. */
        if (there && !same_verdict && verdict_worse(f->verdict, there->verdict) == f->verdict)
                return true;
        ret->verdict = there && !same_verdict ? VERDICT_OK : VERDICT_WARN;
        return true;
}

int golden_compare(const struct finding_list *golden, const struct finding_list *here, const char *only,
                   struct finding_list *ret) {
        size_t n = only ? strlen(only) : 0;
        struct finding d;
        int r = 0;

        for (size_t i = 0; i < here->n && r == 0; i++) {
                const struct finding *f = &here->items[i];

                if (!is_identity(f->check) && differs(f, find_in(golden, f), &d))
                        r = finding_list_add(ret, &d);
        }
        for (size_t i = 0; i < golden->n && r == 0; i++) {
                const struct finding *f = &golden->items[i];

                if (find_in(here, f) || is_identity(f->check) ||
                    (only &&
                     (strncmp(f->check, only, n) != 0 || (f->check[n] != '\0' && f->check[n] != '.'))))
                        continue;
                finding_init(&d, f->check, f->subject);
                d.verdict = VERDICT_WARN;
                finding_set(d.found, "nothing");
                finding_set(d.wanted, "%s: %s", verdict_name(f->verdict), f->found);
                finding_set(d.source, "the golden report");
                r = finding_list_add(ret, &d);
        }
        return r;
}
