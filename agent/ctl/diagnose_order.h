/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * New captures of all hosts of a run where the registry is etcd: tpu-hostd of this host writes the record
 * capture/SLICE (docs/registry.md), and every host of the run takes its part by that.
 */
#include "options.h"
#include "problem.h"

#define DIAGNOSE_EPISODE_MAX 64

/* Whether this host's registry is etcd; false, too, where there is no tpu-hostd to ask. */
bool diagnose_order_is_for_hostd(const char *root);
/* Hands it over. -errno with problem set: also -EBUSY where there was a round less than 5 minutes ago. */
int diagnose_order_give(const char *root, const char *slice, struct problem *problem);

/* The episodes of which this host keeps captures now. */
struct diagnose_kept {
        char episodes[2][DIAGNOSE_EPISODE_MAX]; /* of the last two captures, the older first; "": there is
                                                   none */
};
int diagnose_order_kept(const char *root, struct diagnose_kept *ret, struct problem *problem);
/* Waits until both captures of a new episode are kept here, which *ret names. -ETIMEDOUT with problem set.
 */
int diagnose_order_wait(const char *root, const struct diagnose_kept *before,
                        char ret_episode[static DIAGNOSE_EPISODE_MAX], struct problem *problem);

/* Of the name of a kept capture (TIME-ROUND-EPISODE.capture). Pure; "" for what is none. */
void diagnose_order_episode(const char *name, char ret[static DIAGNOSE_EPISODE_MAX]);
