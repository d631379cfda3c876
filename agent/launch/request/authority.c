/* SPDX-License-Identifier: Apache-2.0 */
#include "authority.h"

#include <grp.h>
#include <pwd.h>

#include "config.h"
#include "journal.h"
#include "log.h"
#include "paths.h"
#include "texts.h"

#define GROUPS_MAX 4096
#define LOOKUP_SIZE 65536

static const struct {
        const char *name, *words;
} actions[] = {
        [ACTION_LIST] = { "list", "list runs" },
        [ACTION_START] = { "start", "start runs" },
        [ACTION_STOP] = { "stop", "stop runs" },
        [ACTION_CAPTURE] = { "capture", "take stacks of runs" },
        [ACTION_SIGNAL] = { "signal", "notify runs of a preemption" },
        [ACTION_ENVIRONMENT] = { "environment", "see the environment of runs" },
        [ACTION_LOG] = { "log", "read the logs of containers" },
        [ACTION_LINES] = { "lines", "see what runs print" },
};
_Static_assert(ELEMENTSOF(actions) == _ACTION_MAX, "every action has a name");

static const char *action_name(enum action a) {
        return a < _ACTION_MAX ? actions[a].name : "?";
}

/* --- The file ------------------------------------------------------------------------------------------ */

static int parse_user(const char *name, struct grants *g, char why[static 96]) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct passwd pw, *user = NULL;

        if (!buf || (getpwnam_r(name, &pw, buf, LOOKUP_SIZE, &user) != 0 && !user) || !user)
                return text_fail(why, 96, -ESRCH, "there is no user '%.32s' on this host", name);
        if (user->pw_uid < AUTHORITY_UID_MIN)
                return text_fail(why, 96, -EPERM,
                                 "%.32s is root or a system user: never started from remote", name);
        if (g->n_users == AUTHORITY_USERS_MAX)
                return text_fail(why, 96, -E2BIG, "more than %d users", AUTHORITY_USERS_MAX);
        g->users[g->n_users++] = user->pw_uid;
        return 0;
}

/* One bad name makes the whole line bad: what was in force before it stays. */
static int parse_users(const char *value, void *dest, char why[static 96]) {
        struct grants *g = dest, found = *g;
        char text[256], *save = NULL;
        int r = 0;

        if (strlen(value) >= sizeof(text))
                return text_fail(why, 96, -E2BIG, "too long");
        (void) snprintf(text, sizeof(text), "%s", value);
        found.n_users = 0;
        for (char *name = strtok_r(text, " ,\t", &save); name && r == 0;
             name = strtok_r(NULL, " ,\t", &save))
                r = parse_user(name, &found, why);
        if (r == 0)
                *g = found;
        return r;
}

/* Another caller's business, which is not looked up. */
static int pass_users(const char *value, void *dest, char why[static 96]) {
        (void) value, (void) dest, (void) why;
        return 0;
}

/* One bad directory makes the whole line bad, too. */
static int parse_mounts(const char *value, void *dest, char why[static 96]) {
        struct grants *g = dest;
        char text[256], found[ENGINE_MOUNTS_MAX][ENGINE_MOUNT_MAX], *save = NULL;
        size_t n = 0;

        if (strlen(value) >= sizeof(text))
                return text_fail(why, 96, -E2BIG, "too long");
        (void) snprintf(text, sizeof(text), "%s", value);
        for (char *mount = strtok_r(text, " ,\t", &save); mount;
             mount = strtok_r(NULL, " ,\t", &save)) {
                if (n == ENGINE_MOUNTS_MAX)
                        return text_fail(why, 96, -E2BIG, "more than %d directories", ENGINE_MOUNTS_MAX);
                if (!engine_mount_is_valid(mount))
                        return text_fail(why, 96, -EINVAL,
                                         "'%.32s' is no absolute path, or has letters that none has", mount);
                memcpy(found[n++], mount, strlen(mount) + 1);
        }
        memcpy(g->mounts, found, n * sizeof(found[0]));
        g->n_mounts = n;
        return 0;
}

static int load_grants(const struct host *h, const char *config, bool users, FILE *show, struct grants *ret,
                       unsigned *ret_warnings) {
        struct grants g = { .n_users = 0 };
        const struct config_item items[] = {
                CONFIG_ITEM("Authority", "Group", config_parse_string63, g.group, GROUP_RUN),
                CONFIG_ITEM("Container", "Mount", parse_mounts, &g, ""),
                CONFIG_ITEM("Container", "Docker", config_parse_bool, &g.docker, "no"),
                CONFIG_ITEM("Remote", "Start", users ? parse_users : pass_users, &g, ""),
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

int grants_load(const struct host *h, const char *config, FILE *show, struct grants *ret,
                unsigned *ret_warnings) {
        return load_grants(h, config, true, show, ret, ret_warnings);
}

int grants_load_containers(const struct host *h, const char *config, struct grants *ret) {
        unsigned warnings = 0;

        return load_grants(h, config, false, NULL, ret, &warnings);
}

/* --- Who asks ------------------------------------------------------------------------------------------ */

static bool is_member(const char *user, gid_t own, gid_t wanted) {
        _cleanup_free_ gid_t *groups = calloc(GROUPS_MAX, sizeof(*groups));
        int n = GROUPS_MAX;

        if (own == wanted)
                return true;
        if (!groups || getgrouplist(user, own, groups, &n) < 0)
                return false;
        for (int i = 0; i < n; i++)
                if (groups[i] == wanted)
                        return true;
        return false;
}

/* Of the file, what concerns this caller: it has no say over root. Users are looked up for remote alone. */
static void read_grants(const struct host *h, const char *config, bool users, struct caller *c) {
        struct grants g = { .n_users = 0 };
        unsigned warnings = 0;
        int r;

        (void) snprintf(c->group, sizeof(c->group), "%s", GROUP_RUN);
        r = c->uid == 0 ? 0 : load_grants(h, config, users, NULL, &g, &warnings);
        if (r < 0)
                (void) log_warning_errno(r, "the authority file cannot be read, it grants nothing now: %m");
        if (r < 0 || c->uid == 0)
                return;
        memcpy(c->group, g.group, sizeof(c->group));
        memcpy(c->granted, g.users, sizeof(c->granted));
        c->n_granted = g.n_users;
}

/* groups: of the process. */
static bool is_in(const struct caller *c, const char *group, const gid_t *groups, size_t n) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct group gr, *found = NULL;

        if (!buf || getgrnam_r(group, &gr, buf, LOOKUP_SIZE, &found) != 0 || !found)
                return false;
        for (size_t i = 0; i < n; i++)
                if (groups[i] == gr.gr_gid)
                        return true;
        return c->gids[0] == gr.gr_gid || is_member(c->name, c->gids[1], gr.gr_gid);
}

void authority_identify(const struct host *h, const char *config, enum action a, const gid_t *groups,
                        size_t n, struct caller *c) {
        /* Those that may read the journal's files on Debian and Ubuntu. */
        static const char *const journal_groups[] = { "systemd-journal", "adm" };
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct passwd pw, *user = NULL;

        (void) snprintf(c->name, sizeof(c->name), "%u", (unsigned) c->uid);
        c->gids[1] = c->gids[0];
        if (buf && getpwuid_r(c->uid, &pw, buf, LOOKUP_SIZE, &user) == 0 && user) {
                (void) snprintf(c->name, sizeof(c->name), "%s", pw.pw_name);
                c->remote = streq(pw.pw_name, USER_HOSTD);
                c->gids[1] = pw.pw_gid;
        }
        read_grants(h, config, c->remote && (a == ACTION_START || a == ACTION_STOP), c);
        c->member = c->uid != 0 && !c->remote && is_in(c, c->group, groups, n);
        c->reads_journal = c->uid == 0;
        for (size_t i = 0; a == ACTION_LINES && i < ELEMENTSOF(journal_groups) && !c->reads_journal; i++)
                c->reads_journal = is_in(c, journal_groups[i], groups, n);
}

/* --- What they may ------------------------------------------------------------------------------------- */

/* What comes over the network: it ends at the authority file. */
static int decide_remote(const struct caller *c, enum action a, uid_t owner, const char *name,
                         struct problem *p) {
        char remedy[256];

        if (a == ACTION_CAPTURE || a == ACTION_SIGNAL || a == ACTION_LOG)
                return 0;
        if (owner < AUTHORITY_UID_MIN)
                return problem_set(p, -EACCES,
                                   "name a user of people (uid 1000 or more), or run tpuctl on the host "
                                   "itself",
                                   "requests that come through %s may not %s as root or a system user",
                                   USER_HOSTD, actions[a].words);
        for (size_t i = 0; i < c->n_granted; i++)
                if (c->granted[i] == owner)
                        return 0;
        (void) snprintf(remedy, sizeof(remedy),
                        "as root of this host, in " PATH_SITE
                        "/authority.conf.d/10-remote.conf: section [Remote], line "
                        "Start=%.32s",
                        name);
        return problem_set(p, -EACCES, remedy,
                           "requests that come through %s may not %s of user %.32s on this host: no "
                           "authority file grants it",
                           USER_HOSTD, actions[a].words, name);
}

int authority_decide(const struct caller *c, enum action a, uid_t owner, const char *name,
                     struct problem *p) {
        char remedy[192];

        if (c->uid == 0 || a == ACTION_LIST)
                return 0;
        if (c->remote)
                return decide_remote(c, a, owner, name, p);
        if (a == ACTION_LOG)
                return problem_set(p, -EACCES, "this is tpu-hostd's to read", "user %s may not %s", c->name,
                                   actions[a].words);
        if (!c->member) {
                (void) snprintf(remedy, sizeof(remedy), "sudo usermod -aG %s %s", c->group, c->name);
                return problem_set(p, -EACCES, remedy,
                                   "user %s may not %s: not root and not in group %s", c->name,
                                   actions[a].words, c->group);
        }
        if (owner != c->uid)
                return problem_set(p, -EACCES, "use sudo, or act as the user of the run",
                                   a == ACTION_START ? "user %s may %s as itself only"
                                                     : "user %s may %s of its own only",
                                   c->name, actions[a].words);
        return 0;
}

/* --- The record ---------------------------------------------------------------------------------------- */

void audit(const struct caller *c, enum action a, const char *name, const char *detail, int result,
           const char *reason) {
        /* without a journal it went to standard error */
        (void) journal_event(EVENT_AS(LAUNCH_ASKED, result == -EACCES ? SEVERITY_WARN : SEVERITY_INFO,
                                      .action = action_name(a), .run = name, .detail = detail, .by = c->name,
                                      .by_uid = c->uid, .by_pid = c->pid,
                                      .result = result < 0 ? "refused" : "accepted",
                                      .reason = result < 0 ? reason : ""));
}
