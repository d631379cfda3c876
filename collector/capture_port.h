/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * POST /registry/v1/capture at the agents' port (docs/registry.md): one host's part of a capture, as bytes.
 * What is asked about it is in the query; the bytes are kept as they came, and read in a process of their
 * own (episodes).
 */
#include "capture_words.h"
#include "registry.h"
#include "store_episodes.h"

#define CAPTURE_PORT_PATH "/registry/v1/capture"

struct episodes;

/* True: it may be stored. Else the reply is complete. */
bool capture_port_accept(const struct http_request *q, const struct registry *r, struct episodes *e,
                         usec_t now, struct capture_words *ret, struct http_reply *reply);
/* Into the store, inside a transaction: 1; 0: a repeat; -EDQUOT: the host sends too many; else the store's.
 */
int capture_port_store(struct store *s, const struct capture_words *w, const void *data, size_t len,
                       usec_t now);
/* The answer after that: what store said, why in words of a failure. */
void capture_port_reply(struct http_reply *reply, unsigned status, const char *why);
