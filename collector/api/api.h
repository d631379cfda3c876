/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The API for people and control planes (docs/api.md): what the store and the registry know, as JSON, and
 * what is wanted of the fleet (api_calls.h).
 */
#include "clock.h"
#include "database.h"
#include "http_server.h"
#include "page.h"
#include "registry.h"
#include "remote_write.h"
#include "store.h"

/* Events of one answer stop when their texts reach this; the next call goes on behind them. */
#define API_EVENTS_BYTES   ((size_t) 8 * 1024 * 1024)
#define API_EVENTS_DEFAULT 100
#define API_EVENTS_MAX     1000
#define API_LINES_DEFAULT  1000
#define API_LINES_MAX      10000
#define API_BODY_MAX       ((size_t) 256 * 1024)
#define API_HOSTS_MAX      10000
#define API_POINTS_MAX     20000
#define API_SERIES_SPAN    ((usec_t) 3600 * USEC_PER_SEC) /* when nobody says from when */
#define API_SILENT_SECONDS 60                             /* agents push every 10 s: six missed in a row */

struct first_words;
struct follow;
struct suspects;

/* What a call lists, and waits for. */
struct follow_what {
        bool lines; /* of a run; else events */
        struct store_event_filter event;
        struct store_line_filter line;
};

struct api {
        const struct damage *damage;
        struct store *store;
        const struct clock *clock;
        const struct counters *counters;
        struct registry *registry; /* NULL: none is kept here */
        const struct remote_write *remote; /* NULL: nothing is handed on */
        const struct page *page; /* NULL: there is none */
        const struct first_words *first_words; /* what was said of stalled runs from sockets alone */
        struct suspects *suspects;
        const char *user_header; /* in which a proxy of ProxyUris= names the user */
        bool telemetry;        /* it is kept here */
        const char
                *elsewhere; /* the URL where it goes instead, as it is shown to people; "": not configured */
        struct follow *follow; /* who waits for events */
};

/* A handler of http_server.h; userdata is a struct api. */
void api_handle(const struct http_request *q, struct http_reply *reply, void *userdata);

/* --- Long polls: calls that are answered when an event or a line comes, or after their time -------- */

#define FOLLOW_MAX   64                    /* who comes then is answered at once */
#define FOLLOW_PAUSE (100 * USEC_PER_MSEC) /* between two looks, however many events come */

int follow_new(sd_event *e, const struct api *a, struct follow **ret);
/* Answers all. */
struct follow *follow_free(struct follow *f);
DEFINE_CLEANUP(struct follow *, follow_free)
/* -EBUSY, -ENOMEM. Texts of the filters are copied. */
int follow_add(struct follow *f, const struct follow_what *what, unsigned seconds,
               struct http_call *call);
/* Events or lines were committed. */
void follow_news(struct follow *f);
