/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The calls of docs/api.md, of what is no part yet, each as part.h has it: 0 with *ret, or 1 when http_answer()
 * follows. Arguments have been checked by name.
 */
#include "agent.h"
#include "http_routes.h"

/* agent_api.c */
int agent_get_runs(void *self, const struct http_request *r, struct http_reply *ret);

/* agent_runs_api.c: they wait for tpu-launchd or the registry. */
int agent_post_run(void *self, const struct http_request *r, struct http_reply *ret);
int agent_delete_run(void *self, const struct http_request *r, struct http_reply *ret); /* "/v1/runs/NAME" */
/* The HTTP status that says what went wrong at tpu-launchd or the registry (-errno). */
unsigned agent_status_of(int error);

/* agent_capture_api.c */
int agent_get_captures(void *self, const struct http_request *r, struct http_reply *ret);
int agent_post_capture(void *self, const struct http_request *r, struct http_reply *ret);

/* agent_api.c: path is "/v1/runs/NAME/capture". */
int agent_post_stack(void *self, const struct http_request *r, struct http_reply *ret);
