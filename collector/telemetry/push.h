/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One OTLP request into the store, inside a transaction of the caller's. What an agent's own push says of
 * its host (state, reasons, step) goes into the host's row; whoever is not service.name "tpu-hostd" is only
 * listed.
 */
#include "http_server.h"
#include "ingest.h"
#include "store.h"

struct push {
        enum ingest_kind kind;
        bool has_record;
        struct store_record record; /* its sender is what the push states */
        bool aside; /* out of a spool that was set aside: whom it is about is no member by it */
        const uint8_t *data; /* protobuf; borrowed */
        size_t len;
        const char *peer; /* the sender's address, its name when it gives none */
        const char *proved; /* the host that the sender is, and speaks for alone; NULL: not known */
};

/*
 * 1: written; 0: was stored before. -EBADMSG, -ELOOP, -E2BIG with ret->why (the request's fault), -EDQUOT
 * (STORE_HOSTS_MAX), -EACCES with ret->why (of another host), else the store's: after a failure the caller
 * undoes what was written.
 */
int push_store(struct store *s, const struct push *push, usec_t now, struct ingest_result *ret);

/*
 * Answers of OTLP/HTTP in protobuf: ExportMetricsServiceResponse and its like, and google.rpc.Status for
 * everything that is not 200.
 */

#define OTLP_PROTOBUF "application/x-protobuf"
#define OTLP_RETRY_AFTER_S 5

/* Whether a request's Content-Type, parameters aside, is OTLP_PROTOBUF. NULL: it has none. */
bool otlp_is_protobuf(const char *content_type);

/* 429 and 503 also say when to come back. text may be anything. */
void otlp_reply_error(struct http_reply *reply, unsigned status, const char *text);
/* 200, with partial_success when rows were rejected. */
void otlp_reply_stored(struct http_reply *reply, const struct ingest_result *result);
