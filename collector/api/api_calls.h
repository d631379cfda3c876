/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The calls of the API as its table (api.c) makes them, and what they share. Inside this room only. */
#include <jansson.h>

#include "api.h"
#include "http_routes.h"

/* --- Answers: api_answers.c ------------------------------------------------------------------------ */

/* Another collector leads: 307 to the same URL there; nobody does: 503. */
void api_redirect_to_leader(const struct api *a, const struct http_request *q, struct http_reply *reply);
/* A remedy. */
#define API_SEE_JOURNAL "journalctl -u tpu-collectord -n 20 # on the collector's machine; then try again"
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

/* Whom a proxy calls for: the name in its header. "": nobody is named, or *ret_wrong says what is wrong with
 * the header; or the caller is no proxy, and what it says of users does not count. */
#define API_USER_MAX 256
const char *api_user(const struct api *a, const struct http_request *q, const char **ret_wrong);

/* --- Names: api_fleet.c ---------------------------------------------------------------------------- */

enum known_kind {
        KNOWN_HOST,   /* that people are shown */
        KNOWN_MEMBER, /* of those the registry's: orders reach it */
        KNOWN_SLICE,
        KNOWN_RUN, /* of the registry, of a host, or with lines that are kept */
};
/* False: the reply is complete: 404 with the name that was meant, and those that there are; or 503. A
 * collector that does not lead takes every name for known. */
bool api_knows(const struct api *a, enum known_kind kind, const char *name, struct http_reply *reply);

/* --- Calls, as api.c makes them: arguments are checked --------------------------------------------- */

typedef void api_call(const struct api *a, const struct http_request *q, struct http_reply *reply);

api_call api_hosts, api_host, api_slices, api_series;
/* The events, the lines of a run: reply->later when it waits. */
api_call api_events, api_lines;
/* Why a run ended: what its hosts reported, and which of it was first. */
api_call api_why;
/* Hosts that fail again and again. */
api_call api_suspects;
/* The verdict about the last episode of a slice, or the one that the query names; and which there are. */
api_call api_diagnosis, api_captures, api_episodes;
/* Of all slices: the last ones; and one with its verdict. */
api_call api_all_episodes, api_episode;
/* Text for a scraper, in the format that its Accept header asks for. */
api_call api_metrics;

/*
 * The registry for people and control planes (docs/registry.md): slices, runs, orders, the fleet's mode. A
 * call that acts needs the right to (AllowActors=), and leaves an event tpu.api.acted: who, what, when,
 * result. There is a registry, it leads, and the first part of the path is shorter than API_NAME_MAX.
 */

#define API_NAME_MAX 64
#define API_REASON_MAX 200

api_call api_runs, api_run, api_post_run, api_delete_run;
api_call api_slice, api_release_slot, api_capture;
/* The bandwidth between the hosts of a slice: what was measured last; and asks for it. */
api_call api_pairs, api_post_pairs;
api_call api_orders, api_act_order, api_mode, api_act_mode;

/* The last word of a call that acts: the event, and the answer waits until what was asked is stored. */
void api_acted(const struct api *a, const struct http_request *q, struct http_reply *reply,
               const char *result);
/* What the registry knows of a slice, for the list of slices; null when it does not know it. */
json_t *api_slice_gang(const struct api *a, const char *slice);

/*
 * All hosts as people are shown them (docs/api.md, hosts): members of the registry as they say of themselves
 * and by their figures, those that it misses, and those that only push telemetry.
 */
struct fleet_filter {
        const char *name, *slice, *state; /* NULL: any */
};
/* What people are shown as the state of a host, ended by NULL; silent and missing stand before what its
 * agent said last. */
extern const char *const fleet_states[];
/* A list of objects, sorted by slice (none last), worker, name. -ENOMEM, the store's. */
int fleet_list(const struct api *a, const struct fleet_filter *f, json_t **ret);

struct fleet_sum {
        size_t hosts, ready, degraded, unfit, unknown, silent; /* silent ones are in none of the four */
        double oldest; /* seconds since the one that was heard of longest ago */
};
/* Counts a host of such a list. */
void fleet_sum_add(struct fleet_sum *sum, const json_t *host);
