/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sends this host's captures to the collector that answers its syncs (POST /registry/v1/capture,
 * docs/registry.md): off the shelf, the oldest first, one at a time, until it has said that it has them or
 * does not want them. A new leader is sent those of the episode that stands in capture/SLICE
 * again. What is not answered is tried again for some minutes; and when the registry is back.
 */
#include "bus.h"
#include "capture_shelf.h"

struct capture_sent { /* texts as on the wire */
        char file[SHELF_NAME_MAX]; /* on the shelf */
        char episode[64];          /* empty: this host took it for itself */
        char run[64];
        uint64_t generation, hosts, slice_hosts;
        unsigned round, rounds;
        usec_t taken;
};

struct capture_send;
int capture_send_new(struct bus *b, const char *directory, struct capture_send **ret);
struct capture_send *capture_send_free(struct capture_send *s);

/* A new one. data: of one that the shelf did not take, kept in memory until it is answered; NULL: it is
 * there. */
void capture_send_add(struct capture_send *s, const struct capture_sent *c, const void *data,
                            size_t len);
/* The record capture/SLICE: what the shelf has of it is sent, too, where this life of the agent did not take
 * it. */
void capture_send_asked(struct capture_send *s, const json_t *record);
/* The registry may be back, or led by another collector: looked at now and then. */
void capture_send_look(struct capture_send *s);
/* It is another registry: what was being sent to the previous one is not answered. */
void capture_send_reset(struct capture_send *s);
