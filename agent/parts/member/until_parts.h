/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Until runs is a part: its getters, with the names that their headers will have. */
#include "agent.h"

static inline void runs_ask(struct bus *b) { launchd_runs_ask(agent_of(b)->runs); }
static inline uint64_t runs_asked(const struct bus *b) { return launchd_runs_asked(agent_of(b)->runs); }
static inline struct run_log *run_log_of(const struct bus *b) { return agent_of(b)->run_log; }
static inline const char *notice_ahead(const struct bus *b) { return agent_notice(b); }
static inline usec_t progress_step_time(const struct bus *b, const char *run) {
        return agent_step_time(b, run);
}
static inline const struct suspicion *progress_suspicion(const struct bus *b, const char *run) {
        return agent_suspicion(b, run);
}
