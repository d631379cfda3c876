/* SPDX-License-Identifier: Apache-2.0 */
/* The stream of points: rows of the store that were noted for it, host by host, and around again. */
#include "log.h"
#include "remote_otlp.h"
#include "remote_stream.h"

#define ROWS_MAX 256
#define POINTS_MAX 5000
#define MARKERS_MAX 2000
/* Of one row, or of markers: enough for some bad ones among thousands. Fewer after one of which nothing was
 * taken, such as all that is too old. */
#define HALVED_MAX 64
#define HALVED_LEAST 2
#define MARK_EVERY (10 * USEC_PER_SEC) /* and not while much waits: what a host has not said may be here */

static int add_series(const struct handed_series *one, void *userdata) {
        return remote_request_add(userdata, one);
}

static int show_otlp(struct remote_stream *t, struct handover *h) {
        _cleanup_remote_otlp_ struct remote_otlp b = { .q = &t->request };
        int r = store_show_handover(t->o->store, h, remote_otlp_series, &b);

        return r < 0 ? r : remote_otlp_end(&b);
}

static int show(struct remote_stream *t, struct handover *h) {
        int r;

        remote_request_begin(&t->request);
        if (t->kind->otlp)
                return show_otlp(t, h);
        r = store_show_handover(t->o->store, h, add_series, &t->request);
        return r < 0 ? r : remote_request_end(&t->request);
}

/* The points of the request at hand. */
static struct handover part_of(const struct remote_stream *t) {
        const struct handover *batch = &t->points.batch;
        size_t left = batch->n - t->points.done;

        return (struct handover){ .points = batch->points + t->points.done,
                                  .n = t->points.part > 0 ? MIN(t->points.part, left) : left };
}

/* A part that ends between the counts of histograms and their sums takes the sums, too: what then is no
 * smaller than what was refused is as small as it gets. */
static int make_request(struct remote_stream *t) {
        struct handover part = part_of(t);
        size_t wanted = part.n;
        int r;

        t->points.whole = false;
        if (part.n == t->points.batch.n)
                return show(t, &t->points.batch); /* sorts it */
        r = show(t, &part);
        while (r == 0 && t->request.halves > 0 && t->points.done + part.n < t->points.batch.n) {
                t->points.part = part.n + t->request.halves;
                part = part_of(t);
                r = show(t, &part);
        }
        t->points.whole = part.n > wanted && part.n >= t->points.within;
        return r;
}

static void begin_parts(struct remote_stream *t) {
        t->points.done = t->points.part = t->points.within = 0;
        t->points.halved = 0;
}

/* All that waited when the round began is handed on. 1: there are markers to send. */
static int end_round(struct remote_stream *t, usec_t now) {
        int r;

        t->since = t->points.passed ? t->points.began : 0;
        t->points.began = now;
        t->points.passed = false;
        t->points.after = 0;
        if (t->kind->otlp || now < t->points.marked + MARK_EVERY ||
            (t->since > 0 && now - t->since > MARK_EVERY))
                return 0;
        t->points.marked = now;
        r = stale_take(&t->points.stale, now, MARKERS_MAX, &t->points.batch);
        return r < 0 ? r : t->points.batch.n > 0;
}

/* 1: there is a batch, of rows or of markers; 0: nothing waits. */
static int next_batch(struct remote_stream *t, usec_t now) {
        struct handover *batch = &t->points.batch;
        bool again;
        int r;

        do {
                r = store_read_handover(t->o->store, t->points.after, t->max, POINTS_MAX, batch);
                if (r < 0)
                        return r;
                if (batch->n_rows > 0) {
                        t->points.passed = true;
                        t->since = t->since > 0 ? t->since : now;
                        return 1;
                }
                again = t->points.passed;
                r = end_round(t, now);
        } while (r == 0 && again);
        return r;
}

/* A batch that was refused is read again, for it is larger than the next may be; one of markers stays. */
static int next_points(struct remote_stream *t, usec_t now) {
        struct handover *batch = &t->points.batch;
        int r = 1;

        if (batch->n_rows > t->max || (batch->n_rows == 0 && batch->n == 0)) {
                begin_parts(t);
                r = next_batch(t, now);
        }
        t->n = batch->n_rows;
        if (r > 0)
                r = make_request(t);
        else
                return r;
        return r < 0 ? r : 1;
}

/* Rows are read again; the points of one row, and markers, are sent in parts. */
static bool halve_points(struct remote_stream *t) {
        size_t n = part_of(t).n;

        if (t->n > 1) {
                t->max = t->n / 2;
                return true;
        }
        if (n <= 1 || t->points.whole)
                return false;
        t->points.within = n;
        if (t->points.halved++ < t->points.most) {
                t->points.part = n / 2;
                return true;
        }
        t->points.part = 0;
        t->request.samples = part_of(t).n;
        t->points.most = MAX(t->points.most / 2, (unsigned) HALVED_LEAST);
        return false;
}

static int end_points(struct remote_stream *t, bool taken, usec_t now) {
        struct handover *batch = &t->points.batch, part = part_of(t);
        int r = 0;

        if (taken)
                t->points.most = MIN(2 * t->points.most, (unsigned) HALVED_MAX);
        if (taken && batch->n_rows == 0)
                t->counters.markers += t->request.samples;
        else if (taken && !t->kind->otlp)
                r = stale_learn(&t->points.stale, &part, now);
        if (r < 0)
                log_warning("out of memory: some series will not be marked as ended");
        t->points.within = taken ? t->points.within - MIN(t->points.within, part.n) : 0;
        t->points.part = (t->points.within + 1) / 2;
        t->points.done += part.n;
        if (t->points.done < batch->n)
                return 0; /* the rest is next, and what is refused of it is searched for by halves */
        r = store_forget_handover(t->o->store, batch);
        t->points.after = batch->through;
        batch->n = batch->n_rows = 0;
        begin_parts(t);
        return r;
}

static void forget_points(struct remote_stream *t) {
        t->points.batch.n = t->points.batch.n_rows = 0;
        t->points.after = 0;
        begin_parts(t);
        t->points.most = HALVED_MAX;
        stale_clear(&t->points.stale);
}

const struct remote_kind remote_kind_samples = {
        .name = "metrics",
        .path = "",
        .headers = "Content-Encoding: snappy\nX-Prometheus-Remote-Write-Version: 0.1.0",
        .most = ROWS_MAX,
        .next = next_points,
        .halve = halve_points,
        .end = end_points,
        .forget = forget_points,
};

const struct remote_kind remote_kind_points = {
        .name = "metrics",
        .path = "/v1/metrics",
        .headers = "",
        .otlp = true,
        .most = ROWS_MAX,
        .next = next_points,
        .halve = halve_points,
        .end = end_points,
        .forget = forget_points,
};
