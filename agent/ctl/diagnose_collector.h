/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The captures that tpu-collectord has of an episode, as a scene; and asking for new ones. */
#include "collector.h"
#include "scene.h"

struct episode_words { /* of the verdict, for people; "" where there is none */
        char episode[64], run[64], by[256], why[512], at[40], confirmed[40], recovered[40];
        uint64_t hosts, answered;
        json_t *report; /* the verdict as it was kept, where the captures are not (any more); NULL: they are.
                           The caller's */
};

/* Asks for a round of captures and waits for its verdict; episode (64 bytes) is then its name. -errno with
 * problem set. */
int diagnose_collector_capture(const struct collector *c, const char *slice, char episode[static 64],
                               struct problem *problem);

/* Adds the captures of this episode (NULL: the last) to s, and who was asked and is silent. -errno with
 * problem set. */
int diagnose_collector_load(const struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct episode_words *ret, struct problem *problem);
