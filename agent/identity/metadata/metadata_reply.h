/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One exchange with the metadata server: the header that it wants, and what came back.
 */
#include "base.h"
#include "http_loop.h"

#define METADATA_ETAG_MAX 64

struct metadata_reply {
        char *body; /* of `size` bytes; what is more is counted, not kept */
        size_t size, len; /* len: all that came */
        uint64_t hash; /* FNV-1a of all that came */
        bool flavored, too_long;
        char etag[METADATA_ETAG_MAX]; /* empty: none that can go back in a URL */
        struct curl_slist flavor; /* libcurl only reads it */
        char flavor_text[32];
};

/* body, size: the caller's; the rest is made. */
void metadata_reply_init(struct metadata_reply *r, char *body, size_t size);

/*
 * Makes t ready to ask url with r for the answer, within timeout. -ENOMEM, -EIO. r stays where it is as long
 * as t does.
 */
int metadata_reply_ask(struct metadata_reply *r, struct http_transfer *t, const char *user_agent,
                       const char *url, usec_t timeout);

/*
 * instance/upcoming-maintenance?alt=json: a maintenance of the host's machine that is planned, days ahead as a rule. Its keys
 * are written windowStartTime (Cloud TPU, "View maintenance notifications") or window_start_time (Compute Engine, "Monitor and plan
 * for a host maintenance event"); nothing planned is {}, {"error": "no notifications have been received yet, try again later"} or NONE.
 * Pure.
 */

#define METADATA_UPCOMING_MAX 256

/* Whether one is planned; then text is one printable line of it: "SCHEDULED, PENDING, 2026-12-01T19:00:01Z to …". */
bool metadata_upcoming_parse(const char *value, char text[static METADATA_UPCOMING_MAX]);
