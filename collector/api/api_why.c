/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GET /api/v1/runs/NAME/why: why a run ended, out of the events of its hosts that are kept here. It needs no
 * registry: a run that one host started for itself has its last words, too.
 */
#include "api_calls.h"
#include "events.h"
#include "json_text.h"
#include "last_words.h"

#define WINDOW_BEHIND (600 * USEC_PER_SEC)           /* an agent that was away tells later */
#define SCANNED_MAX   20000                          /* events that one answer reads */
#define LISTED_MAX    200                            /* of its evidence */
#define LINES_DEFAULT 20

/* What else of a host may say why; the events of the run itself besides. */
static const struct {
        enum event_id id;
        bool of_run; /* else of the host, whatever runs there */
        enum word_weight weight;
} evidence[] = {
        { EVENT_RUN_EXITED, true, WORD_OWN }, /* its weight is its cause's */
        { EVENT_RUN_KILLED_BY, true, WORD_EFFECT }, /* reported by the end itself */
        { EVENT_RUN_REFUSED, true, WORD_PROVEN },
        { EVENT_RUN_CHANGED, true, WORD_EFFECT }, /* but a lost host, which tells nothing itself */
        { EVENT_LAUNCH_ASKED, true, WORD_EFFECT },
        { EVENT_RUN_NOTIFIED, true, WORD_SIGN },
        { EVENT_STALL_CONFIRMED, true, WORD_OWN }, /* unless it was over before the end */
        { EVENT_RUN_RECOVERED, true, WORD_EFFECT },
        { EVENT_STRAGGLER, true, WORD_EFFECT },
        { EVENT_RUNTIME_ERROR, false, WORD_SIGN },
        { EVENT_KERNEL_FAULT, false, WORD_SIGN },
        { EVENT_PREEMPTION_NOTICE, false, WORD_SIGN },
        { EVENT_MAINTENANCE_NOTICE, false, WORD_SIGN },
        { EVENT_NET_LINK_BAD, false, WORD_SIGN },
        { EVENT_PACKETS_DROPPED, false, WORD_EFFECT },
        { EVENT_HOST_STATE_CHANGED, false, WORD_EFFECT },
};

struct why {
        const char *run;
        json_t *list;  /* of evidence, as it is answered, with "at" (microseconds) and "weight" besides */
        json_t *hosts; /* name -> its last exit, an entry of the list, too; null: it reported none */
        json_t *called; /* as lines of others call it, "10.0.0.2" and "task 3" -> name */
        usec_t end;    /* the newest exit, or the registry's word of it */
        unsigned scanned;
        bool cut;
};

static int evidence_of(const char *name) {
        for (size_t i = 0; i < ELEMENTSOF(evidence); i++)
                if (streq(name, event_def(evidence[i].id)->name))
                        return (int) i;
        return -1;
}

/* --- When it ended --------------------------------------------------------------------------------- */

/* The newest one of this name that is about the run, first: 1 ends the reading. */
static int on_ended(const struct store_event_row *row, void *userdata) {
        struct why *w = userdata;
        json_auto_t *fields = event_fields_of(row->event.body, row->event.attributes);
        bool is = streq(json_text_of(fields, "run"), w->run) &&
                  (streq(row->event.name, event_def(EVENT_RUN_EXITED)->name) ||
                   streq(json_text_of(fields, "state"), "ended"));

        if (is)
                w->end = MAX(w->end, row->event.received);
        return is;
}

static int find_end(const struct api *a, struct why *w) {
        static const enum event_id ends[] = { EVENT_RUN_EXITED, EVENT_RUN_CHANGED };
        int r = 0;

        for (size_t i = 0; r >= 0 && i < ELEMENTSOF(ends); i++)
                r = store_list_events(a->store,
                                      &(struct store_event_filter){ .name = event_def(ends[i])->name,
                                                                    .since = -1,
                                                                    .limit = SCANNED_MAX },
                                      on_ended, w);
        return MIN(r, 0);
}

/* --- What was reported --------------------------------------------------------------------------------- */

static json_t *told_json(const struct store_event_row *row, const json_t *fields, int i) {
        const json_t *ended = json_object_get(fields, "ended");
        usec_t at = json_is_integer(ended) ? (usec_t) json_integer_value(ended) : row->event.time;
        const char *cause = json_text_of(fields, "cause");
        enum word_weight weight = evidence[i].weight;
        char sentence[EVENT_SENTENCE_MAX];

        if (evidence[i].id == EVENT_RUN_EXITED)
                weight = last_words_weight(cause);
        else if (evidence[i].id == EVENT_RUN_CHANGED && streq(cause, "host-lost"))
                weight = WORD_PROVEN;
        if (weight == WORD_OWN && *json_text_of(fields, "killed_by"))
                weight = WORD_PROVEN;
        return json_pack("{s:s, s:o, s:o, s:o, s:s, s:s, s:s*, s:s*, s:s*, s:s*, s:I, s:i, s:I, s:I}",
                         "host", row->host, "slice", api_text(row->slice), "worker_id",
                         api_number(row->worker_id), "time",
                         api_time(at), "name", row->event.name, "sentence",
                         event_sentence_of(row->event.name, fields, sentence), "cause",
                         json_string_value(json_object_get(fields, "cause")), "why",
                         json_string_value(json_object_get(fields, "why")), "remedy",
                         json_string_value(json_object_get(fields, "remedy")), "lost_peer",
                         json_string_value(json_object_get(fields, "lost_peer")), "at", (json_int_t) at,
                         "weight", (int) weight, "generation",
                         json_integer_value(json_object_get(fields, "generation")), "started",
                         json_integer_value(json_object_get(fields, "started")));
}

static int on_told(const struct store_event_row *row, void *userdata) {
        struct why *w = userdata;
        int i = evidence_of(row->event.name);
        json_t *fields, *v;

        w->cut = ++w->scanned >= SCANNED_MAX;
        if (row->event.received > w->end + WINDOW_BEHIND)
                return 1;
        if (i < 0)
                return 0;
        fields = event_fields_of(row->event.body, row->event.attributes);
        v = evidence[i].of_run && !streq(json_text_of(fields, "run"), w->run) ? json_null()
                                                                            : told_json(row, fields, i);
        json_decref(fields);
        if (!v)
                return -ENOMEM;
        if (json_is_null(v))
                return 0;
        if (evidence[i].id == EVENT_RUN_EXITED) /* of its last start there */
                (void) json_object_set(w->hosts, row->host, v);
        return json_array_append_new(w->list, v) < 0 ? -ENOMEM : 0;
}

/* task: its place in the run, as XLA numbers tasks of one process a host. */
static void add_host(struct why *w, const json_t *host, size_t task) {
        const char *name = json_string_value(host) ?: json_text_of(host, "host");
        char text[32];
        const json_t *address;
        size_t i;

        if (!*name)
                return;
        if (!json_object_get(w->hosts, name))
                (void) json_object_set_new(w->hosts, name, json_null());
        (void) snprintf(text, sizeof(text), "task %zu", task);
        (void) json_object_set_new(w->called, text, json_string(name));
        json_array_foreach (json_object_get(host, "address"), i, address)
                if (json_is_string(address))
                        (void) json_object_set_new(w->called, json_string_value(address), json_string(name));
}

/* Hosts as the registry has them, so that one that never reported its end is one of the run's, too. */
static void add_hosts(const struct api *a, struct why *w) {
        char key[API_NAME_MAX + 8];
        const json_t *record, *slice, *host;
        size_t i, k, tasks = 0;

        (void) snprintf(key, sizeof(key), "run/%s", w->run);
        record = a->registry ? registry_record(a->registry, key) : NULL;
        json_array_foreach (json_object_get(record, "slices"), i, slice)
                json_array_foreach (json_object_get(slice, "hosts"), k, host)
                        add_host(w, host, tasks++);
}

/*
 * The run's last life alone: an end of a generation before, or of a run that had its name, is not why.
 * A host whose last end is of another life did not report this one. Returns when that life began; 0: nobody
 * says.
 */
static usec_t keep_last_life(struct why *w) {
        usec_t ended = 0, began = 0;
        const json_t *last = NULL;
        const char *name;
        json_t *v;
        void *next;

        json_object_foreach (w->hosts, name, v)
                if (json_number_of(v, "at") > ended) {
                        ended = json_number_of(v, "at");
                        last = v;
                }
        began = json_number_of(last, "started");
        json_object_foreach_safe (w->hosts, next, name, v) {
                bool same = json_number_of(last, "generation") > 0
                                    ? json_equal(json_object_get(last, "generation"),
                                                 json_object_get(v, "generation"))
                                    : json_number_of(v, "at") >= began;

                if (json_is_null(v) || same)
                        began = json_is_null(v) ? began : MIN(began, json_number_of(v, "started"));
                else
                        (void) json_object_del(w->hosts, name);
        }
        return began;
}

/* Keeps what is of that life and of its hosts: of each its last exit, and what was reported since then. */
static int keep_its_own(struct why *w) {
        json_t *kept = json_array(), *v;
        usec_t began = keep_last_life(w);
        size_t i;

        json_array_foreach (w->list, i, v) {
                const char *host = json_text_of(v, "host"), *name = json_text_of(v, "name");
                bool of_run = evidence[evidence_of(name)].of_run;
                const json_t *exit = json_object_get(w->hosts, host);

                if (json_number_of(v, "at") >= began &&
                    (streq(name, event_def(EVENT_RUN_EXITED)->name) ? exit == v : of_run || exit))
                        (void) json_array_append(kept, v);
        }
        json_decref(w->list);
        w->list = kept;
        return kept ? 0 : -ENOMEM;
}

/* --- What it comes to ------------------------------------------------------------------------------ */

/* Stalls that were over before the run ended are no reason. */
static void forgive_recovered(const json_t *list) {
        const char *recovered = event_def(EVENT_RUN_RECOVERED)->name;
        json_t *v;
        size_t i, last = 0;

        json_array_foreach (list, i, v)
                if (streq(json_text_of(v, "name"), recovered))
                        last = i + 1;
        json_array_foreach (list, i, v)
                if (i < last && streq(json_text_of(v, "name"), event_def(EVENT_STALL_CONFIRMED)->name))
                        (void) json_object_set_new(v, "weight", json_integer(WORD_EFFECT));
}

/* The place + 1 in the list of the end of the host that the lines of this end say was lost; 0: they name
 * none that reported its end. */
static size_t lost_end(const struct why *w, const json_t *end) {
        const json_t *host = json_object_get(w->called, json_text_of(end, "lost_peer"));

        return (size_t) json_number_of(json_object_get(w->hosts, json_string_value(host) ?: ""), "place");
}

/* A new reference; NULL: none. */
static json_t *find_first(const struct why *w) {
        json_t *list = w->list, *v;
        size_t n = json_array_size(list), i;
        struct last_word *words = calloc(n + 1, sizeof(*words));
        ssize_t first;

        if (!words)
                return NULL;
        json_array_foreach (list, i, v)
                (void) json_object_set_new(v, "place", json_integer((json_int_t) i + 1));
        json_array_foreach (list, i, v)
                words[i] = (struct last_word){
                        .weight = (enum word_weight) json_integer_value(json_object_get(v, "weight")),
                        .time = (usec_t) json_integer_value(json_object_get(v, "at")),
                        .lost = lost_end(w, v),
                };
        first = last_words_first(words, n);
        free(words);
        return first < 0 ? NULL : json_incref(json_array_get(list, (size_t) first));
}

/* When the last of them ended; what nobody reported is when the registry said so. */
static json_t *ended_json(const struct why *w) {
        usec_t last = 0;
        const char *name;
        json_t *v;

        json_object_foreach (w->hosts, name, v)
                last = MAX(last, (usec_t) json_integer_value(json_object_get(v, "at")));
        return api_time(last > 0 ? last : w->end);
}

/* "; 3 others followed within 4.1 s: 2 peer-lost, 1 stopped" */
static void print_others(FILE *f, const struct why *w, const json_t *first) {
        json_t *counts = json_object(), *v;
        usec_t from = first ? (usec_t) json_integer_value(json_object_get(first, "at")) : 0, last = from;
        const char *name;
        unsigned n = 0;

        json_object_foreach (w->hosts, name, v) {
                const char *cause = json_is_object(v) ? json_text_of(v, "cause") : "no report";

                if (first && streq(name, json_text_of(first, "host")))
                        continue;
                n++;
                last = MAX(last, (usec_t) json_integer_value(json_object_get(v, "at")));
                (void) json_object_set_new(
                        counts, cause, json_integer(json_integer_value(json_object_get(counts, cause)) + 1));
        }
        if (n > 0 && first)
                fprintf(f, "; %u other%s followed within %.1f s:", n, n == 1 ? "" : "s",
                        (double) (last - from) / USEC_PER_SEC);
        else if (n > 0)
                fprintf(f, "%u host%s:", n, n == 1 ? "" : "s");
        json_object_foreach (counts, name, v)
                fprintf(f, " %lld %s%s", (long long) json_integer_value(v), name,
                        json_object_iter_next(counts, json_object_iter_at(counts, name)) ? "," : "");
        json_decref(counts);
}

static bool all_succeeded(const struct why *w) {
        const char *name;
        json_t *v;

        json_object_foreach (w->hosts, name, v)
                if (!streq(json_text_of(v, "cause"), "success"))
                        return false;
        return json_object_size(w->hosts) > 0;
}

static json_t *sentence_json(const struct why *w, const json_t *first) {
        bool is_exit = first && json_object_get(w->hosts, json_text_of(first, "host")) == first;
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        json_t *v;

        if (!f)
                return NULL;
        if (!first)
                fputs(all_succeeded(w) ? "it was done: " : "no host says why: ", f);
        else if (is_exit)
                fprintf(f, "%s ended first, %s%s%s", json_text_of(first, "host"),
                        json_text_of(first, "cause"), *json_text_of(first, "why") ? ": " : "",
                        json_text_of(first, "why"));
        else
                fprintf(f, "before it ended, on %s: %s", json_text_of(first, "host"),
                        json_text_of(first, "sentence"));
        print_others(f, w, first);
        v = memstream_close(f, &text) ? json_string(text) : NULL;
        free(text);
        return v;
}

static int on_line(const struct store_line_row *row, void *userdata) {
        return json_array_insert_new(userdata, 0,
                                     json_pack("{s:o, s:o}", "time", api_time(row->line.time), "text",
                                               api_text(row->line.text))) < 0
                       ? -ENOMEM
                       : 0;
}

static int tail_of(const struct api *a, const struct why *w, const char *host, int64_t limit, json_t *ret) {
        return *host ? store_list_lines(a->store,
                                        &(struct store_line_filter){ .run = w->run,
                                                                     .host = host,
                                                                     .worker = -1,
                                                                     .since = -1,
                                                                     .limit = limit },
                                        on_line, ret)
                     : 0;
}

static json_int_t at_of(const json_t *list, size_t i) {
        return json_integer_value(json_object_get(json_array_get(list, i), "at"));
}

/* They came as each agent could send them. */
static void sort_by_time(json_t *list) {
        for (size_t i = 1; i < json_array_size(list); i++) {
                json_t *v = json_incref(json_array_get(list, i));
                size_t k = i;

                while (k > 0 && at_of(list, k - 1) > json_integer_value(json_object_get(v, "at")))
                        k--;
                (void) json_array_remove(list, i);
                (void) json_array_insert_new(list, k, v);
        }
}

/* The newest of a long list, by time, without what only the judgement needs. True: it was cut. */
static bool make_presentable(json_t *list) {
        bool cut = json_array_size(list) > LISTED_MAX;
        json_t *v;
        size_t i;

        while (json_array_size(list) > LISTED_MAX)
                (void) json_array_remove(list, 0);
        sort_by_time(list);
        json_array_foreach (list, i, v) {
                (void) json_object_del(v, "at");
                (void) json_object_del(v, "weight");
                (void) json_object_del(v, "generation");
                (void) json_object_del(v, "started");
                (void) json_object_del(v, "lost_peer");
                (void) json_object_del(v, "place");
        }
        return cut;
}

static json_t *silent_hosts(const struct why *w) {
        json_t *list = json_array(), *v;
        const char *name;

        json_object_foreach (w->hosts, name, v)
                if (json_is_null(v))
                        (void) json_array_append_new(list, json_string(name));
        return list;
}

static int answer_json(const struct api *a, struct why *w, int64_t limit, json_t **ret) {
        json_t *first, *ended, *sentence, *lines = json_array(), *silent;
        const char *host;
        bool cut;
        int r;

        add_hosts(a, w);
        r = keep_its_own(w);
        if (r < 0)
                return r;
        forgive_recovered(w->list);
        ended = ended_json(w);
        first = find_first(w);
        host = json_text_of(first, "host");
        sentence = sentence_json(w, first);
        silent = silent_hosts(w);
        r = lines ? tail_of(a, w, host, limit, lines) : -ENOMEM;
        cut = make_presentable(w->list) || w->cut;
        *ret = json_pack("{s:s, s:o, s:o, s:o, s:o, s:s, s:o, s:o, s:O, s:o}", "run", w->run, "ended",
                         ended, "sentence", sentence, "host", api_text(*host ? host : NULL),
                         "cause", api_text(json_string_value(json_object_get(first, "cause"))),
                         "remedy", json_text_of(first, "remedy"), "silent", silent, "lines", lines, "events",
                         w->list, "cut", json_boolean(cut));
        json_decref(first);
        return *ret ? r : -ENOMEM;
}

/* All that is kept of the time around its end; of a fleet that tells too much for one answer, less of it. */
static int read_told(const struct api *a, struct why *w) {
        static const usec_t windows[] = { 3600 * (usec_t) USEC_PER_SEC, 600 * USEC_PER_SEC,
                                          60 * USEC_PER_SEC };
        int64_t from = 0;
        int r = 0;

        w->cut = true;
        for (size_t i = 0; r == 0 && w->cut && i < ELEMENTSOF(windows); i++) {
                w->cut = false;
                w->scanned = 0;
                (void) json_array_clear(w->list);
                (void) json_object_clear(w->hosts);
                r = store_event_before(a->store, w->end - MIN(w->end, windows[i]), &from);
                if (r == 0)
                        r = MIN(store_list_events(a->store,
                                                  &(struct store_event_filter){ .since = from,
                                                                                .limit = SCANNED_MAX },
                                                  on_told, w),
                                0);
        }
        return r;
}

void api_why(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct why w = { .run = route_part(q, 0), .list = json_array(), .hosts = json_object(),
                         .called = json_object() };
        json_t *v = NULL;
        int r = w.list && w.hosts && w.called ? find_end(a, &w) : -ENOMEM;

        if (r == 0 && w.end == 0) {
                if (api_knows(a, KNOWN_RUN, w.run, reply))
                        api_reply_error(reply, 404, "no host has reported the end of this run",
                                        "tpuctl runs --fleet # a run that goes on has no last words");
        } else {
                if (r == 0)
                        r = read_told(a, &w);
                if (r == 0)
                        r = answer_json(a, &w, route_number(q, "lines", LINES_DEFAULT), &v);
                api_reply_result(reply, a, r, v);
        }
        json_decref(w.list);
        json_decref(w.hosts);
        json_decref(w.called);
}
