/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Findings for people and for programs: an aligned text table, worst first, coloured only on a terminal;
 * or JSON with the same content.
 */
#include <jansson.h>

#include "finding.h"

/* New reference, or NULL when out of memory. Keys: verdict, check, subject, found, wanted, source, reason,
 * remedy. */
json_t *finding_to_json(const struct finding *f);
/*
 * Reads such an object, of whoever wrote it: texts are cut at their size and scrubbed (utf8.h), those that
 * are missing are empty. -EBADMSG: no verdict that this version knows; then it is UNKNOWN.
 */
int finding_from_json(const json_t *o, struct finding *ret);
/* An array of such objects. */
json_t *finding_list_to_json(const struct finding_list *l);

/* Whether people see colours there: on a terminal, unless NO_COLOR is set. */
bool report_in_colour(FILE *out);
/* What turns the colour of a verdict on; "\033[0m" ends it. */
const char *report_colour(enum verdict v);

/* Columns of the terminal; 0: it is none, and lines may be as long as they are. */
size_t report_width(FILE *out);

/*
 * Prints one line a finding (plus reason and remedy lines where it is not OK), worst first. On a terminal
 * that is too narrow for columns the texts follow each other, broken between words; a remedy stays whole, so
 * that it can be copied.
 */
int report_print_text(FILE *out, const struct finding_list *l);

/*
 * The same in groups under their titles, aligned over all of them; the group with the gravest finding first,
 * empty groups not at all. n is REPORT_GROUPS_MAX at most.
 */
#define REPORT_GROUPS_MAX 16
struct report_group {
        const char *title;
        const struct finding_list *list;
};
int report_print_groups(FILE *out, const struct report_group *groups, size_t n);

/* Prints v, indented by 2, sorted by key, and a newline, then drops the reference. -ENOMEM when v is NULL,
 * -EIO. */
int report_print_json(FILE *out, json_t *v);
