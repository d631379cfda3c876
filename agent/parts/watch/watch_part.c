/* SPDX-License-Identifier: Apache-2.0 */
#include "watch_part.h"

#include <assert.h>
#include <linux/types.h>

#include "bpf_part.h"
#include "calls.h"
#include "check_words.h"
#include "clock.h"
#include "log.h"
#include "loop_timer.h"
#include "metrics_part.h"
#include "watch_json.h"

#define SECONDS_MAX 30u
#define WHY_MAX 200u
#define SLOW_CALL (1000 * 1000ull)   /* nanoseconds; on a file system of this host's own a call takes less */
#define LOOK_SPAN (1 * USEC_PER_SEC) /* between two looks, unless something is watched */
#define CALLS_MAX 8u                 /* that wait; others are asked to come again */

enum watch_kind { WATCH_SCHED, WATCH_IO, _WATCH_KIND_MAX };

struct watch_state {
        struct bus *bus;
        struct round *round; /* NULL: none is in progress */
};

static const char *const sets[] = { [WATCH_SCHED] = "sched", [WATCH_IO] = "io" };
_Static_assert(ELEMENTSOF(sets) == _WATCH_KIND_MAX, "a set a kind");

static struct watch_state *state_of(const struct bus *b) {
        return bus_part(b, &watch_part);
}

/* --- One watch ----------------------------------------------------------------------------------------- */

static const char *reason_of(const struct bpf_sets *s, const char *set) {
        for (size_t i = 0; s && i < bpf_sets_count(s); i++)
                if (streq(bpf_sets_report(s, i)->name, set))
                        return bpf_sets_report(s, i)->reason;
        return "";
}

static int refuse_watch(int error, const char *text, char why[static WHY_MAX]) {
        (void) snprintf(why, WHY_MAX, "%.*s", (int) WHY_MAX - 1, text);
        return error;
}

/* Both are the programs' memory: figures from nothing, and which control group they are about. */
static int order_watch(const struct bus *b, struct bpf_sets *s, enum watch_kind kind, uint64_t group) {
        size_t figures_size = kind == WATCH_SCHED ? sizeof(struct sched_figures) : sizeof(struct io_figures),
               orders_size = kind == WATCH_SCHED ? sizeof(struct sched_orders) : sizeof(struct io_orders);
        void *figures = bpf_sets_map_memory(s, sets[kind], "figures", figures_size),
             *orders = bpf_sets_map_memory(s, sets[kind], "orders", orders_size);

        if (!figures || !orders)
                return -errno;
        memset(figures, 0, figures_size);
        if (kind == WATCH_SCHED) {
                struct sched_orders *o = orders;

                cpu_nodes(b->host, o->node, SCHED_CPUS);
                o->since = clock_ns(CLOCK_MONOTONIC); /* as bpf_ktime_get_ns() */
                o->group = group;
        } else
                *(struct io_orders *) orders = (struct io_orders){ .group = group,
                                                                   .since = clock_ns(CLOCK_MONOTONIC),
                                                                   .slow = SLOW_CALL };
        return 0;
}

/* group: inode of the run's control group. -EBUSY, -EPERM, -ENOENT or another -errno, and why. */
static int begin_watch(const struct watch_state *w, enum watch_kind kind, uint64_t group,
                       char why[static WHY_MAX]) {
        struct bpf_sets *s = bpf_sets_of(w->bus);
        int r;

        if (!s)
                return refuse_watch(-ENOENT, "there are no BPF programs: tpuctl check bpf says why", why);
        if (bpf_sets_watched(s, sets[kind]))
                return refuse_watch(-EBUSY, "a run is being watched already; it ends within 30 s", why);
        r = order_watch(w->bus, s, kind, group);
        if (r >= 0)
                r = bpf_sets_watch(s, sets[kind]);
        if (r == -EPERM)
                return refuse_watch(r, BPF_WATCH_REFUSED, why);
        if (r < 0 && reason_of(s, sets[kind])[0])
                return refuse_watch(r, reason_of(s, sets[kind]), why);
        if (r < 0)
                return refuse_watch(r, strerror(-r), why);
        return 0;
}

/* What was seen up to now; valid until the next watch of that kind begins. */
static const struct sched_figures *sched_seen(const struct bus *b) {
        return bpf_sets_figures(bpf_sets_of(b), sets[WATCH_SCHED], sizeof(struct sched_figures));
}

static const struct io_figures *io_seen(const struct bus *b) {
        return bpf_sets_figures(bpf_sets_of(b), sets[WATCH_IO], sizeof(struct io_figures));
}

/* The figures stay as they are. Its caller began it, and ends it once. */
static void end_watch(const struct watch_state *w, enum watch_kind kind) {
        struct bpf_sets *s = bpf_sets_of(w->bus);

        assert(bpf_sets_watched(s, sets[kind]));
        bpf_sets_unwatch(s, sets[kind]);
}

/* --- GET /v1/sched and /v1/io -------------------------------------------------------------------------- */

/* Two looks at a run, and what was seen between them when a watch was asked for. */

struct watch_call {
        struct late_call late;
        enum watch_kind kind;
        char run[64]; /* run_name_is_valid() */
        bool watching, watched; /* watched: it was, and has ended */
        char refused[WHY_MAX]; /* why nothing is watched; empty: nobody asked, or it is */
        struct run_look before;
        sd_event_source *timer;
};

static const char *const names[] = { [WATCH_SCHED] = "GET /v1/sched", [WATCH_IO] = "GET /v1/io" };

static void clear_watch_call(struct late_call *late) {
        struct watch_call *c = (struct watch_call *) late; /* its first member */

        if (c->watching)
                end_watch(state_of(late->bus), c->kind);
        run_look_clear(&c->before);
        sd_event_source_disable_unref(c->timer);
}

static json_t *watched_json(const struct watch_call *c) {
        const struct sched_figures *sched = sched_seen(c->late.bus);
        const struct io_figures *io = io_seen(c->late.bus);

        if (!c->watched)
                return json_null();
        if (c->kind == WATCH_SCHED)
                return sched ? watch_json_sched(sched) : json_null();
        return io ? watch_json_io(io) : json_null();
}

static json_t *watched_answer(const struct watch_call *c, const struct run_look *after) {
        double seconds = (double) (after->at - c->before.at) / USEC_PER_SEC;
        bool sched = c->kind == WATCH_SCHED;

        return json_pack("{s:s, s:f, s:o, s:o, s:s?, s:o}", "run", c->run, "seconds", seconds,
                         sched ? "cpu" : "storage",
                         sched ? watch_json_cpu(&c->before, after) : watch_json_storage(&c->before, after),
                         "watch", watched_json(c), "not_watched", c->refused[0] ? c->refused : NULL, "tasks",
                         after->tasks < 0 ? json_null() : json_integer((json_int_t) after->tasks));
}

static int on_time(sd_event_source *source, uint64_t usec, void *userdata) {
        _cleanup_(run_look_clear) struct run_look after = { .group = 0 };
        struct watch_call *c = userdata;
        struct bus *b = c->late.bus;
        struct http_reply answer;

        (void) source;
        (void) usec;
        if (c->watching) { /* it ends first: its figures stay as they are then */
                end_watch(state_of(b), c->kind);
                c->watching = false;
                c->watched = true;
        }
        if (host_metrics_look_close(metrics_of(b), c->run, host_runs_group(b->runs, c->run),
                                    host_now(b->host), &after) < 0)
                (void) answer_error(&answer, 404, "tpuctl runs", "run %s has ended meanwhile", c->run);
        else
                (void) answer_json(&answer, 200, watched_answer(c, &after));
        late_call_answer(&c->late, &answer);
        return 0;
}

/* The named run, or the only one that lives. NULL: *ret says what is wrong. */
static const char *choose_run(const struct bus *b, const struct http_request *r, struct http_reply *ret) {
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

static bool watch_is_refused(struct bus *b, const struct http_request *r, enum watch_kind kind,
                             struct http_reply *ret) {
        if (caller_may_order(r->caller))
                return false;
        call_audit_refusal(b, names[kind], r->caller, "refused: no right to act");
        return answer_error(ret, 403, "sudo tpuctl; over the network AllowActors=",
                            "watch= is for root: it makes every switch or call of the host dearer") == 0;
}

static void watch_for_call(struct watch_call *c, uint64_t seconds) {
        char result[128];

        c->watching = begin_watch(state_of(c->late.bus), c->kind, c->before.group, c->refused) >= 0;
        (void) snprintf(result, sizeof(result),
                        c->watching ? "run %s is watched for %u s" : "run %s cannot be watched", c->run,
                        (unsigned) seconds);
        call_audit(c->late.bus, names[c->kind], &c->late.caller, result);
}

static int look_at_run(struct bus *b, const struct http_request *r, enum watch_kind kind,
                       struct http_reply *ret) {
        uint64_t seconds = (uint64_t) route_number(r, "watch", 0);
        struct watch_call *c;
        const char *run;
        int k;

        if (seconds > 0 && watch_is_refused(b, r, kind, ret))
                return 0;
        run = choose_run(b, r, ret);
        if (!run)
                return 0;
        if (late_calls(b, clear_watch_call) >= CALLS_MAX)
                return answer_error(ret, 429, "again in a second", "too many ask this at once");
        c = late_call_new(b, r, sizeof(*c), names[kind]);
        if (!c)
                return answer_error(ret, 500, "", "out of memory");
        c->late.clear = clear_watch_call;
        c->kind = kind;
        (void) snprintf(c->run, sizeof(c->run), "%s", run);
        if (host_metrics_look_close(metrics_of(b), run, host_runs_group(b->runs, run), host_now(b->host),
                                    &c->before) < 0) {
                k = answer_error(ret, 404, "tpuctl runs",
                                 host_runs_find(b->runs, run) ? "run %s has no control group on this host"
                                                              : "there is no run '%s' on this host",
                                 c->run);
                late_call_free(&c->late);
                return k;
        }
        if (seconds > 0)
                watch_for_call(c, seconds);
        k = loop_timer_new(b->event, CLOCK_BOOTTIME, USEC_PER_MSEC, "watch-call", on_time, c, &c->timer);
        if (k >= 0)
                k = loop_timer_in(c->timer, c->watching ? seconds * USEC_PER_SEC : LOOK_SPAN);
        if (k < 0) {
                late_call_free(&c->late);
                return answer_error(ret, 500, "", "%s", strerror(-k));
        }
        return 1;
}

static int get_sched(void *self, const struct http_request *r, struct http_reply *ret) {
        return look_at_run(((struct watch_state *) self)->bus, r, WATCH_SCHED, ret);
}

static int get_io(void *self, const struct http_request *r, struct http_reply *ret) {
        return look_at_run(((struct watch_state *) self)->bus, r, WATCH_IO, ret);
}

/* --- Between two captures of a round ------------------------------------------------------------------- */

struct round {
        struct watch_state *owner;
        char run[64];
        bool watching[_WATCH_KIND_MAX];
        struct run_look look; /* when it began */
        sd_event_source *limit;
};

static void end_round(struct round *w) {
        for (enum watch_kind k = 0; k < _WATCH_KIND_MAX; k++)
                if (w->watching[k])
                        end_watch(w->owner, k);
        w->owner->round = NULL;
        run_look_clear(&w->look);
        sd_event_source_disable_unref(w->limit);
        free(w);
}

static int on_limit(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        end_round(userdata);
        return 0;
}

static void begin_round(struct watch_state *s, const char *run) {
        struct round *w = calloc(1, sizeof(*w));
        char why[WHY_MAX];

        assert(!s->round);
        if (!w)
                return;
        w->owner = s;
        (void) snprintf(w->run, sizeof(w->run), "%s", run);
        s->round = w;
        if (host_metrics_look_close(metrics_of(s->bus), run, host_runs_group(s->bus->runs, run),
                                    host_now(s->bus->host), &w->look) < 0) {
                end_round(w);
                return;
        }
        for (enum watch_kind k = 0; k < _WATCH_KIND_MAX; k++) {
                w->watching[k] = begin_watch(s, k, w->look.group, why) >= 0;
                if (!w->watching[k])
                        log_debug("run %s is not watched: %s", run, why);
        }
        if (loop_timer_new(s->bus->event, CLOCK_BOOTTIME, USEC_PER_SEC, "watch-limit", on_limit, w,
                           &w->limit) < 0 ||
            loop_timer_in(w->limit, SECONDS_MAX * USEC_PER_SEC) < 0)
                end_round(w);
}

static void add_finding(const struct round *w, const char *check, enum verdict verdict, const char *sentence,
                        struct finding_list *list) {
        struct finding f;

        if (sentence[0] == '\0')
                return;
        finding_init(&f, check, w->run);
        f.verdict = verdict;
        finding_set(f.found, "%s", sentence);
        check_say(&f, WORDS_RUN_WAITS, check, w->run);
        (void) finding_list_add(list, &f); /* without it the capture is as good as without a watch */
}

/* Whether that keeps it from getting on. A run that is over stands nowhere. */
static bool is_held_up(const struct round *w, usec_t now, const struct sched_figures *f,
                       struct run_standing *ret) {
        _cleanup_(run_look_clear) struct run_look after = { .group = 0 };

        if (host_metrics_look_close(metrics_of(w->owner->bus), w->run,
                                    host_runs_group(w->owner->bus->runs, w->run), now, &after) < 0)
                return false;
        run_look_standing(&w->look, &after, ret);
        return ret->starved + ret->blocked > 0 || (f && watch_is_starved(f, &w->look, &after));
}

void watch_round(const struct bus *b, const char *run, uint32_t round, struct finding_list *list) {
        struct watch_state *s = state_of(b);
        struct round *w = s->round;
        struct run_standing standing = { .starved = 0 };
        const struct sched_figures *sched;
        const struct io_figures *io;
        char text[WATCH_SENTENCE_MAX];
        usec_t now = host_now(b->host);
        double seconds;
        bool held_up;

        if (round == 0 && !w)
                begin_round(s, run);
        if (round == 0 || !w || !streq(w->run, run))
                return;
        sched = w->watching[WATCH_SCHED] ? sched_seen(b) : NULL;
        io = w->watching[WATCH_IO] ? io_seen(b) : NULL;
        held_up = is_held_up(w, now, sched, &standing);
        seconds = (double) (now - w->look.at) / USEC_PER_SEC;
        watch_sentence_sched(sched, &standing, seconds, text);
        add_finding(w, "sched", held_up ? VERDICT_FAIL : VERDICT_WARN, text, list);
        if (io)
                add_finding(w, "io", VERDICT_WARN, watch_sentence_io(io, seconds, text), list);
        end_round(w);
}

/* --- The part ------------------------------------------------------------------------------------------ */

/* The part "calls" ends the calls that wait: it stops behind this one, and before the sets are gone. */
static void stop_watch(void *self) {
        struct watch_state *s = self;

        if (s->round)
                end_round(s->round);
}

#define WATCH_ARGUMENTS ARGUMENTS(TAKES_SOME("run"), TAKES_NUMBER("watch", 1, SECONDS_MAX))

static const struct part_route routes[] = {
        { ROUTE_WITH("GET", "/v1/sched", WATCH_ARGUMENTS), .call = get_sched },
        { ROUTE_WITH("GET", "/v1/io", WATCH_ARGUMENTS), .call = get_io },
        PART_ROUTES_END,
};

const struct part watch_part = {
        .name = "watch",
        .size = sizeof(struct watch_state),
        .routes = routes,
        .stop = stop_watch,
};
