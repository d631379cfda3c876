/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Reports of path proofs, one after the other, as files and agents give them. */
#include "path_report.h"

#define REPORTS_MAX 4096 /* a slice's */

struct ctl_reports {
        struct path_report *items;
        size_t n;
};
void ctl_reports_clear(struct ctl_reports *l);
/* Adds all reports of a text. -EBADMSG, -E2BIG or -ENOMEM with why. */
int ctl_reports_add(struct ctl_reports *l, const char *text, size_t len,
                    char why[static PATH_REPORT_WHY_MAX]);
