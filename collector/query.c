/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "query.h"

#define SECONDS_MAX INT64_C(253402300800) /* the year 10000 */

static const char *const names[_QUERY_MAX] = {
        [QUERY_HOST] = "host",   [QUERY_SLICE] = "slice", [QUERY_NAME] = "name",     [QUERY_STATE] = "state",
        [QUERY_SINCE] = "since", [QUERY_LIMIT] = "limit", [QUERY_OFFSET] = "offset", [QUERY_WAIT] = "wait",
        [QUERY_FROM] = "from",   [QUERY_UNTIL] = "until", [QUERY_REASON] = "reason",
        [QUERY_WORKER] = "worker", [QUERY_RUN] = "run",   [QUERY_EPISODE] = "episode",
};

struct reading {
        struct query query;
        unsigned given, allowed;
        int64_t limit_max;
        char *why;
};

static int wrong(struct reading *r, const char *key, const char *text) {
        (void) snprintf(r->why, QUERY_WHY_MAX, "parameter %.40s: %s", key, text);
        return -EINVAL;
}

static int number(struct reading *r, const char *key, const char *value, int64_t least, int64_t most,
                  int64_t *ret) {
        char *end, text[80];
        long long n;

        errno = 0;
        n = strtoll(value, &end, 10);
        if (*value < '0' || *value > '9' || *end || errno || n < least || n > most) {
                (void) snprintf(text, sizeof(text), "must be a number from %lld to %lld", (long long) least,
                                (long long) most);
                return wrong(r, key, text);
        }
        *ret = n;
        return 0;
}

int query_time(const char *text, int64_t *ret) {
        struct tm tm = { 0 };
        char *end;
        int64_t seconds, micro = 0, unit = 100000;

        if (*text < '0' || *text > '9' || strlen(text) > 40)
                return -EINVAL;
        errno = 0;
        seconds = strtoll(text, &end, 10);
        if (*end) {
                end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
                if (!end)
                        return -EINVAL;
                if (*end == '.')
                        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
                                micro += (*end - '0') * unit;
                if (!streq(end, "Z"))
                        return -EINVAL;
                seconds = timegm(&tm);
        }
        if (errno == ERANGE || seconds < 0 || seconds > SECONDS_MAX)
                return -EINVAL;
        *ret = seconds * (int64_t) USEC_PER_SEC + micro;
        return 0;
}

static int take(struct reading *r, enum query_parameter p, const char *key, const char *value) {
        int64_t *n = &r->query.number[p];

        switch (p) {
        case QUERY_HOST:
        case QUERY_SLICE:
        case QUERY_NAME:
        case QUERY_STATE:
        case QUERY_WORKER:
        case QUERY_REASON:
        case QUERY_RUN:
        case QUERY_EPISODE:
                r->query.text[p] = *value ? value : NULL;
                return 0;
        case QUERY_SINCE:
        case QUERY_OFFSET:
                return number(r, key, value, 0, INT64_MAX, n);
        case QUERY_LIMIT:
                return number(r, key, value, 1, r->limit_max, n);
        case QUERY_WAIT:
                return number(r, key, value, 0, QUERY_WAIT_MAX, n);
        case QUERY_FROM:
        case QUERY_UNTIL:
                if (query_time(value, n) < 0)
                        return wrong(r, key, "must be a time: 2026-11-21T05:00:00Z, or seconds since 1970");
                return 0;
        case _QUERY_MAX:
                break;
        }
        return -EINVAL;
}

static int unknown(struct reading *r, const char *key) {
        char text[QUERY_WHY_MAX] = "is not known; ";
        const char *sep = "there are ";

        if (!r->allowed)
                return wrong(r, key, "is not known; this call takes none");
        for (enum query_parameter p = 0; p < _QUERY_MAX; p++)
                if (r->allowed & QUERY_BIT(p)) {
                        size_t n = strlen(text);

                        (void) snprintf(text + n, sizeof(text) - n, "%s%s", sep, names[p]);
                        sep = ", ";
                }
        return wrong(r, key, text);
}

static int on_parameter(const char *key, const char *value, void *userdata) {
        struct reading *r = userdata;

        for (enum query_parameter p = 0; p < _QUERY_MAX; p++) {
                if (!(r->allowed & QUERY_BIT(p)) || !streq(key, names[p]))
                        continue;
                if (r->given & QUERY_BIT(p))
                        return wrong(r, key, "is given twice");
                r->given |= QUERY_BIT(p);
                return take(r, p, key, value);
        }
        return unknown(r, key);
}

int query_parse(const struct http_request *q, unsigned allowed, int64_t limit_max, struct query *ret,
                char why[static QUERY_WHY_MAX]) {
        struct reading r = { .allowed = allowed, .limit_max = limit_max, .why = why };
        int e;

        for (size_t i = 0; i < _QUERY_MAX; i++)
                r.query.number[i] = -1;
        e = http_query(q, on_parameter, &r);
        if (e < 0)
                return e;
        *ret = r.query;
        return 0;
}
