/* SPDX-License-Identifier: Apache-2.0 */
/* Any saved report: what is taken is in bounds, comes back as it was, and can stand beside another. */
#include "path_report.h"
#include "verdict.h"

static void check_text(const char *s, size_t size) {
        size_t len = strnlen(s, size);

        if (len == size)
                abort();
        for (size_t i = 0; i < len; i++)
                if ((uint8_t) s[i] < ' ' || s[i] == 0x7f)
                        abort(); /* it would move the reader's cursor */
}

static void check(const struct path_report *r) {
        check_text(r->host, sizeof(r->host));
        check_text(r->time, sizeof(r->time));
        for (size_t i = 0; i < r->findings.n; i++) {
                check_text(r->findings.items[i].subject, sizeof(r->findings.items[i].subject));
                check_text(r->findings.items[i].found, sizeof(r->findings.items[i].found));
                check_text(r->findings.items[i].reason, sizeof(r->findings.items[i].reason));
                check_text(r->findings.items[i].remedy, sizeof(r->findings.items[i].remedy));
        }
        for (size_t i = 0; i < r->n_results; i++)
                if (r->results[i].finding >= r->findings.n || r->results[i].mtu > UINT16_MAX ||
                    r->results[i].proof.passes > r->results[i].mtu)
                        abort();
}

static char *print(const struct path_report *r) {
        json_t *o = path_report_to_json(r);
        char *text = o ? json_dumps(o, JSON_SORT_KEYS) : NULL;

        if (!text)
                abort();
        json_decref(o);
        return text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_path_report_ struct path_report r = PATH_REPORT_NULL, back = PATH_REPORT_NULL;
        _cleanup_free_ char *text = NULL, *again = NULL;
        char why[PATH_REPORT_WHY_MAX] = "";
        size_t used;

        if (path_report_parse((const char *) data, size, &r, &used, why) < 0) {
                check_text(why, sizeof(why));
                return 0;
        }
        if (used > size)
                abort();
        check(&r);
        text = print(&r);
        if (path_report_parse(text, strlen(text), &back, NULL, why) < 0)
                abort();
        check(&back);
        again = print(&back);
        if (!streq(text, again))
                abort();
        path_report_add_witnesses(&back, &r, 1);
        check(&back);
        return 0;
}
