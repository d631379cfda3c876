/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who may do what: decided on the caller's own credentials, as the kernel reports them, and on the authority
 * file. authority_decide() is pure.
 *
 *   root                      everything
 *   members of the group      start runs as themselves; stop, signal and capture runs of their own
 *   the user tpu-hostd        is the principal "remote", for what comes over the network: it may ask for a
 *                             capture of any run (stacks, never values; with native frames one round in 5
 *                             minutes), and deliver the preemption signal that a run's own spec names;
 *                             it starts and stops runs of the users that the file names, and of nobody else
 *   anyone                    may list runs, ask who has the devices, and read what runs of its own print
 *
 * The file is "authority" (config.h), read again for each caller that it matters for:
 *   [Authority] Group=tpu-run          the group
 *   [Remote]    Start=alice bob        users whose runs may be started, stopped and replaced from remote
 *   [Container] Mount=/data /srv:ro    directories that each run in a container sees, at the same place
 *               Docker=yes             docker may make containers of runs, too
 * A user named there is never root nor a system user (uid below 1000: Debian's login.defs, SYS_UID_MAX 999),
 * whatever the file says: such a line is refused with file and line, and grants nothing. What is granted is
 * the user's own rights without new privileges (unit_message.c): sudo does not work in such a run. A user
 * who is in a group that is as good as root (docker, disk) still is; do not name such a user.
 */
#include <sys/socket.h>
#include <sys/types.h>

#include "base.h"
#include "engine.h"
#include "host.h"
#include "problem.h"

#define AUTHORITY_USERS_MAX 32
#define AUTHORITY_UID_MIN 1000

enum action {
        ACTION_LIST,
        ACTION_START,
        ACTION_STOP,
        ACTION_CAPTURE,
        ACTION_SIGNAL, /* the preemption of a run, as its own spec says */
        ACTION_ENVIRONMENT, /* to see that of another's run */
        ACTION_LOG, /* of a container that holds the chips: root and tpu-hostd */
        ACTION_LINES, /* to see what a run prints: answer_lines.h decides */
        _ACTION_MAX,
};

struct caller {
        uid_t uid;
        gid_t gids[2]; /* of the process, and the user's own */
        pid_t pid;
        char name[64]; /* of the user, or its number */
        bool remote; /* the user tpu-hostd */
        bool member; /* of the group */
        bool reads_journal; /* all of it: asked for ACTION_LINES alone */
        char group[64]; /* the group's name */
        uid_t granted[AUTHORITY_USERS_MAX]; /* to remote: whose runs it may start and stop */
        size_t n_granted;
};

/* What the file says. */
struct grants {
        char group[64];
        uid_t users[AUTHORITY_USERS_MAX];
        size_t n_users;
        char mounts[ENGINE_MOUNTS_MAX][ENGINE_MOUNT_MAX]; /* engine_mount_is_valid() */
        size_t n_mounts;
        bool docker;
};
/* -errno: it is not known what it grants. show: NULL, or where what is in force is printed. *ret_warnings
 * counts on. */
int grants_load(const struct host *h, const char *config, FILE *show, struct grants *ret,
                unsigned *ret_warnings);
/* The same of what concerns containers alone: no user is looked up, and so nothing hangs. */
int grants_load_containers(const struct host *h, const char *config, struct grants *ret);

/*
 * Looks the caller up (uid, gids[0] and pid are known) in the user database, and in the authority file
 * (config: --config, or NULL) where that says something about it and this action. A file that cannot be
 * read grants nothing. groups: those of the caller's process, as the kernel knows them: who has the group
 * there is a member, and the database, which may be far away, is not asked for all groups of the user.
 */
void authority_identify(const struct host *h, const char *config, enum action a, const gid_t *groups,
                        size_t n, struct caller *c);

/*
 * owner, name: the user whose run it is, or is to be. Returns 0, or -EACCES with p.
 */
int authority_decide(const struct caller *c, enum action a, uid_t owner, const char *name,
                     struct problem *p);

/*
 * The journal's record of each acting call: the event tpu.launch.asked. How a run that was accepted then
 * started or ended is in lines of its own. name: of the run, or "". result: 0 or -errno, with reason.
 */
#define AUDIT_DETAIL_MAX 80
void audit(const struct caller *c, enum action a, const char *name, const char *detail, int result,
           const char *reason);
