/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/v1/suspects: hosts that fail again and again, out of the events that are kept here.
 *
 * The principle: one trouble is nobody's habit. A report counts by its gravity, which is 1 at most, and half
 * as much after HALF_LIFE. A suspect has SUSPECT_SCORE, so two reports at least. What is reported of one run
 * again and again, or of no run within a day, is one report of each kind. What a program does to itself (its
 * exit code, its memory) is no report about the host that it ran on.
 *
 * An event is about the host that it is stored under: the sender of an agent's, as its certificate names it,
 * and whom the collector itself means in its own. So no host can accuse another one.
 */
#include <math.h>

#include "api_calls.h"
#include "events.h"
#include "json_text.h"

#define DAY           (86400 * (usec_t) USEC_PER_SEC)
#define WINDOW        (14 * DAY)
#define HALF_LIFE     (3 * DAY)
#define SUSPECT_SCORE 1.5
#define SCANNED_MAX   20000 /* events of each kind that one answer reads, the newest */
#define LISTED_MAX    200

static const struct {
        enum event_id id;
        const char *field, *is, *except; /* counts where the field is this text, or any but that */
        double gravity;
} troubles[] = {
        { EVENT_STALL_CONFIRMED, "outcome", "named", NULL, 1 },
        { EVENT_RUN_CHANGED, "cause", "host-lost", NULL, 1 },
        { EVENT_RUN_EXITED, "cause", "device-lost", NULL, 1 },
        { EVENT_RUN_EXITED, "cause", "unkillable", NULL, 1 },
        { EVENT_KERNEL_FAULT, "fault", NULL, "oom", 0.8 },
        { EVENT_RUNTIME_ERROR, NULL, NULL, NULL, 0.7 },
        { EVENT_STRAGGLER, NULL, NULL, NULL, 0.7 },
        { EVENT_NET_LINK_BAD, NULL, NULL, NULL, 0.4 },
        { EVENT_CHECK_CHANGED, "to", "FAIL", NULL, 0.4 },
};

struct survey {
        const char *name; /* of the events that are read now */
        json_t *hosts; /* name -> {host, slice, worker_id, score, runs: {NAME: true}, counted: {KEY: true},
                          reports: {EVENT: {name, count, last, sentence}}} */
        usec_t now;
        unsigned scanned;
        bool cut;
};

/* The row that this event is trouble by; -1: it is none. */
static int trouble_of(const char *name, const json_t *fields) {
        for (size_t i = 0; i < ELEMENTSOF(troubles); i++) {
                const char *text = troubles[i].field ? json_text_of(fields, troubles[i].field) : "";

                if (streq(name, event_def(troubles[i].id)->name) &&
                    (!troubles[i].is || streq(text, troubles[i].is)) &&
                    (!troubles[i].except || !streq(text, troubles[i].except)))
                        return (int) i;
        }
        return -1;
}

static json_t *host_of(struct survey *s, const struct store_event_row *row) {
        json_t *host = json_object_get(s->hosts, row->host);

        if (host)
                return host;
        host = json_pack("{s:s, s:o, s:o, s:f, s:{}, s:{}, s:{}}", "host", row->host, "slice",
                         api_text(row->slice), "worker_id", api_number(row->worker_id), "score", 0.0, "runs",
                         "counted", "reports");
        return json_object_set_new(s->hosts, row->host, host) < 0 ? NULL : host;
}

static int add_report(json_t *host, const struct store_event_row *row, const json_t *fields) {
        json_t *reports = json_object_get(host, "reports"), *v = json_object_get(reports, row->event.name),
               *count = json_object_get(v, "count");
        char sentence[EVENT_SENTENCE_MAX];

        if (v) /* the newest was read first */
                return json_integer_set(count, json_integer_value(count) + 1);
        return json_object_set_new(reports, row->event.name,
                                   json_pack("{s:s, s:i, s:o, s:s}", "name", row->event.name, "count", 1,
                                             "last", api_time(row->event.time), "sentence",
                                             event_sentence_of(row->event.name, fields, sentence)));
}

static int add_trouble(struct survey *s, int i, const struct store_event_row *row, const json_t *fields) {
        const char *run = json_text_of(fields, "run");
        usec_t age = s->now - MIN(s->now, row->event.received);
        json_t *host, *counted;
        char key[256];

        if (!*row->host)
                return 0;
        host = host_of(s, row);
        if (!host)
                return -ENOMEM;
        counted = json_object_get(host, "counted");
        (void) snprintf(key, sizeof(key), "%s %.128s %" PRIu64, row->event.name, run,
                        *run ? 0 : row->event.received / DAY);
        if (json_object_get(counted, key))
                return 0;
        if (json_object_set_new(counted, key, json_true()) < 0 ||
            (*run && json_object_set_new(json_object_get(host, "runs"), run, json_true()) < 0) ||
            json_real_set(json_object_get(host, "score"),
                          json_real_value(json_object_get(host, "score")) +
                                  troubles[i].gravity * exp2(-(double) age / (double) HALF_LIFE)) < 0)
                return -ENOMEM;
        return add_report(host, row, fields) < 0 ? -ENOMEM : 0;
}

/* Newest first; 1 ends the reading. */
static int on_event(const struct store_event_row *row, void *userdata) {
        struct survey *s = userdata;
        json_t *fields;
        int i, r;

        if (row->event.received + WINDOW < s->now)
                return 1;
        s->cut |= ++s->scanned >= SCANNED_MAX;
        fields = api_event_fields(&row->event);
        i = trouble_of(row->event.name, fields);
        r = i < 0 ? 0 : add_trouble(s, i, row, fields);
        json_decref(fields);
        return r;
}

static int read_troubles(const struct api *a, struct survey *s) {
        int r = 0;

        for (size_t i = 0; i < ELEMENTSOF(troubles) && r >= 0; i++) {
                if (i > 0 && troubles[i].id == troubles[i - 1].id)
                        continue;
                s->scanned = 0;
                r = store_list_events(a->store,
                                      &(struct store_event_filter){ .name = event_def(troubles[i].id)->name,
                                                                    .since = -1,
                                                                    .limit = SCANNED_MAX },
                                      on_event, s);
        }
        return MIN(r, 0);
}

static double score_of(const json_t *host) {
        return json_real_value(json_object_get(host, "score"));
}

static int compare_hosts(const void *x, const void *y) {
        const json_t *a = *(json_t *const *) x, *b = *(json_t *const *) y;

        return COMPARE(score_of(b), score_of(a)) ?: strcmp(json_text_of(a, "host"), json_text_of(b, "host"));
}

static json_t *host_json(const json_t *host) {
        json_t *reports = json_array(), *v;
        const char *name;

        json_object_foreach (json_object_get(host, "reports"), name, v)
                (void) json_array_append(reports, v);
        return json_pack("{s:O, s:O, s:O, s:o, s:i, s:o}", "host", json_object_get(host, "host"), "slice",
                         json_object_get(host, "slice"), "worker_id", json_object_get(host, "worker_id"),
                         "score", json_real(round(score_of(host) * 100) / 100), "runs",
                         (int) json_object_size(json_object_get(host, "runs")), "reports", reports);
}

/* The worst first. */
static int answer_json(const struct survey *s, json_t **ret) {
        _cleanup_free_ json_t **sorted = calloc(json_object_size(s->hosts) + 1, sizeof(json_t *));
        json_t *list = json_array(), *host;
        const char *name;
        size_t n = 0;

        if (!sorted || !list) {
                json_decref(list);
                return -ENOMEM;
        }
        json_object_foreach (s->hosts, name, host)
                if (score_of(host) >= SUSPECT_SCORE)
                        sorted[n++] = host;
        qsort(sorted, n, sizeof(*sorted), compare_hosts);
        for (size_t i = 0; i < MIN(n, (size_t) LISTED_MAX); i++)
                (void) json_array_append_new(list, host_json(sorted[i]));
        *ret = json_pack("{s:o, s:b}", "suspects", list, "cut", s->cut || n > LISTED_MAX);
        return *ret ? 0 : -ENOMEM;
}

void api_suspects(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct survey s = { .hosts = json_object(), .now = clock_real(a->clock) };
        json_t *v = NULL;
        int r = s.hosts ? read_troubles(a, &s) : -ENOMEM;

        (void) q;
        if (r == 0)
                r = answer_json(&s, &v);
        api_reply_result(reply, a, r, v);
        json_decref(s.hosts);
}
