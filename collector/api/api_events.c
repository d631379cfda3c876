/* SPDX-License-Identifier: Apache-2.0 */
#include "api_calls.h"
#include "events.h"
#include "loop_timer.h"

/* --- Events ---------------------------------------------------------------------------------------- */

struct listing {
        json_t *list;
        size_t bytes;
        int64_t last; /* id of the last one */
        bool newest_first;
};

/* 1: this one and those behind it wait for the next call; 0: it has room. */
static int is_full(struct listing *l, size_t bytes) {
        l->bytes += bytes;
        return l->bytes > API_EVENTS_BYTES && json_array_size(l->list) > 0;
}

/* Takes v over. */
static int add_to_list(struct listing *l, json_t *v, int64_t id) {
        l->last = MAX(l->last, id);
        return l->newest_first ? json_array_insert_new(l->list, 0, v) : json_array_append_new(l->list, v);
}

static int on_event(const struct store_event_row *row, void *userdata) {
        struct listing *l = userdata;
        const struct store_event *e = &row->event;
        char sentence[EVENT_SENTENCE_MAX];
        json_t *v, *body;

        if (is_full(l, strlen(e->body) + strlen(e->attributes)))
                return 1;
        body = api_stored(e->body);
        v = json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:s, s:s, s:s, s:o, s:o, s:s}", "id",
                      (json_int_t) row->id,
                      "host", row->host, "slice", api_text(row->slice), "worker_id",
                      api_number(row->worker_id), "time", api_time(e->time), "received",
                      api_time(e->received), "name", e->name, "severity", severity_name(e->severity),
                      "sentence",
                      json_is_string(body) ? json_string_value(body)
                                           : event_sentence_of(e->name, body, sentence),
                      "body", body, "attributes", api_stored(e->attributes), "service", e->service);
        return add_to_list(l, v, row->id);
}

/* --- GET /api/v1/runs/NAME/logs: what a run printed ------------------------------------------------ */

static int on_line(const struct store_line_row *row, void *userdata) {
        struct listing *l = userdata;
        const struct store_line *e = &row->line;
        json_t *v;

        if (is_full(l, strlen(e->text)))
                return 1;
        v = json_pack("{s:I, s:o, s:s, s:o, s:o, s:o, s:s, s:I, s:I, s:I, s:o}", "id", (json_int_t) row->id,
                      "time", api_time(e->time), "host", row->host, "slice", api_text(e->slice), "worker_id",
                      api_number(e->worker_id), "generation", api_number(e->generation), "invocation",
                      e->invocation, "number", (json_int_t) e->number, "missing", (json_int_t) row->missing,
                      "priority", (json_int_t) e->priority, "text", api_text(e->text));
        return add_to_list(l, v, row->id);
}

/* "SLICE/N", or "N" of any slice. */
static int parse_worker(const char *text, char slice[static 64], struct store_line_filter *f) {
        const char *number = strrchr(text, '/');
        char *end;
        size_t n = number ? (size_t) (number - text) : 0;

        if (number && (n == 0 || n >= 64))
                return -EINVAL;
        memcpy(slice, text, n);
        slice[n] = '\0';
        f->slice = number ? slice : NULL;
        number = number ? number + 1 : text;
        if (*number < '0' || *number > '9' || strlen(number) > 6)
                return -EINVAL;
        f->worker = strtol(number, &end, 10);
        return *end ? -EINVAL : 0;
}

/* --- Calls, and those who wait for more ------------------------------------------------------------ */

/* How many there were; -errno. */
static int list_what(const struct api *a, const struct follow_what *what, struct http_reply *reply) {
        int64_t since = what->lines ? what->line.since : what->event.since;
        struct listing l = { .newest_first = since < 0, .last = MAX(since, 0), .list = json_array() };
        int n, r = -ENOMEM;

        if (l.list)
                r = what->lines ? store_list_lines(a->store, &what->line, on_line, &l)
                                : store_list_events(a->store, &what->event, on_event, &l);
        n = (int) json_array_size(l.list);
        api_reply_result(reply, a, MIN(r, 0),
                         what->lines ? json_pack("{s:s, s:o, s:I}", "run", what->line.run, "lines", l.list,
                                                 "next", (json_int_t) l.last)
                                     : json_pack("{s:o, s:I}", "events", l.list, "next",
                                                 (json_int_t) l.last));
        return r < 0 ? r : n;
}

/* Nothing is there, or what was asked for is not: two answers. The collector's own events are of no host
 * that is listed. */
static bool is_known(const struct api *a, const struct follow_what *what, struct http_reply *reply) {
        const char *host = what->lines ? what->line.host : what->event.host,
                   *slice = what->lines ? what->line.slice : what->event.slice;

        return (!what->lines || api_knows(a, KNOWN_RUN, what->line.run, reply)) &&
               (!slice || api_knows(a, KNOWN_SLICE, slice, reply)) &&
               (!host || streq(host, STORE_OWN_NAME) || api_knows(a, KNOWN_HOST, host, reply));
}

/* With none, and wait=, the call is kept until there are some. */
static void list_or_wait(const struct api *a, const struct http_request *q, const struct follow_what *what,
                         struct http_reply *reply) {
        int64_t since = what->lines ? what->line.since : what->event.since;
        int64_t wait = route_number(q, "wait", 0);
        struct http_reply unknown = { 0 };
        int n = list_what(a, what, reply);

        if (n == 0 && wait == 0 && !is_known(a, what, &unknown)) {
                http_reply_clear(reply);
                *reply = unknown;
        }
        if (n != 0 || wait <= 0 || since < 0 || follow_add(a->follow, what, (unsigned) wait, q->call) < 0)
                return;
        free(reply->body);
        *reply = (struct http_reply){ .later = true };
}

void api_events(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_event_filter f = {
                .host = route_text(q, "host"),
                .slice = route_text(q, "slice"),
                .name = route_text(q, "name"),
                .since = route_number(q, "since", -1),
                .limit = route_number(q, "limit", API_EVENTS_DEFAULT),
        };
        int64_t from = route_number(q, "from", -1);
        int r = 0;

        if (from >= 0 && f.since < 0)
                r = store_event_before(a->store, (usec_t) from, &f.since);
        if (r < 0) {
                api_reply_result(reply, a, r, NULL);
                return;
        }
        list_or_wait(a, q, &(struct follow_what){ .event = f }, reply);
}

void api_lines(const struct api *a, const struct http_request *q, struct http_reply *reply) {
        struct store_line_filter f = { .run = route_part(q, 0),
                                       .worker = -1,
                                       .host = route_text(q, "host"),
                                       .since = route_number(q, "since", -1),
                                       .limit = route_number(q, "limit", API_LINES_DEFAULT) };
        const char *worker = route_text(q, "worker");
        char slice[64];

        if (worker && parse_worker(worker, slice, &f) < 0) {
                api_reply_error(reply, 400, "worker= must be SLICE/NUMBER or NUMBER",
                                "tpuctl fleet lists slices and their workers");
                return;
        }
        list_or_wait(a, q, &(struct follow_what){ .lines = true, .line = f }, reply);
}

/* --- Those who wait -------------------------------------------------------------------------------- */

struct waiter {
        struct waiter *next;
        struct http_call *call;
        char *host, *slice, *name; /* name: the event's or the run's */
        struct follow_what what;
        usec_t until; /* of the boot clock */
};

struct follow {
        const struct api *api;
        sd_event_source *timer;
        struct waiter *first;
        unsigned n;
        bool news;
};

static struct waiter *waiter_free(struct waiter *w) {
        if (!w)
                return NULL;
        free(w->host);
        free(w->slice);
        free(w->name);
        free(w);
        return NULL;
}

/* Answers those for whom there is something, or whose time is up (all, when the program ends). */
static usec_t answer_followers(struct follow *f, bool all) {
        usec_t now = clock_boot(f->api->clock), next = USEC_INFINITY;
        struct waiter **at = &f->first;

        while (*at) {
                struct waiter *w = *at;
                struct http_reply reply = { 0 };
                bool due = all || w->until <= now;

                if ((f->news || due) && (list_what(f->api, &w->what, &reply) != 0 || due)) {
                        *at = w->next;
                        f->n--;
                        http_answer(w->call, &reply);
                        waiter_free(w);
                        continue;
                }
                free(reply.body);
                next = MIN(next, w->until);
                at = &w->next;
        }
        f->news = false;
        return next;
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct follow *f = userdata;

        (void) source;
        (void) at;
        (void) loop_timer_at(f->timer, answer_followers(f, false)); /* fails only when the loop ends */
        return 0;
}

int follow_new(sd_event *e, const struct api *a, struct follow **ret) {
        _cleanup_(follow_freep) struct follow *f = calloc(1, sizeof(*f));
        int r;

        if (!f)
                return -ENOMEM;
        f->api = a;
        r = loop_timer_new(e, CLOCK_BOOTTIME, 10 * USEC_PER_MSEC, "follow", on_timer, f, &f->timer);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(f);
        return 0;
}

struct follow *follow_free(struct follow *f) {
        if (!f)
                return NULL;
        (void) answer_followers(f, true);
        (void) sd_event_source_unref(f->timer);
        free(f);
        return NULL;
}

static int copy_text(const char *from, char **ret) {
        if (!from)
                return 0;
        *ret = strdup(from);
        return *ret ? 0 : -ENOMEM;
}

int follow_add(struct follow *f, const struct follow_what *what, unsigned seconds,
               struct http_call *call) {
        struct waiter *w;

        if (f->n >= FOLLOW_MAX)
                return -EBUSY;
        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        if (copy_text(what->lines ? what->line.host : what->event.host, &w->host) < 0 ||
            copy_text(what->lines ? what->line.slice : what->event.slice, &w->slice) < 0 ||
            copy_text(what->lines ? what->line.run : what->event.name, &w->name) < 0) {
                waiter_free(w);
                return -ENOMEM;
        }
        w->call = call;
        w->what = *what;
        w->what.event.host = w->what.line.host = w->host;
        w->what.event.slice = w->what.line.slice = w->slice;
        w->what.event.name = w->what.line.run = w->name;
        w->until = clock_boot(f->api->clock) + seconds * USEC_PER_SEC;
        w->next = f->first;
        f->first = w;
        f->n++;
        if (!f->news) {
                usec_t next = w->until;

                for (const struct waiter *o = f->first; o; o = o->next)
                        next = MIN(next, o->until);
                return loop_timer_at(f->timer, next);
        }
        return 0;
}

void follow_news(struct follow *f) {
        if (!f || !f->first || f->news)
                return;
        f->news = true;
        /* fails only when the loop ends */
        (void) loop_timer_at(f->timer, clock_boot(f->api->clock) + FOLLOW_PAUSE);
}
