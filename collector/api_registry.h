/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry for people and control planes (docs/registry.md): slices, runs, orders, the fleet's mode. What
 * acts needs the right to (AllowActors=), and leaves an event tpu.api.acted: who, what, when, result. Calls as
 * api.c makes them: there is a registry, it leads, and the first part of the path is shorter than API_NAME_MAX.
 */
#include "api.h"
#include "http_routes.h"

#define API_NAME_MAX 64
#define API_REASON_MAX 200

void api_runs(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_run(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_post_run(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_delete_run(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_slice(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_release_slot(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_capture(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_orders(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_act_order(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_mode(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_act_mode(const struct api *a, const struct http_request *q, struct http_reply *reply);

/* The last word of a call that acts: the event, and the answer waits until what was asked is stored. */
void api_acted(const struct api *a, const struct http_request *q, struct http_reply *reply,
               const char *result);
/* A slice's gang for the list of slices; null when the registry does not know it. */
json_t *api_slice_gang(const struct api *a, const char *slice);
