/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The names of the workers of this slice, as this host's resolver has them, against the addresses that the
 * registry has: the first one of each name is what a program connects to. At most WORKER_NAMES_MAX are
 * looked up, those after this host in the list, in a child, within WORKER_NAMES_TIME.
 */
#include <jansson.h>
#include <systemd/sd-event.h>

#include "finding.h"

#define WORKER_NAMES_MAX 64
#define WORKER_NAMES_TIME (5 * USEC_PER_SEC)

/*
 * Pure. list: the workers in the order of their ids, with commas between; found: "WORKER ADDRESS" in lines,
 * the first address of each; roster: as in the slice's record. The finding is preflight.names; OK, too.
 */
void worker_names_judge(const char *list, const json_t *roster, const char *found, struct finding *ret);

struct worker_names;
/* done is called once, from the loop, and may free it. list and roster are copied. -ENODATA: no list. */
int worker_names_new(sd_event *e, const char *list, const json_t *roster, unsigned worker,
                     void (*done)(const struct finding *f, void *userdata), void *userdata,
                     struct worker_names **ret);
struct worker_names *worker_names_free(struct worker_names *w);
DEFINE_CLEANUP(struct worker_names *, worker_names_free)
