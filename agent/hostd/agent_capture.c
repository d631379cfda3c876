/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures of a run's stacks for a diagnosis over its hosts: asked for by the registry's record
 * capture/SLICE, or by this host for itself where there is no registry that could. tpu-launchd takes them;
 * they are kept (capture_shelf.h), go to the collector of the registry (agent_capture_send.h), and as text,
 * for exporters, into an event.
 */
#include "agent_capture_send.h"
#include "libtpu_part.h"
#include "net_part.h"
#include "agent_parts.h"
#include "watch_part.h"
#include "capture_host.h"
#include "capture_peers.h"
#include "capture_shelf.h"
#include "capture_text.h"
#include "clock.h"
#include "host_stat.h"
#include "json_text.h"
#include "local_call.h"
#include "local.pb-c.h"
#include "log.h"
#include "paths.h"
#include "run_record.h"

#define ROUNDS_MAX   4
#define EPISODES_MAX 16                  /* that are remembered as answered, beside the files */
#define AHEAD_MAX    (10 * USEC_PER_SEC) /* further ahead is a wrong clock: at once then */
#define OLD          (60 * USEC_PER_SEC)
#define SECOND_MAX   (60 * USEC_PER_SEC)
#define SECOND       (5 * USEC_PER_SEC) /* of a round of one's own */
#define OWN_APART    (300 * USEC_PER_SEC)
#define ANSWER_TIME  (25 * USEC_PER_SEC) /* tpu-launchd gives up before */
#define BUSY_AGAIN   (1 * USEC_PER_SEC)
#define TRIES_MAX    5
#define HOW_MAX      80

struct capture_round {
        struct agent_capture *owner; /* NULL: the place is free */
        char episode[64], run[64];
        uint64_t generation;
        uint64_t hosts, slice_hosts; /* that were asked; 0: not known */
        usec_t wanted, second;       /* wanted: real time; second: after the first, 0: there is none */
        usec_t began;                /* boot clock, of the first */
        unsigned round, tries;
        bool own;
        void *token; /* somebody waits for it; NULL: nobody */
        sd_event_source *timer;
        struct local_call *call;
        struct reach *reach; /* asked in the first capture, looked at in the second */
        uint8_t *stacks; /* that wait for the cores */
        size_t stacks_len;
        usec_t taken;
};

struct own_round {
        char run[64];
        uint64_t generation;
        usec_t at; /* boot clock; 0: none */
};

struct agent_capture {
        struct bus *bus;
        struct agent_capture_send *send;
        struct own_round own[8]; /* the last by this host for itself */
        struct capture_round rounds[ROUNDS_MAX];
        char answered[EPISODES_MAX][64]; /* by turns */
        unsigned turn;
        char directory[sizeof(((struct settings *) NULL)->spool_directory) + 16];
};

static void round_clear(struct capture_round *c) {
        c->timer = sd_event_source_disable_unref(c->timer);
        c->call = local_call_free(c->call);
        if (c->token)
                agent_capture_answered(TAKE_PTR(c->token), NULL, 0, "the capture was given up");
        if (c->stacks)
                libtpu_cancel_status(c->owner->bus);
        free(c->stacks);
        c->reach = reach_free(c->reach);
        *c = (struct capture_round){ 0 };
}

/* --- What is sent -------------------------------------------------------------------------------------- */

static const char *first_address(const struct bus *b) {
        const struct agent_registry *g = agent_of(b)->enrollment;

        const char *text =
                g ? json_string_value(json_array_get(json_object_get(g->said, "address"), 0)) : NULL;

        return text ? text : "";
}

static int64_t last_step(const struct bus *b, const char *run) {
        uint64_t step = agent_last_step(b, run);

        return step == SUSPICION_STEP_NONE ? -1 : (int64_t) MIN(step, (uint64_t) INT64_MAX);
}

static usec_t clock_error_of(const struct bus *b) {
        struct host_clock c;

        if (host_clock(b->host, &c) < 0)
                return 0;
        return c.max_error_usec; /* 16 s of one that nothing sets: adjtimex(2) */
}

/* What of this host goes with the stacks. how: for ended_how. */
static void describe(const struct capture_round *c, const char *problem, usec_t taken,
                     char how[static HOW_MAX], struct capture_about *ret) {
        const struct bus *b = c->owner->bus;
        const struct host_run *j = host_runs_find(b->runs, c->run);
        const char *slice = identity_get(&b->identity, IDENTITY_SLICE_NAME);
        uint32_t worker;

        *ret = (struct capture_about){ .slice = slice ? slice : "",
                                       .host = b->name,
                                       .address = first_address(b),
                                       .episode = c->own ? "" : c->episode,
                                       .worker = CAPTURE_WORKER_NONE,
                                       .round = c->round,
                                       .wanted = c->wanted,
                                       .taken = taken,
                                       .clock_error = clock_error_of(b),
                                       .step = last_step(b, c->run),
                                       .problem = problem,
                                       .reached = CAPTURE_REACHED_NONE,
                                       .checks = &b->checks };
        if (identity_get_u32(&b->identity, IDENTITY_WORKER_ID, &worker) == 0)
                ret->worker = worker;
        if (!problem || !j || host_run_lives(j))
                return;
        (void) snprintf(how, HOW_MAX, "%s%s%s%s%s%s", j->cause, j->code[0] ? " (" : "", j->code,
                        j->status[0] ? " " : "", j->status, j->code[0] ? ")" : "");
        ret->ended = j->ended_real;
        ret->ended_how = how;
        if (ret->step < 0)
                ret->step = j->last_step;
}

/* The copy for exporters. */
static void tell(const struct capture_round *c, const struct capture_about *about,
                 const struct capture_text *t) {
        struct bus *b = c->owner->bus;
        char taken[CLOCK_TEXT_MAX], worker[16] = "";

        if (about->worker != CAPTURE_WORKER_NONE)
                (void) snprintf(worker, sizeof(worker), "%" PRIu32, about->worker);
        (void) bus_emit(b,
                          EVENT_OF(RUN_CAPTURED, .verb = "stacktraceanalyzer", .node = b->name,
                                   .slice = about->slice, .worker = worker, .run = c->run,
                                   .generation = (int64_t) c->generation, .episode = c->episode,
                                   .round = c->round, .taken = clock_text(about->taken, taken),
                                   .late = (int64_t) (about->taken - MIN(about->taken, about->wanted)),
                                   .processes = t->processes, .threads = t->threads,
                                   .problem = about->problem ? about->problem : t->cut ? "cut" : "",
                                   .text = t->text ? t->text : ""),
                          NULL);
}

static void hand_on(const struct capture_round *c, const uint8_t *data, size_t len, usec_t taken,
                    const char *file, bool shelved) {
        struct capture_sent s = { .generation = c->generation,
                                  .hosts = c->hosts,
                                  .slice_hosts = c->slice_hosts,
                                  .round = c->round,
                                  .rounds = c->second > 0 ? 2 : 1,
                                  .taken = taken };

        (void) snprintf(s.file, sizeof(s.file), "%s", file);
        (void) snprintf(s.episode, sizeof(s.episode), "%s", c->own ? "" : c->episode);
        (void) snprintf(s.run, sizeof(s.run), "%s", c->run);
        (void) snprintf(s.suspicion, sizeof(s.suspicion), "%s",
                        agent_capture_suspicion(c->owner->bus, c->run));
        agent_capture_send_add(c->owner->send, &s, shelved ? NULL : data, len);
}

/* What was found for this capture alone. */
static void look_around(struct capture_round *c, struct finding_list *peers, struct capture_about *about,
                        struct capture_own *own) {
        struct bus *b = c->owner->bus;

        capture_peers_unanswered(b->host, peers);
        net_tell_links(b, peers);
        if (c->second > 0)
                watch_round(b, c->run, c->round, peers);
        if (c->round == 0 && c->second > 0 && !c->reach)
                capture_peers_ask(b->host, &c->reach);
        else if (c->round > 0 && c->reach)
                capture_peers_answered(c->reach, peers, &about->reached);
        capture_peers_own(b->host, own);
        about->own = own;
        about->more = peers;
}

static void deliver(struct capture_round *c, const uint8_t *stacks, size_t len,
                    const struct libtpu_status *cores, const char *problem, usec_t taken) {
        _cleanup_finding_list_ struct finding_list peers = FINDING_LIST_NULL;
        _cleanup_free_ uint8_t *data = NULL;
        char why[CAPTURE_WHY_MAX] = "", how[HOW_MAX] = "", file[SHELF_NAME_MAX];
        struct capture_text text = { .text = NULL };
        struct capture_about about;
        struct capture_own own;
        int r;

        if (stacks && capture_text_make(stacks, len, CAPTURE_COPY_MAX, &text, why) < 0) {
                log_warning("run %s: its stacks are left out of the capture: %s", c->run, why);
                problem = why; /* that this host is there is evidence, too */
                stacks = NULL;
                len = 0;
        }
        describe(c, problem, taken, how, &about);
        look_around(c, &peers, &about, &own);
        about.cores = cores;
        r = capture_host_append(stacks, len, &about, &data, &len);
        if (r < 0) {
                (void) log_warning_errno(r, "run %s: no capture: %m", c->run);
                free(text.text);
                return;
        }
        r = capture_shelf_put(c->owner->directory, taken, c->round, c->episode, data, len, file);
        if (r < 0)
                (void) log_warning_errno(r, "%s: the capture is not kept on this host: %m",
                                         c->owner->directory);
        if (c->token)
                agent_capture_answered(TAKE_PTR(c->token), data, len, NULL);
        else {
                tell(c, &about, &text);
                hand_on(c, data, len, taken, file, r == 0);
        }
        free(text.text);
}

const char *agent_capture_suspicion(const struct bus *b, const char *run) {
        const struct suspicion *s = agent_suspicion(b, run);

        if (s && (s->counts || s->kind != SUSPICION_PAUSE))
                return suspicion_kind_name(s->kind);
        return agent_pause_announced(b, run) ? "announced" : "";
}

/* --- Rounds -------------------------------------------------------------------------------------------- */

static void ask(struct capture_round *c);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        ask(userdata);
        return 0;
}

static void ask_in(struct capture_round *c, usec_t span) {
        int r = c->timer ? sd_event_source_set_time_relative(c->timer, span)
                         : sd_event_add_time_relative(c->owner->bus->event, &c->timer, CLOCK_BOOTTIME,
                                                      span, 10 * USEC_PER_MSEC, on_timer, c);

        if (r >= 0)
                r = sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
        if (r >= 0)
                r = sd_event_source_set_description(c->timer, "capture-round");
        if (r < 0) {
                (void) log_warning_errno(r, "run %s: no capture: %m", c->run);
                round_clear(c);
        }
}

static void next(struct capture_round *c) {
        usec_t now = host_now(c->owner->bus->host), at = c->began + c->second;

        if (c->round > 0 || c->second == 0) {
                round_clear(c);
                return;
        }
        c->round = 1;
        c->tries = 0;
        c->wanted += c->second;
        ask_in(c, at > now ? at - now : 0);
}

/* What the cores do is asked right behind the stacks, and goes with them. */
static void on_cores(const struct libtpu_status *s, void *userdata) {
        struct capture_round *c = userdata;
        uint8_t *stacks = TAKE_PTR(c->stacks);

        deliver(c, stacks, c->stacks_len, s, NULL, c->taken);
        free(stacks);
        next(c);
}

/* True: it goes on in on_cores(). */
static bool ask_cores(struct capture_round *c, const Local__CaptureReply *m) {
        c->stacks = malloc(m->capture.len);
        if (!c->stacks)
                return false;
        memcpy(c->stacks, m->capture.data, m->capture.len);
        c->stacks_len = m->capture.len;
        c->taken = m->taken_real_usec;
        if (libtpu_ask_status(c->owner->bus, on_cores, c) >= 0)
                return true;
        free(TAKE_PTR(c->stacks)); /* no TPU runtime here, or it is being asked */
        return false;
}

static bool take_reply(struct capture_round *c, const struct local_answer *a) {
        Local__CaptureReply *m = local__capture_reply__unpack(NULL, a->len, a->data);
        bool waits = false;

        if (!m || m->capture.len == 0)
                deliver(c, NULL, 0, NULL, "tpu-launchd sent no capture: is it of the same version?",
                        host_now_real(c->owner->bus->host));
        else {
                waits = ask_cores(c, m);
                if (!waits)
                        deliver(c, m->capture.data, m->capture.len, NULL, NULL, m->taken_real_usec);
        }
        if (m)
                local__capture_reply__free_unpacked(m, NULL);
        return waits;
}

static void on_answer(const struct local_answer *a, void *userdata) {
        struct capture_round *c = userdata;
        bool waits = false;

        if (a->error == -EBUSY && c->tries++ < TRIES_MAX) { /* somebody else's capture is under way */
                c->call = local_call_free(c->call);
                ask_in(c, BUSY_AGAIN);
                return;
        }
        if (a->error < 0)
                deliver(c, NULL, 0, NULL, a->text, host_now_real(c->owner->bus->host));
        else
                waits = take_reply(c, a);
        c->call = local_call_free(c->call);
        if (!waits)
                next(c);
}

/* A request that names no run means the one that runs here. */
static void choose_run(struct capture_round *c) {
        const struct host_runs *l = c->owner->bus->runs;
        usec_t newest = 0;

        for (size_t i = 0; !c->run[0] && i < l->n; i++)
                if (streq(l->runs[i].state, "running") && l->runs[i].started_real >= newest) {
                        newest = l->runs[i].started_real;
                        (void) snprintf(c->run, sizeof(c->run), "%s", l->runs[i].name);
                        c->generation = l->runs[i].generation;
                }
}

static void ask(struct capture_round *c) {
        Local__CaptureRequest m = LOCAL__CAPTURE_REQUEST__INIT;
        struct bus *b = c->owner->bus;
        int r;

        if (c->round == 0 && c->tries == 0) {
                c->began = host_now(b->host);
                choose_run(c);
        }
        if (!c->run[0]) {
                deliver(c, NULL, 0, NULL, "no run runs on this host", host_now_real(b->host));
                round_clear(c);
                return;
        }
        m.name = c->run;
        m.native = true;
        r = local_call_new(b->event,
                           &(struct local_question){ "tpu-launchd", bus_launchd_socket(b),
                                                     LOCAL__KIND__KIND_CAPTURE_REQUEST,
                                                     LOCAL__KIND__KIND_CAPTURE_REPLY, &m.base, ANSWER_TIME },
                           on_answer, c, &c->call);
        if (r < 0) {
                (void) log_warning_errno(r, "run %s: no capture: %m", c->run);
                round_clear(c);
        }
}

static struct capture_round *free_round(struct agent_capture *k) {
        for (size_t i = 0; i < ROUNDS_MAX; i++)
                if (!k->rounds[i].owner)
                        return &k->rounds[i];
        log_warning("a capture is asked for, but %d are under way: it is left out", ROUNDS_MAX);
        return NULL;
}

static bool was_answered(const struct agent_capture *k, const char *episode) {
        for (size_t i = 0; i < EPISODES_MAX; i++)
                if (streq(k->answered[i], episode))
                        return true;
        return capture_shelf_has(k->directory, episode);
}

static void note_answered(struct agent_capture *k, const char *episode) {
        (void) snprintf(k->answered[k->turn++ % EPISODES_MAX], sizeof(k->answered[0]), "%s", episode);
}

void agent_capture_record(struct bus *b, const json_t *v, bool fresh) {
        struct agent_capture *k = agent_of(b)->capture;
        const char *episode = run_text(v, "episode"), *run = run_text(v, "run");
        usec_t now = host_now_real(b->host), at = run_number(v, "at");
        struct capture_round *c;

        agent_capture_send_asked(k->send, v);
        if (!episode[0] || strlen(episode) >= sizeof(c->episode) || (run[0] && !run_name_is_valid(run)) ||
            was_answered(k, episode) ||
            (!fresh && now > at + OLD)) /* what this host finds when it comes back may be of long ago */
                return;
        c = free_round(k);
        if (!c)
                return;
        note_answered(k, episode);
        *c = (struct capture_round){ .owner = k,
                                     .generation = run_number(v, "generation"),
                                     .hosts = run_number(v, "hosts"),
                                     .slice_hosts = run_number(v, "slice_hosts"),
                                     .wanted = at,
                                     .second = MIN(run_number(v, "second"), (uint64_t) SECOND_MAX) };
        (void) snprintf(c->episode, sizeof(c->episode), "%s", episode);
        (void) snprintf(c->run, sizeof(c->run), "%s", run);
        log_notice("captures of run %s are asked for by %.200s (episode %s): %.300s", run[0] ? run : "(any)",
                   run_text(v, "by"), episode, run_text(v, "why"));
        ask_in(c, at > now && at - now <= AHEAD_MAX ? at - now : 0);
}

/* --- For itself ---------------------------------------------------------------------------------------- */

/* Whether there is a registry that sees to this run. */
static bool is_seen_to(const struct bus *b, const char *run, uint64_t generation) {
        const struct agent_registry *g = agent_of(b)->enrollment;

        return generation > 0 && g && g->registry && g->status.state == REGISTRY_MEMBER &&
               g->kind == REGISTRY_COLLECTOR && agent_parts_find(g->parts, run);
}

/* At most one round of a generation in OWN_APART. */
static bool had_one(struct agent_capture *k, const char *run, uint64_t generation, usec_t now) {
        struct own_round *oldest = &k->own[0];

        for (size_t i = 0; i < ELEMENTSOF(k->own); i++) {
                struct own_round *o = &k->own[i];

                if (streq(o->run, run) && o->generation == generation && o->at > 0 &&
                    now < o->at + OWN_APART)
                        return true;
                if (o->at < oldest->at)
                        oldest = o;
        }
        *oldest = (struct own_round){ .at = now, .generation = generation };
        (void) snprintf(oldest->run, sizeof(oldest->run), "%s", run);
        return false;
}

void agent_capture_suspected(struct bus *b, const char *run, uint64_t generation,
                             const struct suspicion *s) {
        struct agent_capture *k = agent_of(b)->capture;
        struct capture_round *c;

        if (!k || is_seen_to(b, run, generation) || had_one(k, run, generation, host_now(b->host)))
                return;
        c = free_round(k);
        if (!c)
                return;
        *c = (struct capture_round){ .owner = k,
                                     .own = true,
                                     .generation = generation,
                                     .wanted = host_now_real(b->host),
                                     .second = SECOND };
        (void) snprintf(c->run, sizeof(c->run), "%.63s", run);
        (void) snprintf(c->episode, sizeof(c->episode), "own.%.24s-%" PRIu64 "-%" PRIu64, run, generation,
                        c->wanted);
        log_notice("run %s is captured by this host for itself: %s", run, s->why);
        ask_in(c, 0);
}

int agent_capture_order(struct bus *b, const char *run, void *token) {
        struct capture_round *c = free_round(agent_of(b)->capture);

        if (!c)
                return -EBUSY;
        *c = (struct capture_round){
                .owner = agent_of(b)->capture, .own = true, .token = token, .wanted = host_now_real(b->host)
        };
        (void) snprintf(c->run, sizeof(c->run), "%.63s", run);
        (void) snprintf(c->episode, sizeof(c->episode), "asked.%.24s-0-%" PRIu64, run, c->wanted);
        ask_in(c, 0);
        return 0;
}

const char *agent_capture_directory(const struct bus *b) {
        return agent_of(b)->capture->directory;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_capture_start(struct bus *b) {
        const char *spool = b->settings.spool_directory, *slash = strrchr(spool, '/');
        struct agent_capture *k = calloc(1, sizeof(*k));

        if (!k)
                return -ENOMEM;
        k->bus = b;
        (void) snprintf(k->directory, sizeof(k->directory), "%.*s/captures",
                        (int) (slash ? slash - spool : 0), spool);
        agent_of(b)->capture = k;
        return agent_capture_send_new(b, k->directory, &k->send);
}

void agent_capture_registry(struct bus *b, bool other) {
        if (agent_of(b)->capture && agent_of(b)->capture->send && other)
                agent_capture_send_anew(agent_of(b)->capture->send);
        else if (agent_of(b)->capture && agent_of(b)->capture->send)
                agent_capture_send_look(agent_of(b)->capture->send);
}

void agent_capture_stop(struct bus *b) {
        for (size_t i = 0; agent_of(b)->capture && i < ROUNDS_MAX; i++)
                round_clear(&agent_of(b)->capture->rounds[i]);
        if (agent_of(b)->capture)
                agent_of(b)->capture->send = agent_capture_send_free(agent_of(b)->capture->send);
        free(agent_of(b)->capture);
        agent_of(b)->capture = NULL;
}
