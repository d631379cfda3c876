/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The calls of docs/api.md, each as agent_routes.c makes it: 0 with *ret, or 1 when http_answer()
 * follows. Arguments have been checked by name.
 */
#include "agent.h"
#include "http_routes.h"

/* agent_api.c */
int agent_get_healthz(void *self, const struct http_request *r, struct http_reply *ret);
int agent_get_metrics(void *self, const struct http_request *r, struct http_reply *ret);
int agent_get_status(void *self, const struct http_request *r, struct http_reply *ret);
int agent_get_checks(void *self, const struct http_request *r, struct http_reply *ret);
int agent_get_runs(void *self, const struct http_request *r, struct http_reply *ret);


/* agent_events.c: may wait. */
#define AGENT_EVENTS_WAIT_MAX 30 /* seconds */
int agent_get_events(void *self, const struct http_request *r, struct http_reply *ret);
