/* SPDX-License-Identifier: Apache-2.0 */
#include "fold.h"

#define SUBJECTS_WIDTH 34 /* of the subjects named on a shared line; the rest is counted */

static bool found_what_was_wanted(const struct finding *f) {
        return f->wanted[0] && streq(f->found, f->wanted);
}

static bool are_alike(const struct finding *a, const struct finding *b) {
        return a->verdict == VERDICT_OK && b->verdict == VERDICT_OK && streq(a->check, b->check) &&
               (streq(a->found, b->found) || (found_what_was_wanted(a) && found_what_was_wanted(b)));
}

static bool has_predecessor(const struct finding_list *l, size_t i) {
        for (size_t k = 0; k < i; k++)
                if (are_alike(&l->items[k], &l->items[i]))
                        return true;
        return false;
}

/* Takes one more subject onto the line, or counts it in *more. */
static void take_subject(struct finding *line, const char *subject, size_t *more) {
        size_t n = strlen(line->subject), added = strlen(subject);

        if (*more > 0 || n + 2 + added > SUBJECTS_WIDTH)
                (*more)++;
        else
                (void) snprintf(line->subject + n, sizeof(line->subject) - n, ", %s", subject);
}

static struct finding shared_line(const struct finding_list *l, size_t first) {
        struct finding line = l->items[first];
        size_t more = 0, n;

        for (size_t k = first + 1; k < l->n; k++) {
                if (!are_alike(&l->items[first], &l->items[k]))
                        continue;
                take_subject(&line, l->items[k].subject, &more);
                if (!streq(line.found, l->items[k].found))
                        finding_set(line.found, "as wanted");
        }
        n = strlen(line.subject);
        if (more > 0)
                (void) snprintf(line.subject + n, sizeof(line.subject) - n, " and %zu more", more);
        line.wanted[0] = '\0';
        return line;
}

static bool has_successor(const struct finding_list *l, size_t i) {
        for (size_t k = i + 1; k < l->n; k++)
                if (are_alike(&l->items[i], &l->items[k]))
                        return true;
        return false;
}

int fold_findings(const struct finding_list *l, struct finding_list *ret) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < l->n; i++) {
                struct finding line;

                if (has_predecessor(l, i))
                        continue;
                line = has_successor(l, i) ? shared_line(l, i) : l->items[i];
                r = finding_list_add(ret, &line);
        }
        return r;
}
