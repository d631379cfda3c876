/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runs in memory and their files: the inside of runs.h, shared by runs.c (what happens), run_start.c
 * (how they begin) and run_table.c (what is kept).
 */
#include "runs.h"

struct run {
        struct run *next;
        struct runs *owner;
        struct job *job;
        struct job *replaced; /* an ended run of this name, until the new one has its unit */
        sd_event_source *kill_timer;
        struct capture *capture;
        bool swept; /* ended, and its slice has been stopped */
        usec_t captured_boot, captured_real; /* when the last capture began; 0: none yet */
};

struct runs {
        sd_event *event;
        const struct host *host;
        const char *stack_tool;
        const struct runs_events *events;
        void *userdata;
        const struct unit_backend *units;
        void *backend;
        int jobs_fd, exits_fd, handover_fd;
        struct run *list; /* newest first */
};

struct run *run_free(struct run *run);
struct run *run_find(const struct runs *r, const char *name);
/* NULL when out of memory; else j is owned by the table. */
struct run *run_insert(struct runs *r, struct job *j);
/* Takes it out of the table; the caller frees it. */
void run_unlink(struct runs *r, struct run *run);
/* exits: the exit record, too. */
void run_remove_files(struct runs *r, const char *name, bool exits);
/* The start came to nothing: the files are as they were before. Frees run. */
void run_undo(struct runs *r, struct run *run);
/* Forgets what ended longest ago. */
void runs_prune(struct runs *r);
unsigned runs_count_active(const struct runs *r);
/* The unit is gone: with its record, or of unknown cause. Never a success without one. */
void run_settle(struct runs *r, struct run *run);
/* Reads every job there is. -ENOMEM, or -errno of the directory. */
int runs_load(struct runs *r);
