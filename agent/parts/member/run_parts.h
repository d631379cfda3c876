/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * This host's parts in runs: what the registry's run/ records and part_decide() want, done through
 * tpu-launchd as principal remote, and reported. Nothing is kept here that tpu-launchd does not know better:
 * after a restart of the agent its list of runs is what this host has.
 */
#include "bus.h"
#include "file_writer.h"
#include "local_call.h"
#include "member_part.h"
#include "preflight.h"
#include "run_record.h"

#define RUN_PARTS_MAX 64
#define RUN_PARTS_SAID_MAX 16 /* what a planner reads of one host */

struct member_state;

struct run_part {
        struct member_state *owner;
        char name[64];
        struct member_part now;
        char cause[40], code[16], status[16], serial[64], detail[512];
        char image[PREFLIGHT_IMAGE_SIZE]; /* of the generation that is prepared: which image it is here */
        int64_t step, step_said; /* -1: not known; step_said: as reported, not each is news */
        usec_t step_time_said;   /* expected of a step; 0: not known */
        uint64_t absent;         /* the question whose answer did not name it any more; 0: none */
        json_t *record;          /* NULL: gone, or none came */
        Local__RunRequest *request; /* of the generation that is prepared; NULL: none is */
        struct preflight *preflight;
        struct local_call *call; /* a start or a stop at work */
        bool stopping;           /* the call is a stop */
        uint64_t asked;          /* the registry's question after the step that was answered last */
        uint64_t stop_asked;     /* the generation that was stopped last */
        bool used;               /* in a walk over tpu-launchd's list */
};

/* A member of the part's state. */
struct run_parts {
        struct run_part *parts[RUN_PARTS_MAX]; /* the newest last */
        size_t n, n_local;          /* n_local: run_parts_local() */
        sd_event_source *again;     /* what could not be asked for is asked for again */
        json_t *kept;               /* what the previous agent had prepared; NULL: nothing */
        struct file_writer *writer; /* NULL: nothing is kept */
        bool known;                 /* tpu-launchd has listed its runs: what runs here can be said */
};

int run_parts_start(struct member_state *m);
void run_parts_stop(struct member_state *m);
/* A run/ record; NULL: it is gone. */
void run_parts_record(struct member_state *m, const char *name, const json_t *record);
/* bus->runs is another list, or it is not known any more. */
void run_parts_listed(struct member_state *m);
/* Decides about all parts again: the registry is back, or this host may start things again. */
void run_parts_act(struct member_state *m);
/* All records are forgotten: another registry. */
void run_parts_forget(struct member_state *m);
/* The runs of this host that no record asked for: local ones, and those that others started. */
json_t *run_parts_local(const struct member_state *m);
/* The steps that are reported are those of now. */
void run_parts_freshen(struct member_state *m);
/* The run/ record of this name as it came; borrowed, NULL: none came. */
const json_t *run_parts_find(const struct member_state *m, const char *name);
/* All records of runs, as they came. New reference. */
json_t *run_parts_records(const struct member_state *m);
/* What this host refuses, as checks of it, while the run waits. */
void run_parts_judge(const struct member_state *m);
/* For the record member/, and for GET /v1/status. New references. */
json_t *run_parts_to_member(const struct member_state *m);
json_t *run_parts_to_json(const struct member_state *m);

/* --- One part: run_part.c ------------------------------------------------------------------------------ */

/* Another state, which is reported to the registry. */
void run_part_enter(struct run_part *p, uint64_t generation, enum part_state state, const char *detail);
/* What the record wants is done. */
void run_part_act(struct run_part *p);
/* What could not be asked now is asked again soon. */
void run_parts_try_again(struct member_state *m);

/* What the previous agent prepared is read, and what is prepared from now on is kept. */
int run_parts_keep_start(struct member_state *m);
/* Writes what outlives this process: all that are prepared now, and which collector led last. */
void run_parts_keep(struct member_state *m);
