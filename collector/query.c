/* SPDX-License-Identifier: Apache-2.0 */
#include "query.h"

enum parameter { HOST, SLICE, NAME, SINCE, LIMIT, _PARAMETER_MAX };

struct reading {
        struct store_event_filter filter;
        unsigned given; /* bits of enum parameter */
        char *why;
};

static int wrong(struct reading *r, const char *key, const char *text) {
        (void) snprintf(r->why, QUERY_WHY_MAX, "parameter %.60s: %s", key, text);
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

static int take(struct reading *r, enum parameter p, const char *key, const char *value) {
        if (r->given & (1U << p))
                return wrong(r, key, "is given twice");
        r->given |= 1U << p;
        switch (p) {
        case HOST:
                r->filter.host = value;
                return 0;
        case SLICE:
                r->filter.slice = value;
                return 0;
        case NAME:
                r->filter.name = value;
                return 0;
        case SINCE:
                return number(r, key, value, 0, INT64_MAX, &r->filter.since);
        case LIMIT:
                return number(r, key, value, 1, QUERY_LIMIT_MAX, &r->filter.limit);
        case _PARAMETER_MAX:
                break;
        }
        return -EINVAL;
}

static int on_parameter(const char *key, const char *value, void *userdata) {
        static const char *const names[_PARAMETER_MAX] = {
                [HOST] = "host", [SLICE] = "slice", [NAME] = "name", [SINCE] = "since", [LIMIT] = "limit",
        };
        struct reading *r = userdata;

        for (enum parameter p = 0; p < _PARAMETER_MAX; p++)
                if (streq(key, names[p])) /* an empty filter is none */
                        return *value || p >= SINCE ? take(r, p, key, value) : 0;
        return wrong(r, key, "is not known; there are host, slice, name, since, limit");
}

int query_events(const struct http_request *q, struct store_event_filter *ret,
                 char why[static QUERY_WHY_MAX]) {
        struct reading r = { .filter = { .since = -1, .limit = QUERY_LIMIT_DEFAULT }, .why = why };
        int e;

        e = http_query(q, on_parameter, &r);
        if (e < 0)
                return e;
        *ret = r.filter;
        return 0;
}

static int on_unexpected(const char *key, const char *value, void *userdata) {
        struct reading r = { .why = userdata };

        (void) value;
        return wrong(&r, key, "is not known; this call takes none");
}

int query_none(const struct http_request *q, char why[static QUERY_WHY_MAX]) {
        return http_query(q, on_unexpected, why);
}
