/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The captures that tpu-collectord has of an episode, as a scene; and asking for new ones. */
#include "ask.h"
#include "evidence.h"

struct kept_verdict {
        json_t *words; /* what the collector says of the episode; the caller's */
        /* of words: the verdict, where the captures are not kept (any more); else NULL */
        const json_t *report;
};

/* Asks for a round of captures and waits for its verdict; episode (64 bytes) is then its name. -errno with
 * problem set. */
int diagnose_collector_capture(struct collector *c, const char *slice, char episode[static 64],
                               struct problem *problem);

/* Adds the captures of this episode (NULL: the last) to s, and who was asked and is silent. -errno with
 * problem set. */
int diagnose_collector_load(struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct kept_verdict *ret, struct problem *problem);
