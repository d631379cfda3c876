/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures of a run's stacks: asked of tpu-launchd over a connection of its own, turned into a record by the
 * owner, and answered once that record is durable. At most CAPTURES_MAX at a time, each bounded in time.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define CAPTURES_MAX 4
#define CAPTURE_TEXT_MAX (900 * 1024) /* leaves room for the rest of a record of 1 MiB */

struct capture_result {
        const char *run, *text;
        usec_t taken_real;
        uint32_t processes, threads;
        uint64_t seq; /* of the record */
};

#define CAPTURE_BUSY       1u /* no status of HTTP */
#define CAPTURE_BUSY_AGAIN 1u

struct captures_handlers {
        /* launchd answered: submit the record. Returns 0 and its sequence, or -errno. */
        int (*captured)(const struct capture_result *c, uint64_t *ret_seq, void *userdata);
        /* status 200: c says what is durable. Else c is NULL and error and remedy say why: 403, 404, 502,
         * 503, 504; CAPTURE_BUSY: 503 for a moment, it may be asked again in CAPTURE_BUSY_AGAIN seconds. */
        void (*finished)(void *token, unsigned status, const struct capture_result *c, const char *error,
                         const char *remedy, void *userdata);
};

struct captures;
int captures_new(sd_event *e, const char *socket, usec_t timeout, const struct captures_handlers *h,
                 void *userdata, struct captures **ret);
/* Captures under way end without a word to finished. */
struct captures *captures_free(struct captures *c);
DEFINE_CLEANUP(struct captures *, captures_free)

/* finished() follows later with token. -EBUSY: CAPTURES_MAX are under way; else why launchd cannot be asked.
 */
int captures_start(struct captures *c, const char *run, void *token);
/* Every record up to seq is durable. */
void captures_durable(struct captures *c, uint64_t seq);
