/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* For tests of points in the store: they are pushed, the database is tended, and they are read. */
#include "points.h"
#include "store-support.h"
#include "test.h"

#define DAY ((usec_t) 86400 * USEC_PER_SEC)
#define NOW (UINT64_C(1800000000) * USEC_PER_SEC) /* a full ten minutes */

static char dir[] = "/tmp/test-series-XXXXXX"; /* made by the first test */

static inline struct store *opened(void) {
        struct store *s = NULL;
        char aside[300], why[256];

        ASSERT_OK(store_open(path, &s, aside, why));
        return s;
}

static inline struct store *fresh(void) {
        static const char *const ends[] = { "", "-wal", "-shm" };
        char file[80];

        (void) snprintf(path, sizeof(path), "%s/c.db", dir);
        for (size_t i = 0; i < 3; i++) {
                (void) snprintf(file, sizeof(file), "%s%s", path, ends[i]);
                (void) unlink(file);
        }
        return opened();
}

static inline int64_t host(struct store *s, const char *name) {
        int64_t id = 0;

        ASSERT_OK(store_find_host(s, name, NOW, &id));
        return id;
}

static inline void push(struct store *s, const char *name, const char *metric, usec_t time, int64_t value) {
        const struct store_metric m = { .service = "s",
                                        .name = metric,
                                        .attributes = "{}",
                                        .unit = "1",
                                        .is_int = true,
                                        .i = value,
                                        .d = (double) value,
                                        .time = time,
                                        .key = metric,
                                        .key_len = strlen(metric) };

        ASSERT_OK(store_begin(s));
        ASSERT_OK(store_add_point(s, host(s, name), &m));
        ASSERT_OK(store_commit(s));
}

struct past {
        size_t series, points;
        usec_t first, last;
};

static inline int on_past(const struct store_past *p, void *userdata) {
        struct past *w = userdata;

        if (!p->is_point) {
                w->series++;
                return 0;
        }
        if (w->points++ == 0)
                w->first = p->time;
        ASSERT_TRUE(p->time >= w->last);
        w->last = p->time;
        return 0;
}

static inline struct past past_of(struct store *s, const char *name, const char *metric) {
        struct past w = { 0 };
        bool cut = false;
        int r = store_list_past(
                s,
                &(struct store_series_filter) {
                        .host = name, .name = metric, .since = 0, .until = NOW + DAY, .limit = 1000000 },
                on_past, &w, &cut);

        ASSERT_TRUE(r == 0 || r == -ENOENT); /* of a host that was forgotten there are none */
        ASSERT_FALSE(cut);
        return w;
}

static inline void tend_all(struct store *s, uint32_t days, uint64_t bytes, usec_t now, unsigned turns) {
        unsigned hosts;

        for (unsigned i = 0; i < turns; i++)
                ASSERT_OK(store_tend(s, &(struct store_retention) { .days = days, .bytes = bytes }, now,
                                     &hosts));
}

static inline int on_latest(const struct store_value *v, void *userdata) {
        char *line = userdata;

        (void) snprintf(line + strlen(line), 200 - strlen(line), "%s=%lld@%lld ", v->metric.name,
                        (long long) v->metric.i,
                        (long long) (v->metric.time / USEC_PER_SEC) - (long long) (NOW / USEC_PER_SEC));
        return 0;
}

static inline const char *latest_of(struct store *s, const char *name, char line[static 200]) {
        line[0] = '\0';
        ASSERT_OK(store_list_metrics(s, host(s, name), on_latest, line));
        return line;
}
