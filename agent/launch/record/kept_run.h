/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run: its frozen specification, kept in runs/NAME before its unit is asked for, and what is known of its
 * state. The state is never written: it follows from the unit and from the exit record (exit_record.h), so
 * that it cannot be stale.
 *
 * The specification holds the run's environment, which may hold secrets: the file is root's alone, and
 * nothing here prints it.
 */
#include <sys/types.h>

#include "cause.h"
#include "environment.h"
#include "exit_record.h"
#include "host.h"
#include "paths.h"
#include "run_spec.h"
#include "texts.h"

#define RUN_NAME_MAX 41 /* run_name_is_valid() */
#define RUN_UNIT_MAX 80 /* "tpu-run-" NAME ".service" and NUL */
#define RUNS_KEPT 64 /* runs that ended: older ones are forgotten */
#define RUNS_ACTIVE_MAX 64
#define RUN_ARGV_MAX 1024
#define RUN_LABEL_SIZE 64
#define RUN_UID_FIELD "TPU_RUN_UID" /* of each line in the journal: whose run it is, as a number */
#define RUN_FILE_MAX (2 * 1024 * 1024)

enum launch_state {
        LAUNCH_STARTING,
        LAUNCH_RUNNING,
        LAUNCH_WAITING, /* it ended, and is to be restarted */
        LAUNCH_EXITED,
        _LAUNCH_STATE_MAX,
};

struct holder_group; /* agent/launch/adopt/holders.h */

struct kept_run {
        /* Kept. */
        char name[RUN_NAME_MAX + 1];
        char id[RUN_ID_MAX]; /* of this run, not of the name */
        char boot_id[BOOT_ID_MAX];
        char malloc[192]; /* what the allocator became, and why */
        uid_t uid;
        char *user, *directory;
        /* NULL-terminated; env is "KEY=VALUE", or "KEY" for one that must not be inherited */
        char **argv, **env;
        usec_t started_real, started_boot;
        Run__Spec *spec; /* as asked for; of what stands above, above counts, and it is not in here */
        uint64_t generation; /* of the intent; 0: a local run */
        char intent[RUN_LABEL_SIZE], slice[RUN_LABEL_SIZE], worker[RUN_LABEL_SIZE];
        bool remote; /* asked for by the principal remote: it gets no new privileges */
        char image_id[65]; /* of a run in a container: which image its name was of; 64 hexadecimal digits */
        struct restarts restarts; /* done so far; then id and started_… are those of the last start */
        bool stop_asked; /* somebody ended it: it is not restarted */
        usec_t preempted_real; /* when it was notified of a preemption; 0: never */

        /* Known while we run. */
        enum launch_state state;
        struct exit_record end; /* valid when exited */
        bool ending; /* it is gone, and why is looked at: its state is still the one before */
        uint32_t main_pid;
        char **secrets; /* before its start only: secret.h */
        char **mounts; /* likewise, of a run in a container: what the site mounts; then its user's groups */
        gid_t gid, *groups;
        size_t n_groups;
        char warning[384]; /* what could not be looked at before its start, or does not hold; "" */
        char *control_group; /* of the run's slice, as systemd names it; NULL: not known yet */
        /* Of a run that somebody else started (adopted.h): who holds the chips. NULL: we started it. Such a
         * run has no file, no unit of ours and no record of its end. */
        struct holder_group *held;
        bool only_here; /* likewise: only root and its user see it, and so it leaves no host */
};

/* Whether this user sees the run. tpu-hostd is one: what it does not know is in no telemetry. */
bool kept_run_is_shown_to(const struct kept_run *kept, uid_t uid);

/* The value of a variable of its environment, which is dropped at its end; "" when it has none. */
const char *kept_run_variable(const struct kept_run *kept, const char *name);
const char *launch_state_name(enum launch_state s);
/* What people and tpu-hostd are shown: also "ending". */
const char *kept_run_shown_state(const struct kept_run *kept);
const char *run_unit(const char *name, char buf[static RUN_UNIT_MAX]);
/* '-' nests slices (tpu-run-a-b.slice lies inside tpu-run-a.slice), so that a name's '-' is a '_' there. */
const char *run_slice(const char *name, char buf[static RUN_UNIT_MAX]);
/* Whether an engine runs it in a container. Its directory is inside, and empty for the image's own. */
bool kept_run_has_image(const struct kept_run *kept);
/* argv joined by blanks, in one line, cut at size; without the values of secrets (secrets_shown()). */
const char *run_command(const struct kept_run *kept, char *buf, size_t size);

/* Takes out of the spec what stands in the members above it. */
void kept_run_drop_texts(struct kept_run *kept);
struct kept_run *kept_run_free(struct kept_run *kept);
DEFINE_CLEANUP(struct kept_run *, kept_run_free)

/* The file is a Run__Kept of run.proto. */
int kept_run_write(int runs_fd, const struct kept_run *kept);
/* -ENOENT: there is none, or it could not be used and was set aside (state_file.h); -EBADMSG: no file of a
 * run of this name. The state is LAUNCH_STARTING. */
int kept_run_read(int runs_fd, const char *name, struct kept_run **ret);

/* --- The directories of tpu-launchd: what is kept, and what is of this boot. runs_new() makes them --- */

#define STATE_RUNS PATH_LAUNCHD_STATE "/runs" /* one file a run: its specification, 0600 */
#define STATE_EXITS PATH_LAUNCHD_STATE "/exits" /* one file a run that ended: exit_record.h */
/* What is kept of a run that ended, root's alone: run_words.h. */
#define STATE_WORDS PATH_LAUNCHD_STATE "/words"
/* One file a run, handover.h. Not listable, so that a name is no news. */
#define STATE_HANDOVER PATH_LAUNCHD_RUNTIME "/handover"
/* One file a run that was given secrets, root's alone: secret.h. */
#define STATE_SECRETS PATH_LAUNCHD_RUNTIME "/secrets"
/* Makes what is missing of one of them, below a directory that is there, and opens it. -errno. */
int state_make(const struct host *h, const char *path, mode_t mode);
