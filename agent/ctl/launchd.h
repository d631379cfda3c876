/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One question to tpu-launchd over its local socket: blocking, bounded in time. */
#include <jansson.h>

#include "frame.h"
#include "local.pb-c.h"
#include "problem.h"

/*
 * Sends m as kind and waits for a frame of kind want, whose payload is then in *ret (pointing into *ret_buf,
 * malloc'ed). -errno with problem set: nobody there, or launchd's own refusal with its remedy.
 */
int launchd_ask(const char *root, uint16_t kind, const ProtobufCMessage *m, uint16_t want, usec_t timeout,
                struct frame *ret, uint8_t **ret_buf, struct problem *problem);

/* As wire_text(): a list of them. */
static inline char **wire_list(const char *const *l) {
        return (char **) (uintptr_t) l;
}

/* The answer is not what its kind promises. */
int launchd_garbled(struct problem *problem);
