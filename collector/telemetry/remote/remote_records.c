/* SPDX-License-Identifier: Apache-2.0 */
/* The streams of events and of lines: in the order in which they came, behind a position each. */
#include "remote_otlp.h"
#include "remote_stream.h"

#define RECORDS_MAX 1024
#define BYTES_MAX ((size_t) 1024 * 1024) /* about: the record that reaches it is in */

static bool is_events(const struct remote_stream *t) {
        return t->kind == &remote_kind_events;
}

static enum handed_records which(const struct remote_stream *t) {
        return is_events(t) ? HANDED_EVENTS : HANDED_LINES;
}

struct reading {
        struct remote_stream *t;
        struct remote_otlp b;
        size_t bytes; /* of texts */
};

/* One more is in the request, or cannot be. 1: it is large enough. */
static int count_record(struct reading *g, int64_t id, size_t bytes) {
        g->t->n++;
        g->t->records.through = id;
        g->bytes += bytes;
        return g->bytes >= BYTES_MAX;
}

static int on_event(const struct store_event_row *e, void *userdata) {
        struct reading *g = userdata;
        int r = remote_otlp_event(&g->b, e);

        return r < 0 ? r : count_record(g, e->id, strlen(e->event.body) + strlen(e->event.attributes));
}

static int on_line(const struct store_line_row *l, void *userdata) {
        struct reading *g = userdata;
        int r = remote_otlp_line(&g->b, l);

        return r < 0 ? r : count_record(g, l->id, strlen(l->line.text));
}

static int read_records(struct remote_stream *t) {
        struct reading g = { .t = t,
                             .b = { .q = &t->request, .is_logs = true, .store = t->o->store } };
        const struct store_event_filter f = { .since = t->records.at, .limit = (int64_t) t->max };
        int r;

        remote_request_begin(&t->request);
        t->n = 0;
        t->records.through = t->records.at;
        r = is_events(t) ? store_list_events(t->o->store, &f, on_event, &g) :
                           store_list_all_lines(t->o->store, f.since, f.limit, on_line, &g);
        t->records.all = r == 0 && t->n < t->max;
        if (r >= 0)
                r = remote_otlp_end(&g.b);
        remote_otlp_clear(&g.b);
        return r;
}

static int next_records(struct remote_stream *t, usec_t now) {
        int r = t->records.at < 0 ? store_handed(t->o->store, which(t), &t->records.at) : 0;

        if (r == 0)
                r = read_records(t);
        if (r < 0)
                return r;
        t->records.read = now;
        t->since = t->n == 0 ? 0 : t->since > 0 ? t->since : now;
        return t->n > 0;
}

/* They are read again, from the same place. */
static bool halve_records(struct remote_stream *t) {
        if (t->n <= 1)
                return false;
        t->max = t->n / 2;
        return true;
}

/* Ids follow each other: one that is not there was removed before its turn. */
static int end_records(struct remote_stream *t, bool taken, usec_t now) {
        (void) taken, (void) now;
        t->counters.expired += (uint64_t) (t->records.through - t->records.at) - t->n;
        t->records.at = t->records.through;
        if (t->records.all)
                t->since = t->records.read;
        return store_set_handed(t->o->store, which(t), t->records.at);
}

/* At once: what comes from now on is to be handed on. Where that fails, the next request asks again. */
static void forget_records(struct remote_stream *t) {
        t->records.at = -1;
        (void) store_handed(t->o->store, which(t), &t->records.at);
}

const struct remote_kind remote_kind_events = {
        .name = "events",
        .path = "/v1/logs",
        .headers = "",
        .otlp = true,
        .most = RECORDS_MAX,
        .next = next_records,
        .halve = halve_records,
        .end = end_records,
        .forget = forget_records,
};

const struct remote_kind remote_kind_lines = {
        .name = "lines of runs",
        .path = "/v1/logs",
        .headers = "",
        .otlp = true,
        .most = RECORDS_MAX,
        .next = next_records,
        .halve = halve_records,
        .end = end_records,
        .forget = forget_records,
};
