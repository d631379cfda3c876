/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One part: between the files agent_part*.c only; the contract of all parts together is agent_parts.h. */
#include "agent_parts.h"

/* agent_parts.c */
struct bus *part_bus(const struct run_part *p);
/* Another state, and the registry is told. */
void part_enter(struct run_part *p, uint64_t generation, enum part_state state, const char *detail);
/* What the record wants is done. */
void part_act(struct run_part *p);
/* The last step of what runs, or ran, here; -1: not known. */
int64_t part_step(const struct run_part *p);
/* What could not be asked now is asked again soon. */
void parts_try_again(struct agent_parts *all);

/* agent_part.c: the preflight of the record's generation; ends in prepared or refused. */
void part_prepare(struct run_part *p);
void part_start(struct run_part *p);
void part_stop(struct run_part *p);
int parts_keep_start(struct agent_parts *all);
/* Whether the generation of its record is one that was prepared before this agent was started. */
bool part_was_prepared(const struct run_part *p);
/* It was: what was found then holds. */
void part_prepared_before(struct run_part *p);

/* agent_parts_said.c: the event of a record that is another one now. */
void part_tell_run(const struct agent_registry *g, const char *name, const json_t *before,
                   const json_t *now);
