/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The parameters of a GET, checked: an unknown one, one given twice, a number or a time out of range are
 * errors that name it. An empty filter is none.
 */
#include "http_server.h"

#define QUERY_WHY_MAX  200
#define QUERY_WAIT_MAX 30 /* seconds */

enum query_parameter {
        QUERY_HOST,
        QUERY_SLICE,
        QUERY_NAME,
        QUERY_STATE,
        QUERY_WORKER,
        QUERY_REASON,
        QUERY_RUN,
        QUERY_EPISODE,
        QUERY_SINCE,
        QUERY_LIMIT,
        QUERY_OFFSET,
        QUERY_WAIT,
        QUERY_FROM,
        QUERY_UNTIL,
        _QUERY_MAX
};
#define QUERY_BIT(p) (1U << (p))

struct query {
        const char *text[QUERY_EPISODE + 1]; /* NULL: not given; borrowed from the request */
        int64_t number[_QUERY_MAX];        /* -1: not given; FROM and UNTIL in microseconds since 1970 */
};

/* Only the parameters of `allowed` (QUERY_BIT()) may be there; limit is at most limit_max. -EINVAL with why.
 */
int query_parse(const struct http_request *q, unsigned allowed, int64_t limit_max, struct query *ret,
                char why[static QUERY_WHY_MAX]);

/* RFC 3339 UTC ("2026-11-21T05:00:00Z", with or without a fraction), or whole seconds since 1970. -EINVAL.
 */
int query_time(const char *text, int64_t *ret);
