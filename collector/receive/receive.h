/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The port of the agents has one entry, the handler of its server. It takes syncs and captures
 * (control_port.h), and is the OTLP/HTTP receiver: POST /v1/metrics and /v1/logs, protobuf, plain or gzip.
 * What is refused for its headers or its size is answered at once, the rest goes to the group (group.h),
 * which answers after its commit. Errors are a google.rpc.Status.
 */
#include "episodes.h"
#include "group.h"
#include "registry.h"

#define RECEIVE_BODY_MAX ((size_t) 4 * 1024 * 1024)

struct receiver {
        struct group *group;
        struct registry *registry; /* NULL: none is kept here */
        bool telemetry;            /* it is kept here */
        struct episodes *episodes;
        const struct clock *clock;
        struct counters *counters;
        struct speakers *speakers;
};

/* A handler of http_server.h; userdata is a struct receiver. */
void receive(const struct http_request *q, struct http_reply *reply, void *userdata);
