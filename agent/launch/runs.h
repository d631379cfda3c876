/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All runs of this host: from their files at start, through their units, to their records. Owns the runs.
 * Its input is unit_events; it reports by runs_events. It never waits.
 */
#include <systemd/sd-event.h>

#include "child.h"
#include "host.h"
#include "kept_run.h"
#include "problem.h"
#include "unit.h"

/*
 * One capture of a run: tpu-stack as a child, whose answer (proto/capture.proto, as gzip) goes on as it is.
 * The tool bounds it; here it is bounded in size and time again.
 */
#define CAPTURE_BYTES_MAX (900 * 1024) /* fits into one frame with its neighbours */
#define CAPTURE_TIMEOUT (5 * USEC_PER_SEC)
#define CAPTURE_NATIVE_TIMEOUT (15 * USEC_PER_SEC) /* hundreds of libraries are looked into */
#define CAPTURE_INTERVAL USEC_PER_SEC /* between two captures of one run */
#define CAPTURE_ROUND 2 /* captures with native frames that remote may have of a run … */
#define CAPTURE_ROUND_EVERY (300 * USEC_PER_SEC) /* … in this time */

struct capture_result {
        int error;   /* 0, -ETIMEDOUT, -EIO, -E2BIG */
        bool native; /* native frames were asked for */
        const void *data; /* borrowed */
        size_t len;
        usec_t taken_real;
};

struct runs_events {
        /* error 0: the command runs; else p says why it does not. kept is freed afterwards when no unit
         * was made. */
        void (*started)(const struct kept_run *kept, int error, const struct problem *p, void *userdata);
        /* Its process has changed, or is known at last. */
        void (*running)(const struct kept_run *kept, void *userdata);
        void (*ended)(const struct kept_run *kept, void *userdata);
        void (*captured)(const struct kept_run *kept, const struct capture_result *r, void *userdata);
};

struct runs;

/* h and events are borrowed. stack_tool: PATH_STACK_TOOL, or a test's. Reads the runs that are there.
 * -ENOMEM; where a directory cannot be made or written there still is a launchd: see runs_state(). */
int runs_new(sd_event *e, const struct host *h, const char *stack_tool, const struct runs_events *events,
             void *userdata, struct runs **ret);
/* At a normal stop: a machine id that was made anew in this boot is this machine's in the next one, too. */
void runs_bind(const struct host *h);
/* 0, or why no run can be started now (PATH_LAUNCHD_STATE): -EROFS, -ENOSPC, …. Tries again what failed. */
int runs_state(struct runs *r);
struct runs *runs_free(struct runs *r);
DEFINE_CLEANUP(struct runs *, runs_free)

/* To be given to the backend, with the runs as its userdata; then the backend to the runs. */
extern const struct unit_events runs_unit_events;
void runs_attach(struct runs *r, const struct unit_backend *backend, void *userdata);

/*
 * Starts a run. kept is taken over in any case, and "started" is reported later. An empty name becomes
 * "run-N". Nothing is left behind on failure, and a run of that name that has ended keeps its place. Runs
 * by intent are idempotent by name and generation. Returns 1, and not 0, when *ret is the run of this
 * generation that is there already, in whichever state ("started" is reported while it is starting, and not
 * otherwise), or when it is to start once the run of a lower generation, which is being ended, is gone
 * ("started" is reported then). -ESTALE: there is a run of a higher one.
 */
int runs_start(struct runs *r, struct kept_run *kept, const struct kept_run **ret, struct problem *p);
/* What would keep runs_start() from beginning kept now (which stays the caller's): -EEXIST, -ESTALE, -EBUSY
 * with p; 0, and what could not be looked at in kept's warning. A run by intent of a lower generation,
 * which a start would end, keeps nothing. */
int runs_check(struct runs *r, struct kept_run *kept, struct problem *p);
/* generation: 0, or the highest that is meant (-ESTALE). "ended" is reported later, when the run is gone; 1:
 * it only waited for its restart, and has ended. -EALREADY when it has ended. */
int runs_stop(struct runs *r, const char *name, uint64_t generation, struct problem *p);
/* What a timer does when KILL was sent a minute ago: a process that is still there is of state D, and the
 * run's end is reported. */
void runs_give_up(struct runs *r, const char *name);
/*
 * "captured" is reported later. -EBUSY while one is in progress or the last began less than CAPTURE_INTERVAL
 * ago. remote: beyond one round of native frames in CAPTURE_ROUND_EVERY they are left out, for a caller who
 * is not trusted must not be able to stop a run's threads again and again.
 */
int runs_capture(struct runs *r, const char *name, bool native, bool remote, struct problem *p);

/* Notifies a run of a preemption as its spec says; what was done is then in ret_done. -ENOTSUP: it says
 * nothing. */
int runs_signal(struct runs *r, const char *name, uint64_t generation, char *ret_done, size_t size,
                struct problem *p);

const struct kept_run *runs_find(const struct runs *r, const char *name);
/* Says so in p, and which runs there are: -ENOENT. */
int no_such_run(const struct runs *r, const char *name, struct problem *p);
/* The generation that waits for the end of this run; 0: none. */
uint64_t runs_next_generation(const struct runs *r, const char *name);
/* Calls visit for each, newest first, its exit record looked up when the unit has not been seen to go. */
void runs_visit(struct runs *r, void (*visit)(const struct kept_run *kept, void *userdata), void *userdata);
/* How many processes are in the run's slice now. */
uint32_t runs_processes(const struct runs *r, const struct kept_run *kept);
