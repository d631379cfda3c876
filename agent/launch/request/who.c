/* SPDX-License-Identifier: Apache-2.0 */
#include "who.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "io.h"
#include "processes.h"

#define LOOKUP_SIZE 65536
#define CAPABILITIES 64

static int drop_all(void) {
        unsigned all[CAPABILITIES];

        for (unsigned i = 0; i < CAPABILITIES; i++)
                all[i] = i;
        return capabilities_drop(all, CAPABILITIES);
}

static void find_target(const struct who_asked *q, struct target *t) {
        _cleanup_free_ char *buf = malloc(LOOKUP_SIZE);
        struct passwd pw, *user = NULL;
        int n = WHO_GROUPS_MAX;

        t->error = ENOMEM;
        if (buf)
                t->error = q->user[0] ? getpwnam_r(q->user, &pw, buf, LOOKUP_SIZE, &user) :
                                        getpwuid_r(q->uid, &pw, buf, LOOKUP_SIZE, &user);
        if (!user)
                return;
        if (strlen(pw.pw_name) >= sizeof(t->name) ||
            strlen(pw.pw_dir ? pw.pw_dir : "/") >= sizeof(t->home)) {
                t->error = ENAMETOOLONG;
                return;
        }
        (void) snprintf(t->name, sizeof(t->name), "%s", pw.pw_name);
        (void) snprintf(t->home, sizeof(t->home), "%s", pw.pw_dir ? pw.pw_dir : "/");
        t->uid = pw.pw_uid;
        t->gid = pw.pw_gid;
        /* of more than there is room for, the first: what the others alone may see is not looked at */
        t->n_groups = getgrouplist(t->name, t->gid, t->groups, &n) < 0 ? WHO_GROUPS_MAX : (size_t) n;
        t->found = true;
}

int who_look(int fd, const void *data) {
        const struct who_asked *q = data;
        _cleanup_free_ struct who *w = calloc(1, sizeof(*w));
        _cleanup_host_ struct host h = HOST_NULL; /* the parent's is closed */
        int r = w ? drop_all() : -ENOMEM;

        if (r >= 0)
                r = host_open(q->host->real_root ? NULL : q->host->root, &h);
        if (r < 0)
                return r;
        w->caller = (struct caller){ .uid = q->uid, .gids = { q->groups[0] }, .pid = q->pid };
        authority_identify(&h, q->config, q->action, q->groups, q->n_groups, &w->caller);
        if (q->user)
                find_target(q, &w->target);
        return io_write_all(fd, w, sizeof(*w));
}

int who_take(const char *answer, size_t len, struct who *ret) {
        if (len != sizeof(*ret))
                return -EBADMSG;
        memcpy(ret, answer, sizeof(*ret));
        /* it comes from a process that others' modules ran in */
        if (ret->caller.n_granted > AUTHORITY_USERS_MAX || ret->target.n_groups > WHO_GROUPS_MAX ||
            !memchr(ret->caller.name, 0, sizeof(ret->caller.name)) ||
            !memchr(ret->caller.group, 0, sizeof(ret->caller.group)) ||
            !memchr(ret->target.name, 0, sizeof(ret->target.name)) ||
            !memchr(ret->target.home, 0, sizeof(ret->target.home)))
                return -EBADMSG;
        return 0;
}

int who_become(const struct target *t) {
        pid_t parent = getppid();

        if (geteuid() != 0)
                return 0;
        if (setgroups(t->n_groups, t->groups) < 0 || setresgid(t->gid, t->gid, t->gid) < 0 ||
            setresuid(t->uid, t->uid, t->uid) < 0)
                return -errno;
        /* the kernel forgets it with the user */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != parent)
                return -ECHILD;
        return drop_all();
}
