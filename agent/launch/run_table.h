/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs in memory and their files: the inside of runs.h. Each file knows those before it: run_table.c
 * (the table), run_start.c (each start, the wait for it, and the end that no start follows), run_end.c (stop
 * and end), runs.c (what is asked for, and what the units report). capture.c and run_words.c know the table.
 */
#include "cgroup.h"
#include "devices.h"
#include "runs.h"
#include "tail.h"

/* Slurm's UnkillableStepTimeout: what KILL has not ended by then is in state D, and no wait helps. */
#define FREE_TIMEOUT (60 * USEC_PER_SEC)

struct run {
        struct run *next;
        struct runs *owner;
        struct kept_run *kept;
        struct kept_run *replaced; /* an ended run of this name, until the new one has its unit */
        struct kept_run *coming; /* of a higher generation: it is started when this one is gone */
        sd_event_source *free_timer;
        sd_event_source *main_gone; /* of an adopted run: its main process has ended */
        usec_t free_deadline, free_pause;
        struct child *capture; /* in progress */
        bool captured_native;  /* likewise */
        struct tail *tail; /* the end is being looked at */
        struct child *words, *core; /* what is kept of it, and of its core, is being gathered */
        uint32_t crashed; /* its main process, which left a core; 0: it did not */
        char core_path[4096]; /* of that core, while its stacks are being read */
        sd_event_source *stuck_timer; /* after KILL */
        int32_t unkillable; /* a process that KILL did not end; 0: none */
        struct restarts restart; /* while waiting: what is kept with the next start */
        bool restarting; /* systemd was asked for another start, and has not answered */
        bool swept; /* ended, and its slice has been stopped */
        usec_t captured_boot, captured_real; /* when the last capture began; 0: none yet */
        usec_t rounds[CAPTURE_ROUND]; /* boot clock: the last captures with native frames that remote had, by
                                         turns; 0: none */
        unsigned round;
};

struct runs {
        sd_event *event;
        const struct host *host;
        const char *stack_tool;
        const struct runs_events *events;
        void *userdata;
        const struct unit_backend *units;
        void *backend;
        bool journal; /* the run's lines can be read: this is the machine's own root */
        int runs_fd, exits_fd, words_fd, handover_fd, secrets_fd;
        unsigned words_there; /* processes that gather words, also those that nothing ends */
        struct run *list; /* newest first */
};

struct run *run_free(struct run *run);
struct run *run_find(const struct runs *r, const char *name);
/* NULL when out of memory; else kept is owned by the table. */
struct run *run_insert(struct runs *r, struct kept_run *kept);
/* Takes it out of the table; the caller frees it. */
void run_unlink(struct runs *r, struct run *run);
/* exits: the exit record, too. */
void run_remove_files(struct runs *r, const char *name, bool exits);
/* Starts it now: its place, its files, its unit. kept is taken over. */
int run_start_new(struct runs *r, struct kept_run *kept, struct problem *p);
/* Whether nothing of this run is left, and the devices are free for wanted: 0; -EBUSY with p. */
int run_is_free(const struct run *run, const struct kept_run *wanted, struct problem *p);
/* The start came to nothing: the files are as they were before. Frees run. */
void run_undo(struct runs *r, struct run *run);
/* systemd refused the next start of a run that is restarted: tried again later. False: it was another
 * start. */
bool run_retry_restart(struct run *run);
/* The processes of a run's slice now. -ENOENT when its control group is not known. */
int run_pids(const struct run *run, struct pid_list *ret);
/* The first process that is left in the run's slice. 0: none, as far as is known. */
pid_t run_left_over(const struct run *run);
/* Asks for the unit of a run whose files are written, or for its command for a preemption beside it. */
int run_ask_unit(struct runs *r, const struct kept_run *kept, bool beside);
/* -ESTALE: what is there is of a generation later than the one that is meant. */
int run_refuse_stale(const struct kept_run *kept, uint64_t generation, struct problem *p);
/* -EEXIST: there is a run of this name that has not ended. */
int run_refuse_existing(const struct kept_run *kept, struct problem *p);
/* Answers those who wait for the coming run, and forgets it. */
void run_refuse_coming(struct run *run, int error, const struct problem *p);
/* Asks for the end of an active run; see runs_stop(). */
int run_stop(struct run *run, struct problem *p);
/* Forgets what ended longest ago, of the user who has the most. */
void runs_prune(struct runs *r);
unsigned runs_count_active(const struct runs *r);
/* The unit is gone: looks at the evidence, which takes a moment, and goes on from there (run_end.c). */
void run_ended(struct run *run);
/* It is over for good: it is not restarted, and words say why, or are empty (run_start.c). */
void run_finish(struct run *run, const char *words);
void run_sweep(struct run *run);
void run_remove_handover(struct runs *r, const char *name);
/* It is restarted after a pause (run_start.c). */
void run_wait_for_restart(struct run *run, const struct restart_decision *d);
