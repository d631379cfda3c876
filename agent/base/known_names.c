/* SPDX-License-Identifier: Apache-2.0 */
#include "known_names.h"

#include <ctype.h>

static bool is_other(char a, char b) {
        return tolower((unsigned char) a) != tolower((unsigned char) b);
}

/* How many letters were mistyped, left out, added or swapped with their neighbour, in any case. */
static size_t typing_errors(const char *a, const char *b) {
        size_t rows[3][KNOWN_NAME_MAX], *row = rows[0], *last = rows[1], *before = rows[2], m = strlen(b);

        for (size_t j = 0; j <= m; j++)
                row[j] = j;
        for (size_t i = 1; a[i - 1]; i++) {
                size_t *free_row = before;

                before = last;
                last = row;
                row = free_row;
                row[0] = i;
                for (size_t j = 1; j <= m; j++) {
                        row[j] = MIN(MIN(last[j], row[j - 1]) + 1,
                                     last[j - 1] + is_other(a[i - 1], b[j - 1]));
                        if (i > 1 && j > 1 && !is_other(a[i - 1], b[j - 2]) && !is_other(a[i - 2], b[j - 1]))
                                row[j] = MIN(row[j], before[j - 2] + 1);
                }
        }
        return row[m];
}

struct known_names known_names(const char *wanted) {
        struct known_names k = { .distance = SIZE_MAX };

        for (size_t i = 0; wanted[i] && i + 1 < sizeof(k.wanted); i++)
                k.wanted[i] = wanted[i] >= ' ' && wanted[i] <= '~' ? wanted[i] : '?';
        return k;
}

static void list_name(struct known_names *k, const char *name) {
        size_t len = strlen(k->list), room = sizeof(k->list) - len;

        /* Once one was left out the others follow, so that those that are listed stand in their order. */
        if (k->listed == k->n && strlen(name) + 2 < room) {
                (void) snprintf(k->list + len, room, "%s%s", len > 0 ? ", " : "", name);
                k->listed++;
        }
}

void known_names_add(struct known_names *k, const char *name) {
        size_t n = strlen(name), errors;

        if (n > 0 && n < KNOWN_NAME_MAX) {
                list_name(k, name);
                errors = typing_errors(k->wanted, name);
                if (errors < k->distance && errors <= MAX(n / 3, (size_t) 1) && errors < n) {
                        k->distance = errors;
                        memcpy(k->nearest, name, n + 1);
                }
        }
        k->n++;
}

const char *known_names_meant(const struct known_names *k, char buf[static KNOWN_TEXT_MAX]) {
        buf[0] = '\0';
        if (k->nearest[0])
                (void) snprintf(buf, KNOWN_TEXT_MAX, "; did you mean '%s'?", k->nearest);
        return buf;
}

const char *known_names_text(const struct known_names *k, char buf[static KNOWN_TEXT_MAX]) {
        size_t len = strlen(known_names_meant(k, buf)), more = k->n - k->listed;
        const char *between = len > 0 ? "" : ";";
        char *end = buf + len;

        if (k->n == 0)
                (void) snprintf(end, KNOWN_TEXT_MAX - len, "; none is known");
        else if (more == 0)
                (void) snprintf(end, KNOWN_TEXT_MAX - len, "%s known: %s", between, k->list);
        else if (k->listed > 0)
                (void) snprintf(end, KNOWN_TEXT_MAX - len, "%s known: %s and %zu more", between, k->list,
                                more);
        else
                (void) snprintf(end, KNOWN_TEXT_MAX - len, "%s known: %zu", between, more);
        return buf;
}
