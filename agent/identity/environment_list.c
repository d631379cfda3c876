/* SPDX-License-Identifier: Apache-2.0 */
#include "environment_list.h"
#include "grow.h"
#include "json_text.h"
#include "texts.h"
#include "utf8.h"

/* --- What a user may set ------------------------------------------------------------------------------- */

bool environment_text_is_valid(const char *text) {
        return utf8_is_text(text);
}

/* The length of NAME in "NAME=VALUE", or 0 when there is no good one. */
static size_t name_length(const char *assignment) {
        size_t n = strspn(assignment, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_0123456789");

        return assignment[n] == '=' && !(assignment[0] >= '0' && assignment[0] <= '9') ? n : 0;
}

/* Values may be secrets: a complaint names the variable only. */
int environment_check_assignment(const char *a, char why[static 256]) {
        size_t n = name_length(a);

        if (n == 0)
                return text_fail(why, 256, -EINVAL,
                                 "'%.*s' is not NAME=VALUE with a name of letters, digits and '_'",
                                 (int) MIN(strcspn(a, "="), (size_t) 64),
                                 environment_text_is_valid(a) ? a : "(binary)");
        if (strlen(a) > ENVIRONMENT_ASSIGNMENT_MAX)
                return text_fail(why, 256, -EINVAL, "variable %.*s is longer than %d bytes",
                                 (int) MIN(n, (size_t) 64), a, ENVIRONMENT_ASSIGNMENT_MAX);
        if (!environment_text_is_valid(a + n + 1))
                return text_fail(why, 256, -EINVAL, "variable %.*s holds bytes that are not UTF-8 text",
                                 (int) MIN(n, (size_t) 64), a);
        return 0;
}

/* --- The list ------------------------------------------------------------------------------------------ */

static struct environment_entry *find_entry(const struct environment *e, const char *assignment,
                                            size_t name) {
        for (size_t i = 0; i < e->n; i++)
                if (strncmp(e->entries[i].assignment, assignment, name) == 0 &&
                    e->entries[i].assignment[name] == '=')
                        return &e->entries[i];
        return NULL;
}

static int append_entry(struct environment *e, const char *assignment, const char *reason) {
        struct environment_entry *entry;

        if (grow_by_one(&e->entries, e->n, sizeof(*e->entries)) < 0)
                return -ENOMEM;
        entry = &e->entries[e->n++];
        *entry = (struct environment_entry){ .assignment = strdup(assignment), .reason = strdup(reason) };
        return entry->assignment && entry->reason ? 0 : -ENOMEM;
}

static int replace(char **text, const char *fresh) {
        char *copy = strdup(fresh);

        if (!copy)
                return -ENOMEM;
        free(*text);
        *text = copy;
        return 0;
}

int environment_add_user(struct environment *e, const char *assignment, char why[static 256]) {
        int r = environment_check_assignment(assignment, why);
        struct environment_entry *known;

        if (r < 0)
                return r;
        known = find_entry(e, assignment, name_length(assignment));
        return known ? replace(&known->assignment, assignment)
                     : append_entry(e, assignment, "set by the user");
}

/* ret_theirs: the entry of that name, NULL when there is none. */
static int assign(const struct environment *e, const char *name, const char *value, char **ret,
                  struct environment_entry **ret_theirs) {
        char *assignment;

        if (strlen(name) + 1 + strlen(value) > ENVIRONMENT_ASSIGNMENT_MAX)
                return -E2BIG;
        if (asprintf(&assignment, "%s=%s", name, value) < 0)
                return -ENOMEM;
        *ret_theirs = find_entry(e, assignment, strlen(name));
        *ret = assignment;
        return 0;
}

int environment_add(struct environment *e, const char *name, const char *value, const char *reason) {
        _cleanup_free_ char *assignment = NULL, *text = NULL;
        struct environment_entry *theirs;
        int r = assign(e, name, value, &assignment, &theirs);

        if (r < 0)
                return r;
        if (!theirs)
                return append_entry(e, assignment, reason);
        if (streq(theirs->assignment, assignment))
                return 0;
        if (asprintf(&text, "yours '%.200s' kept, ours would be '%.200s' (%s)",
                     theirs->assignment + strlen(name) + 1, value, reason) < 0) {
                text = NULL;
                return -ENOMEM;
        }
        return environment_complain(e, name, text);
}

int environment_extend(struct environment *e, const char *name, const char *value, const char *reason) {
        _cleanup_free_ char *assignment = NULL;
        struct environment_entry *theirs;
        int r = assign(e, name, value, &assignment, &theirs);

        if (r < 0)
                return r;
        if (!theirs)
                return append_entry(e, assignment, reason);
        r = replace(&theirs->reason, reason);
        return r < 0 ? r : replace(&theirs->assignment, assignment);
}

int environment_complain(struct environment *e, const char *name, const char *text) {
        struct environment_entry *theirs = find_entry(e, name, strlen(name));
        char *both;

        if (!theirs)
                return 0;
        if (!theirs->conflict)
                return replace(&theirs->conflict, text);
        if (asprintf(&both, "%s; %s", theirs->conflict, text) < 0)
                return -ENOMEM;
        free(theirs->conflict);
        theirs->conflict = both;
        return 0;
}

const char *environment_get(const struct environment *e, const char *name) {
        const struct environment_entry *entry = find_entry(e, name, strlen(name));

        return entry ? entry->assignment + strlen(name) + 1 : NULL;
}

json_t *environment_to_json(const struct environment *e) {
        json_t *array = json_array();

        for (size_t i = 0; i < e->n; i++) {
                const struct environment_entry *x = &e->entries[i];
                size_t n = strcspn(x->assignment, "=");

                array = json_list_add(array, json_pack("{s:s%, s:s, s:s, s:s?}", "name", x->assignment, n,
                                                       "value", x->assignment + n + 1, "reason", x->reason,
                                                       "conflict", x->conflict));
        }
        return array;
}

void environment_clear(struct environment *e) {
        for (size_t i = 0; i < e->n; i++) {
                free(e->entries[i].assignment);
                free(e->entries[i].reason);
                free(e->entries[i].conflict);
        }
        free(e->entries);
        *e = ENVIRONMENT_NULL;
}
