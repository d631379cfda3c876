/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One OTLP request into the store, inside a transaction of the caller's. What an agent's own push says of
 * its host (state, reasons, step) goes into the host's row; whoever is not service.name "tpu-hostd" is only
 * listed.
 */
#include "ingest.h"
#include "store.h"

struct push {
        enum ingest_kind kind;
        bool has_record;
        struct store_record record;
        const uint8_t *data; /* protobuf; borrowed */
        size_t len;
        const char *peer; /* the sender's address, its name when it gives none */
};

/*
 * 1: written; 0: was stored before. -EBADMSG, -ELOOP, -E2BIG with ret->why (the request's fault), -EDQUOT
 * (STORE_HOSTS_MAX), else the store's: after a failure the caller undoes what was written.
 */
int push_store(struct store *s, const struct push *push, usec_t now, struct ingest_result *ret);
