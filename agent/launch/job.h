/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run: its frozen specification, kept in jobs/NAME before its unit is asked for, and what is known of its
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
#include "restart.h"
#include "run_spec.h"
#include "texts.h"

#define JOB_NAME_MAX 41 /* run_name_is_valid() */
#define JOB_UNIT_MAX 80 /* "tpu-run-" NAME ".service" and NUL */
#define JOBS_KEPT 64 /* runs that ended: older ones are forgotten */
#define JOBS_ACTIVE_MAX 64
#define JOB_ARGV_MAX 1024
#define JOB_LABEL_SIZE 64
#define JOB_FILE_MAX (2 * 1024 * 1024)

enum job_state {
        JOB_STARTING,
        JOB_RUNNING,
        JOB_WAITING, /* it ended, and is to be started again */
        JOB_EXITED,
        _JOB_STATE_MAX,
};

struct job {
        /* Kept. */
        char name[JOB_NAME_MAX + 1];
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
        char intent[JOB_LABEL_SIZE], slice[JOB_LABEL_SIZE], worker[JOB_LABEL_SIZE];
        bool remote; /* asked for by the principal remote: it gets no new privileges */
        struct restarts restarts; /* done so far; then id and started_… are those of the last start */
        bool stop_asked; /* somebody ended it: it is not started again */
        usec_t preempted_real; /* when it was told of a preemption; 0: never */

        /* Known while we run. */
        enum job_state state;
        struct exit_record end; /* valid when exited */
        bool ending; /* it is gone, and why is looked at: its state is still the one before */
        uint32_t main_pid;
        char **secrets; /* before its start only: secret.h */
        char warning[384]; /* what could not be looked at before its start, or does not hold; "" */
        unsigned hints; /* bits of enum hint */
        char hint_text[_HINT_MAX][CAUSE_TEXT_MAX];
        char refused[384]; /* why the start of the next generation came to nothing; "" */
        char *control_group; /* of the run's slice, as systemd names it; NULL: not known yet */
};

const char *job_state_name(enum job_state s);
/* As people and tpu-hostd are told it: also "ending". */
const char *job_shown_state(const struct job *j);
const char *job_unit(const char *name, char buf[static JOB_UNIT_MAX]);
/* '-' nests slices (tpu-run-a-b.slice lies inside tpu-run-a.slice), so that a name's '-' is a '_' there. */
const char *job_slice(const char *name, char buf[static JOB_UNIT_MAX]);
/* argv joined by blanks, in one line, cut at size. */
const char *job_command(const struct job *j, char *buf, size_t size);

/* Takes out of the spec what stands in the job itself. */
void job_drop_texts(struct job *j);
struct job *job_free(struct job *j);
DEFINE_CLEANUP(struct job *, job_free)

/* The file is a Run__Kept of run.proto. */
int job_write(int jobs_fd, const struct job *j);
/* -ENOENT: there is none, or it could not be used and was set aside (state_file.h); -EBADMSG: no file of a
 * run of this name. The state is JOB_STARTING. */
int job_read(int jobs_fd, const char *name, struct job **ret);
