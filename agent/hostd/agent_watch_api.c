/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/sched and /v1/io: two looks at a run, and what BPF programs saw between them when they were asked to watch. */
#include "agent_calls.h"
#include "calls.h"
#include "agent_watch.h"
#include "watch_json.h"

#define LOOK_SPAN (1 * USEC_PER_SEC) /* between two looks, unless something is watched */
#define CALLS_MAX 8u                 /* that wait; others are told to come again */

struct watch_call {
        struct watch_call *next;
        struct bus *bus;
        struct http_call *call; /* NULL: nobody waits any more */
        enum watch_kind kind;
        char run[64]; /* run_name_is_valid() */
        bool watching, watched; /* watched: it was, and has ended */
        char refused[WATCH_WHY_MAX]; /* why nothing is watched; empty: nobody asked, or it is */
        struct run_look before;
        sd_event_source *timer;
};

static const char *const names[] = { [WATCH_SCHED] = "GET /v1/sched", [WATCH_IO] = "GET /v1/io" };

/* --- The answer ---------------------------------------------------------------------------------------- */

static bool end_watch(struct watch_call *w) {
        bool was = w->watching;

        if (was)
                agent_watch_end(w->bus, w->kind);
        w->watching = false;
        return was;
}

static void drop(struct watch_call *w) {
        struct watch_call **p = &agent_of(w->bus)->watch_calls;

        while (*p != w)
                p = &(*p)->next;
        *p = w->next;
        (void) end_watch(w);
        run_look_clear(&w->before);
        sd_event_source_disable_unref(w->timer);
        free(w);
}

static json_t *watched_json(const struct watch_call *w) {
        const struct sched_figures *sched = agent_watch_sched(w->bus);
        const struct io_figures *io = agent_watch_io(w->bus);

        if (!w->watched)
                return json_null();
        if (w->kind == WATCH_SCHED)
                return sched ? watch_json_sched(sched) : json_null();
        return io ? watch_json_io(io) : json_null();
}

static json_t *watched_answer(const struct watch_call *w, const struct run_look *after) {
        double seconds = (double) (after->at - w->before.at) / USEC_PER_SEC;

        return json_pack("{s:s, s:f, s:o, s:o, s:s?, s:o}", "run", w->run, "seconds", seconds,
                         w->kind == WATCH_SCHED ? "cpu" : "storage",
                         w->kind == WATCH_SCHED ? watch_json_cpu(&w->before, after) : watch_json_storage(&w->before, after), "watch",
                         watched_json(w), "not_watched", w->refused[0] ? w->refused : NULL, "tasks",
                         after->tasks < 0 ? json_null() : json_integer((json_int_t) after->tasks));
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        struct watch_call *w = userdata;
        struct bus *b = w->bus;
        _cleanup_(run_look_clear) struct run_look after = { .group = 0 };
        struct http_call *call = w->call;
        struct http_reply answer;
        int r;

        (void) source;
        (void) usec;
        w->watched = end_watch(w); /* first: what is answered is what its metrics say */
        r = host_metrics_look_close(agent_of(b)->host_metrics, w->run, host_now(b->host), &after);
        if (r < 0)
                (void) answer_error(&answer, 404, "tpuctl runs", "run %s has ended meanwhile", w->run);
        else
                (void) answer_json(&answer, 200, watched_answer(w, &after));
        drop(w);
        http_answer(call, &answer);
        return 0;
}

/* --- The call ------------------------------------------------------------------------------------------ */

/* The named run, or the only one that lives. NULL: *ret says what is wrong. */
static const char *choose_run(struct bus *b, const struct http_request *r, struct http_reply *ret) {
        const char *run = route_text(r, "run");

        if (!run)
                run = host_runs_only(b->runs);
        if (run[0] == '\0') {
                (void) answer_error(ret, 404, "run=NAME says which; tpuctl runs lists them",
                                          "no run lives on this host, or more than one");
                return NULL;
        }
        if (!run_name_is_valid(run)) {
                (void) answer_error(ret, 400, "[a-z0-9][a-z0-9-]{0,40}", "run= is no name of a run");
                return NULL;
        }
        return run;
}

static int check_watch(struct bus *b, const struct http_request *r, enum watch_kind kind, uint64_t *ret_seconds,
                       struct http_reply *ret) {
        *ret_seconds = (uint64_t) route_number(r, "watch", 0);
        if (*ret_seconds == 0)
                return 0;
        if (!caller_may_order(r->caller)) {
                call_audit_refusal(b, names[kind], r->caller, "refused: no right to act");
                return answer_error(ret, 403, "sudo tpuctl; over the network AllowActors=",
                                          "watch= is for root: it makes every switch or call of the host dearer") == 0;
        }
        return 0;
}

static size_t waiting(const struct bus *b) {
        size_t n = 0;

        for (const struct watch_call *w = agent_of(b)->watch_calls; w; w = w->next)
                n++;
        return n;
}

static void watch(struct watch_call *w, const struct http_request *r, uint64_t seconds) {
        char result[128];

        w->watching = agent_watch_begin(w->bus, w->kind, w->run, w->before.group, w->refused) >= 0;
        (void) snprintf(result, sizeof(result), w->watching ? "run %s is watched for %u s" : "run %s cannot be watched", w->run,
                        (unsigned) seconds);
        call_audit(w->bus, names[w->kind], r->caller, result);
}

static int begin(struct bus *b, const struct http_request *r, enum watch_kind kind, struct http_reply *ret) {
        struct watch_call *w;
        uint64_t seconds;
        const char *run;
        int k;

        if (check_watch(b, r, kind, &seconds, ret) > 0)
                return 0;
        run = choose_run(b, r, ret);
        if (!run)
                return 0;
        if (waiting(b) >= CALLS_MAX)
                return answer_error(ret, 429, "again in a second", "too many ask this at once");
        w = calloc(1, sizeof(*w));
        if (!w)
                return answer_error(ret, 500, "", "out of memory");
        *w = (struct watch_call){ .next = agent_of(b)->watch_calls, .bus = b, .kind = kind };
        (void) snprintf(w->run, sizeof(w->run), "%s", run);
        agent_of(b)->watch_calls = w;
        k = host_metrics_look_close(agent_of(b)->host_metrics, run, host_now(b->host), &w->before);
        if (k < 0) {
                k = answer_error(ret, 404, "tpuctl runs; ask again once it runs",
                                       "run %s has no control group on this host", w->run);
                drop(w);
                return k;
        }
        if (seconds > 0)
                watch(w, r, seconds);
        k = sd_event_add_time_relative(b->event, &w->timer, CLOCK_BOOTTIME, w->watching ? seconds * USEC_PER_SEC : LOOK_SPAN, 1000, on_time, w);
        if (k < 0) {
                drop(w);
                return answer_error(ret, 500, "", "%s", strerror(-k));
        }
        (void) sd_event_source_set_description(w->timer, "watch-call");
        http_hold(r, &w->call);
        return 1;
}

int agent_get_sched(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        return begin(b, r, WATCH_SCHED, ret);
}

int agent_get_io(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        return begin(b, r, WATCH_IO, ret);
}

void agent_watch_stop(struct bus *b) {
        while (agent_of(b)->watch_calls)
                drop(agent_of(b)->watch_calls);
}
