/* SPDX-License-Identifier: Apache-2.0 */
#include "golden.h"

#include "json_text.h"
#include "probe.h"
#include "utf8.h"

#define GOLDEN_BYTES_MAX (8 * 1024 * 1024)

int golden_load(const char *path, json_t **ret, char why[static GOLDEN_WHY_MAX]) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        _cleanup_free_ char *text = malloc(GOLDEN_BYTES_MAX);
        json_error_t error;
        json_t *o, *checks;
        size_t n;

        if (!f || !text) {
                int e = f ? ENOMEM : errno;

                (void) snprintf(why, GOLDEN_WHY_MAX, "%s", strerror(e));
                return -e;
        }
        n = fread(text, 1, GOLDEN_BYTES_MAX, f);
        if (n == GOLDEN_BYTES_MAX) {
                (void) snprintf(why, GOLDEN_WHY_MAX, "larger than any report");
                return -E2BIG;
        }
        o = json_loadb(text, n, 0, &error);
        checks = json_object_get(o, "checks");
        if (!json_is_array(checks)) {
                if (o)
                        (void) snprintf(why, GOLDEN_WHY_MAX, "JSON without a list \"checks\"");
                else
                        (void) snprintf(why, GOLDEN_WHY_MAX, "line %d: %.120s", error.line, error.text);
                json_decref(o);
                return -EBADMSG;
        }
        *ret = json_incref(checks);
        json_decref(o);
        return 0;
}

static const json_t *find_there(const json_t *golden, const struct finding *f) {
        const json_t *o;
        size_t i;

        json_array_foreach(golden, i, o) if (streq(json_text_of(o, "check"), f->check) &&
                                             streq(json_text_of(o, "subject"), f->subject)) return o;
        return NULL;
}

static const struct finding *find_here(const struct finding_list *here, const char *check,
                                       const char *subject) {
        for (size_t i = 0; i < here->n; i++)
                if (streq(here->items[i].check, check) && streq(here->items[i].subject, subject))
                        return &here->items[i];
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
static bool differs(const struct finding *f, const json_t *there, struct finding *ret) {
        enum verdict good = VERDICT_UNKNOWN;
        bool known = there && verdict_parse(json_text_of(there, "verdict"), &good) == 0;
        bool same_verdict = known && good == f->verdict;
        bool same_found = known && (varies(f->check) || streq(json_text_of(there, "found"), f->found));

        if (same_verdict && same_found)
                return false;
        *ret = *f;
        finding_set(ret->found, "%s%s%s",
                    f->verdict != VERDICT_OK || !same_verdict ? verdict_name(f->verdict) : "",
                    f->verdict != VERDICT_OK || !same_verdict ? ": " : "", f->found[0] ? f->found : "-");
        finding_set(ret->source, "the golden report");
        if (!known)
                finding_set(ret->wanted, "nothing of that name");
        else
                finding_set(ret->wanted, "%s%s%s", !same_verdict ? verdict_name(good) : "",
                            !same_verdict ? ": " : "", json_text_of(there, "found"));
        /* Worse here keeps its verdict. Better here is told, and is no fault. */
        if (known && !same_verdict && verdict_worse(f->verdict, good) == f->verdict)
                return true;
        ret->verdict = known && !same_verdict ? VERDICT_OK : VERDICT_WARN;
        return true;
}

/* The file is from elsewhere: nothing in it may move the reader's cursor. */
static void scrub(struct finding *f) {
        (void) utf8_scrub(f->check, strlen(f->check));
        (void) utf8_scrub(f->subject, strlen(f->subject));
        (void) utf8_scrub(f->wanted, strlen(f->wanted));
}

int golden_compare(const json_t *golden, const struct finding_list *here, const char *only,
                   struct finding_list *ret) {
        struct finding d;
        const json_t *o;
        size_t i;
        int r;

        for (size_t k = 0; k < here->n; k++) {
                const struct finding *f = &here->items[k];

                if (is_identity(f->check) || !differs(f, find_there(golden, f), &d))
                        continue;
                scrub(&d);
                r = finding_list_add(ret, &d);
                if (r < 0)
                        return r;
        }
        json_array_foreach (golden, i, o) {
                const char *check = json_text_of(o, "check"), *subject = json_text_of(o, "subject");
                size_t n = only ? strlen(only) : 0;

                if (find_here(here, check, subject) || !check[0] || is_identity(check) ||
                    (only && (strncmp(check, only, n) != 0 || (check[n] != '\0' && check[n] != '.'))))
                        continue;
                finding_init(&d, check, subject);
                d.verdict = VERDICT_WARN;
                finding_set(d.found, "nothing");
                finding_set(d.wanted, "%s: %s", json_text_of(o, "verdict"), json_text_of(o, "found"));
                finding_set(d.source, "the golden report");
                scrub(&d);
                r = finding_list_add(ret, &d);
                if (r < 0)
                        return r;
        }
        return 0;
}
