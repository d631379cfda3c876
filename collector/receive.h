/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The OTLP/HTTP receiver: POST /v1/metrics and /v1/logs, protobuf, plain or gzip. One request is one
 * transaction; 200 is answered when its commit is on the disk. Errors are a google.rpc.Status. What an
 * agent's own push says of its host (state, reasons, step) goes into the host's row; whoever is not
 * service.name "tpu-hostd" is only listed.
 */
#include "clock.h"
#include "counters.h"
#include "http.h"
#include "store.h"

#define RECEIVE_BODY_MAX ((size_t) 4 * 1024 * 1024)
#define RECEIVE_INFLATED_MAX ((size_t) 16 * 1024 * 1024)

struct receiver {
        struct store *store;
        const struct clock *clock;
        struct counters *counters;
        bool failing; /* the last write to the database failed: said once, not per request */
};

/* A handler of http.h; userdata is a struct receiver. */
void receive(const struct http_request *q, struct http_reply *reply, void *userdata);
