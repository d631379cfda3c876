/* SPDX-License-Identifier: Apache-2.0 */
#include "authority.h"

#include <grp.h>
#include <pwd.h>
#include <stdarg.h>

#include "paths.h"

#define GROUPS_MAX 4096
#define LOOKUP_SIZE 65536

static const char *const action_names[] = {
        [ACTION_LIST] = "list runs",
        [ACTION_START] = "start runs",
        [ACTION_STOP] = "stop runs",
        [ACTION_CAPTURE] = "take stacks of runs",
};
_Static_assert(ELEMENTSOF(action_names) == _ACTION_MAX, "every action has a name");

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

void authority_identify(const struct ucred *peer, struct caller *ret) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct caller c = { .uid = peer->uid };
        struct passwd pw, *user = NULL;
        struct group gr, *group = NULL;
        gid_t wanted = 0;

        (void) snprintf(c.name, sizeof(c.name), "%u", (unsigned) peer->uid);
        if (buf && getgrnam_r(GROUP_RUN, &gr, buf, LOOKUP_SIZE, &group) == 0 && group)
                wanted = gr.gr_gid;
        if (group && peer->gid == wanted)
                c.member = true;
        if (buf && getpwuid_r(peer->uid, &pw, buf, LOOKUP_SIZE, &user) == 0 && user) {
                (void) snprintf(c.name, sizeof(c.name), "%s", pw.pw_name);
                c.remote = streq(pw.pw_name, USER_HOSTD);
                if (group && !c.member)
                        c.member = is_member(c.name, pw.pw_gid, wanted);
        }
        *ret = c;
}

__attribute__((format(printf, 3, 4))) static int refuse(struct refusal *ret, const char *remedy,
                                                        const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(ret->reason, sizeof(ret->reason), fmt, ap);
        va_end(ap);
        (void) snprintf(ret->remedy, sizeof(ret->remedy), "%s", remedy);
        return -EACCES;
}

int authority_decide(const struct caller *c, enum action a, uid_t owner, struct refusal *ret) {
        char remedy[192];

        if (c->uid == 0 || a == ACTION_LIST)
                return 0;
        if (c->remote) {
                if (a == ACTION_CAPTURE)
                        return 0;
                return refuse(ret,
                              "run tpuctl on the host itself, as root or as a member of group " GROUP_RUN,
                              "requests that come through %s may not %s on this host", USER_HOSTD,
                              action_names[a]);
        }
        if (!c->member) {
                (void) snprintf(remedy, sizeof(remedy), "sudo usermod -aG %s %s", GROUP_RUN, c->name);
                return refuse(ret, remedy, "user %s may not %s: not root and not in group %s", c->name,
                              action_names[a], GROUP_RUN);
        }
        if (owner != c->uid)
                return refuse(ret, "use sudo, or act as the user of the run",
                              a == ACTION_START ? "user %s may %s as itself only" :
                                                  "user %s may %s of its own only",
                              c->name, action_names[a]);
        return 0;
}
