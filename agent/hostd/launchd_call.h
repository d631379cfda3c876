/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One question to tpu-launchd over a connection of its own, without blocking: a start, a stop, a check. The
 * answer comes once, from the loop.
 */
#include <protobuf-c/protobuf-c.h>
#include <systemd/sd-event.h>

#include "base.h"

struct launchd_answer {
        int error;      /* 0; -errno as launchd says it; -ECONNREFUSED, -ETIMEDOUT, …: it did not answer */
        bool no_answer; /* nothing is known of what became of it */
        const char *text, *remedy; /* of an error */
        uint16_t kind;
        const uint8_t *data; /* the payload of a good answer */
        size_t len;
};

struct launchd_call;
/*
 * socket: launchd's; NULL or empty: nobody answers. m is packed here. done is called once, never from here, and may
 * free the call. -ENOMEM.
 */
int launchd_call_new(sd_event *e, const char *socket, uint16_t kind, const ProtobufCMessage *m, uint16_t want,
                     usec_t timeout, void (*done)(const struct launchd_answer *a, void *userdata), void *userdata,
                     struct launchd_call **ret);
/* done is not called any more; what was asked for may happen nevertheless. */
struct launchd_call *launchd_call_free(struct launchd_call *c);
DEFINE_CLEANUP(struct launchd_call *, launchd_call_free)
