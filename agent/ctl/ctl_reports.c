/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl_reports.h"

void ctl_reports_clear(struct ctl_reports *l) {
        for (size_t i = 0; i < l->n; i++)
                path_report_clear(&l->items[i]);
        free(l->items);
}

int ctl_reports_add(struct ctl_reports *l, const char *text, size_t len,
                    char why[static PATH_REPORT_WHY_MAX]) {
        size_t at = 0, used;
        int r;

        do {
                struct path_report *items = reallocarray(l->items, l->n + 1, sizeof(*items));

                if (!items) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "%s", strerror(ENOMEM));
                        return -ENOMEM;
                }
                l->items = items;
                if (l->n == REPORTS_MAX) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "holds too many reports");
                        return -E2BIG;
                }
                r = path_report_parse(text + at, len - at, &items[l->n], &used, why);
                if (r < 0)
                        return r;
                l->n++;
                for (at += used; at < len && strchr(" \t\r\n", text[at]) && text[at]; at++)
                        ;
        } while (at < len);
        return 0;
}
