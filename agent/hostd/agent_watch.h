/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Watching one run for seconds with the BPF sets "sched" and "io": attached while somebody asks or a run is suspected, then
 * detached. Each set watches one run at a time. Figures are the watch's own: all were zero when it began.
 */
#include "agent.h"

struct sched_figures;
struct io_figures;

#define WATCH_SECONDS_MAX 30u
#define WATCH_WHY_MAX 200u

/* group: inode of the run's control group. -EBUSY, -EPERM, -ENOENT or another -errno, with why for people. */
int agent_watch_begin(struct bus *b, enum watch_kind kind, const char *run, uint64_t group, char why[static WATCH_WHY_MAX]);
/* What was seen up to now; valid until the next watch of that kind begins. */
const struct sched_figures *agent_watch_sched(const struct bus *b);
const struct io_figures *agent_watch_io(const struct bus *b);
/* What was seen is the run's metrics from now on; the figures stay as they are. */
void agent_watch_end(struct bus *b, enum watch_kind kind);

/* GET /v1/sched, GET /v1/io */
int agent_get_sched(void *self, const struct http_request *r, struct http_reply *ret);
int agent_get_io(void *self, const struct http_request *r, struct http_reply *ret);
/* The API's calls that wait are gone; what is watched for them ends. */
void agent_watch_stop(struct bus *b);

/*
 * agent_watch_capture.c: between the two captures of a round its run is watched; what stood out goes with the second, as findings
 * "sched" and "io"; threads that stood still all the time are told of without BPF, too. round 0: it begins, unless a round does already; then: it ends, and list gets
 * what was found. An end that never comes is made after WATCH_SECONDS_MAX.
 */
void agent_watch_round(struct bus *b, const char *run, uint32_t round, struct finding_list *list);
void agent_watch_round_stop(struct bus *b);
