/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * This host's parts in runs: what the registry's run/ records and part_decide() want, done through tpu-launchd
 * as principal remote, and said back. Nothing is kept here that tpu-launchd does not know better: after a
 * restart of the agent its list of runs is what this host has.
 */
#include "agent_registry.h"
#include "file_writer.h"
#include "local_call.h"
#include "member_part.h"
#include "preflight.h"
#include "run_record.h"

#define PARTS_MAX 64
#define PARTS_SAID_MAX 16 /* what a planner reads of one host */

struct run_part {
        struct agent_parts *owner;
        char name[64];
        struct member_part now;
        char cause[40], code[16], status[16], serial[64], detail[512];
        int64_t step,
                step_said; /* -1: not known; step_said: as it is said, for each step is no news of its own */
        usec_t step_time_said; /* expected of a step; 0: not known */
        uint64_t absent; /* the question whose answer did not name it any more; 0: none */
        json_t *record; /* NULL: gone, or none was told */
        Local__RunRequest *request; /* of the generation that is prepared; NULL: none is */
        struct preflight *preflight;
        struct local_call *call; /* a start or a stop at work */
        bool stopping; /* the call is a stop */
        uint64_t asked; /* the registry's question after the step that was answered last */
        uint64_t stop_asked; /* the generation that was stopped last */
        bool used; /* in a walk over tpu-launchd's list */
};

struct agent_parts {
        struct agent_registry *registry;
        struct run_part *parts[PARTS_MAX];
        size_t n;
        sd_event_source *again; /* what could not be asked for is asked for again */
        json_t *kept; /* what an agent before this one had prepared; NULL: nothing */
        struct file_writer *writer; /* NULL: nothing is kept */
        bool known; /* tpu-launchd has told its runs at least once */
};

int agent_parts_new(struct agent_registry *g, struct agent_parts **ret);
struct agent_parts *agent_parts_free(struct agent_parts *p);
/* A run/ record, NULL: it is gone. */
void agent_parts_record(struct agent_parts *p, const char *name, const json_t *record);
/* tpu-launchd's list is another one, or it is not known any more. */
void agent_parts_listed(struct agent_parts *p);
/* Looks at all parts again: the registry is back, or this host may begin things again. */
void agent_parts_look(struct agent_parts *p);
/* Whether what this host has can be said. */
bool agent_parts_known(const struct agent_parts *p);
/* What outlives this process is written (agent_part.c): all that are prepared now, and who led last. */
void parts_keep(struct agent_parts *all);
/* All records are forgotten: another registry. */
void agent_parts_forget(struct agent_parts *p);
/* The steps that are said are as of now. */
void agent_parts_freshen(struct agent_parts *p);
/* The run/ record of this name as it was told; borrowed, NULL: none was. */
const json_t *agent_parts_find(const struct agent_parts *p, const char *name);
/* All of them. New reference. */
json_t *agent_parts_records(const struct agent_parts *p);
/* For the record member/. New reference. */
json_t *agent_parts_to_member(const struct agent_parts *p);
/* For the API. New reference. */
json_t *agent_parts_to_json(const struct agent_parts *p);
