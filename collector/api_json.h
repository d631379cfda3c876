/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * JSON answers of the API, and what its calls share. Inside the API only.
 */
#include <jansson.h>

#include "api.h"
#include "http_routes.h"

/* 404 with the URL where telemetry goes. */
void api_no_telemetry(const struct api *a, struct http_reply *reply);
/* v when r is 0, else what the store's error means. Takes v over. */
void api_reply_result(struct http_reply *reply, const struct api *a, int r, json_t *v);

json_t *api_text(const char *text); /* NULL is null */
json_t *api_number(int64_t n);      /* below 0 is null */
json_t *api_real(double d);         /* NaN and infinities are null */
json_t *api_value(bool is_int, int64_t i, double d);
json_t *api_time(usec_t t);
/* A stored JSON text; what SQLite was given by another program may be anything. */
json_t *api_stored(const char *text);

/* --- Calls, as api.c makes them: arguments are checked ------------------------------------------------- */

void api_hosts(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_host(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_slices(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_series(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* reply->later when it waits. */
void api_events(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* The lines of a run; likewise. */
void api_lines(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* The verdict about the last episode of a slice, or the one that the query names; and which there are. */
void api_diagnosis(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_captures(const struct api *a, const struct http_request *q, struct http_reply *reply);
void api_episodes(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* Text for a scraper, in the format that its Accept header asks for. */
void api_metrics(const struct api *a, const struct http_request *q, struct http_reply *reply);

/* How many there were; -errno. The reply is ready. */
int api_list_lines(const struct api *a, const struct store_line_filter *f, struct http_reply *reply);
