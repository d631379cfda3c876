/* SPDX-License-Identifier: Apache-2.0 */
#include "authority_file.h"

#include <pwd.h>

#include "config.h"
#include "paths.h"

#define LOOKUP_SIZE 65536

static int parse_user(const char *name, struct grants *g, char why[static 96]) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct passwd pw, *user = NULL;

        if (!buf || (getpwnam_r(name, &pw, buf, LOOKUP_SIZE, &user) != 0 && !user) || !user) {
                (void) snprintf(why, 96, "there is no user '%.32s' on this host", name);
                return -ESRCH;
        }
        if (user->pw_uid < AUTHORITY_UID_MIN) {
                (void) snprintf(why, 96, "%.32s is root or a system user: never started from remote", name);
                return -EPERM;
        }
        if (g->n_users == AUTHORITY_USERS_MAX) {
                (void) snprintf(why, 96, "more than %d users", AUTHORITY_USERS_MAX);
                return -E2BIG;
        }
        g->users[g->n_users++] = user->pw_uid;
        return 0;
}

/* One bad name makes the whole line bad: what was in force before it stays. */
static int parse_users(const char *value, void *dest, char why[static 96]) {
        struct grants *g = dest, found = *g;
        char text[256], *save = NULL;
        int r = 0;

        if (strlen(value) >= sizeof(text)) {
                (void) snprintf(why, 96, "too long");
                return -E2BIG;
        }
        (void) snprintf(text, sizeof(text), "%s", value);
        found.n_users = 0;
        for (char *name = strtok_r(text, " ,\t", &save); name && r == 0;
             name = strtok_r(NULL, " ,\t", &save))
                r = parse_user(name, &found, why);
        if (r == 0)
                *g = found;
        return r;
}

int grants_load(const struct host *h, const char *config, FILE *show, struct grants *ret,
                unsigned *ret_warnings) {
        struct grants g = { .n_users = 0 };
        const struct config_item items[] = {
                { "Authority", "Group", config_parse_string63, g.group, GROUP_RUN },
                { "Remote", "Start", parse_users, &g, "" },
        };
        struct config c = { .items = items, .n_items = ELEMENTSOF(items) };
        int r;

        r = config_load(&c, h, "authority", config);
        if (r == 0) {
                *ret_warnings += c.warnings;
                if (show)
                        r = config_show(&c, show);
                *ret = g;
        }
        config_clear(&c);
        return r;
}

int authority_report_config(const struct host *h, const char *config, FILE *out, unsigned *ret_warnings) {
        struct grants g;

        return grants_load(h, config, out, &g, ret_warnings);
}
