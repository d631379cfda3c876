/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The calls of docs/api.md, each as agent_routes.c makes it: 0 with *ret, or 1 when http_answer()
 * follows. Arguments have been checked by name.
 */
#include "agent.h"
#include "http_routes.h"

/* agent_api.c */
int agent_get_healthz(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_get_metrics(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_get_status(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_get_checks(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_get_identity(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_get_runs(struct agent *a, const struct http_request *r, struct http_reply *ret);

/* agent_net_api.c */
int agent_get_net(struct agent *a, const struct http_request *r, struct http_reply *ret);

/* agent_runs_api.c: they wait for tpu-launchd or the registry. */
int agent_post_run(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_delete_run(struct agent *a, const struct http_request *r, struct http_reply *ret); /* "/v1/runs/NAME" */
/* The HTTP status that says what went wrong at tpu-launchd or the registry (-errno). */
unsigned agent_status_of(int error);

/* agent_events.c: may wait. */
#define AGENT_EVENTS_WAIT_MAX 30 /* seconds */
int agent_get_events(struct agent *a, const struct http_request *r, struct http_reply *ret);

/* agent_capture_api.c */
int agent_get_captures(struct agent *a, const struct http_request *r, struct http_reply *ret);
int agent_post_capture(struct agent *a, const struct http_request *r, struct http_reply *ret);

/* agent_api.c: path is "/v1/runs/NAME/capture". */
int agent_post_stack(struct agent *a, const struct http_request *r, struct http_reply *ret);

/* --- Calls that are answered later (agent_caller.c) ---------------------------------------------------- */

/* The first member of what a call keeps while it waits for others. */
struct agent_call {
        struct agent *agent;
        struct http_call *held; /* NULL: nobody waits any more */
        struct agent_call *next, **previous;
        struct http_caller caller;
        char what[128];
        void (*clear)(struct agent_call *c); /* what is behind it; NULL: nothing to do */
};

/* Of size bytes, 0 behind the first member. NULL: out of memory. */
void *agent_call_new(struct agent *a, const struct http_request *r, size_t size, const char *what);
void agent_call_free(struct agent_call *c);
/* Frees it, too. */
void agent_call_answer(struct agent_call *c, const struct http_reply *reply);
