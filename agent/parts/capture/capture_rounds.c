/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_rounds.h"

#include "capture_deliver.h"
#include "capture_shelf.h"
#include "json_text.h"
#include "local.pb-c.h"
#include "libtpu_part.h"
#include "log.h"
#include "loop_timer.h"
#include "member.h"

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

/* A round in progress. */
struct round {
        struct capture_round capture; /* capture.bus is NULL: the place is free */
        usec_t began;                 /* boot clock, of the first */
        unsigned tries;
        sd_event_source *timer;
        struct local_call *call;
        uint8_t *stacks; /* that wait for the cores */
        size_t stacks_len;
        usec_t taken;
};

/* The last by this host for itself. */
struct own_round {
        char run[64];
        uint64_t generation;
        usec_t at; /* boot clock; 0: none */
};

struct capture_rounds {
        struct bus *bus;
        struct capture_send *send;
        struct own_round own[8];
        struct round rounds[ROUNDS_MAX];
        char answered[EPISODES_MAX][64]; /* in turn */
        unsigned turn;
        char directory[sizeof(((struct settings *) NULL)->spool_directory) + 16];
};

static void clear_round(struct round *c) {
        c->timer = sd_event_source_disable_unref(c->timer);
        c->call = local_call_free(c->call);
        if (c->stacks)
                libtpu_cancel_status(c->capture.bus);
        free(c->stacks);
        capture_round_clear(&c->capture);
        *c = (struct round) { .capture = { .bus = NULL } };
}

/* --- One capture after the other ----------------------------------------------------------------------- */

int capture_ask(struct bus *b, const char *run, bool native, usec_t timeout,
                void (*done)(const struct local_answer *a, void *userdata), void *userdata,
                struct local_call **ret) {
        Local__CaptureRequest m = LOCAL__CAPTURE_REQUEST__INIT;
        const struct local_question q = { .program = "tpu-launchd",
                                          .socket = bus_launchd_socket(b),
                                          .kind = LOCAL__KIND__KIND_CAPTURE_REQUEST,
                                          .want = LOCAL__KIND__KIND_CAPTURE_REPLY,
                                          .message = &m.base,
                                          .timeout = timeout };

        m.name = (char *) (uintptr_t) run; /* only read */
        m.native = native;
        return local_call_new(b->event, &q, done, userdata, ret);
}

static void take_capture(struct round *c);

static int on_round_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        take_capture(userdata);
        return 0;
}

static void take_capture_in(struct round *c, usec_t span) {
        sd_event *e = c->capture.bus->event;
        int r = c->timer ? 0
                         : loop_timer_new(e, CLOCK_BOOTTIME, 10 * USEC_PER_MSEC, "capture-round",
                                          on_round_timer, c, &c->timer);

        if (r >= 0)
                r = loop_timer_in(c->timer, span);
        if (r < 0) {
                (void) log_warning_errno(r, "run %s: no capture: %m", c->capture.what.run);
                clear_round(c);
        }
}

/* The second capture, or the end of the round. */
static void go_on(struct round *c) {
        usec_t now = host_now(c->capture.bus->host), at = c->began + c->capture.second;

        if (c->capture.what.round > 0 || c->capture.second == 0) {
                clear_round(c);
                return;
        }
        c->capture.what.round = 1;
        c->tries = 0;
        c->capture.wanted += c->capture.second;
        take_capture_in(c, at > now ? at - now : 0);
}

static void deliver_problem(struct round *c, const char *problem) {
        capture_deliver(&c->capture, NULL, 0, NULL, problem, host_now_real(c->capture.bus->host));
}

/* What the cores do is asked right behind the stacks, and goes with them. */
static void on_cores(const struct libtpu_status *s, void *userdata) {
        struct round *c = userdata;
        _cleanup_free_ uint8_t *stacks = TAKE_PTR(c->stacks);

        capture_deliver(&c->capture, stacks, c->stacks_len, s, NULL, c->taken);
        go_on(c);
}

/* True: it goes on in on_cores(). */
static bool ask_cores(struct round *c, const Local__CaptureReply *m) {
        c->stacks = malloc(m->capture.len);
        if (!c->stacks)
                return false;
        memcpy(c->stacks, m->capture.data, m->capture.len);
        c->stacks_len = m->capture.len;
        c->taken = m->taken_real_usec;
        if (libtpu_ask_status(c->capture.bus, on_cores, c) >= 0)
                return true;
        free(TAKE_PTR(c->stacks)); /* no TPU runtime here, or it is being asked */
        return false;
}

static bool take_reply(struct round *c, const struct local_answer *a) {
        Local__CaptureReply *m = local__capture_reply__unpack(NULL, a->len, a->data);
        uint64_t asked = c->capture.what.generation;
        char problem[120];
        bool waits = false;

        if (!m || m->capture.len == 0)
                deliver_problem(c, "tpu-launchd sent no capture: is it of the same version?");
        else if (asked > 0 && m->generation > 0 && m->generation != asked) {
                (void) snprintf(problem, sizeof(problem),
                                "generation %" PRIu64 " of the run is on this host, and generation %" PRIu64
                                " was asked for",
                                m->generation, asked);
                deliver_problem(c, problem);
        } else {
                waits = ask_cores(c, m);
                if (!waits)
                        capture_deliver(&c->capture, m->capture.data, m->capture.len, NULL, NULL,
                                        m->taken_real_usec);
        }
        if (m)
                local__capture_reply__free_unpacked(m, NULL);
        return waits;
}

static void on_answer(const struct local_answer *a, void *userdata) {
        struct round *c = userdata;
        bool waits = false;

        if (a->error == -EBUSY && c->tries++ < TRIES_MAX) { /* somebody else's capture is in progress */
                c->call = local_call_free(c->call);
                take_capture_in(c, BUSY_AGAIN);
                return;
        }
        if (a->error < 0)
                deliver_problem(c, a->text);
        else
                waits = take_reply(c, a);
        c->call = local_call_free(c->call);
        if (!waits)
                go_on(c);
}

/* A request that names no run means the one that runs here. */
static void choose_run(struct round *c) {
        const struct host_runs *l = c->capture.bus->runs;
        struct capture_sent *what = &c->capture.what;
        usec_t newest = 0;

        for (size_t i = 0; !what->run[0] && i < l->n; i++)
                if (streq(l->runs[i].state, "running") && l->runs[i].started_real >= newest) {
                        newest = l->runs[i].started_real;
                        (void) snprintf(what->run, sizeof(what->run), "%s", l->runs[i].name);
                        what->generation = l->runs[i].generation;
                }
}

static void take_capture(struct round *c) {
        struct bus *b = c->capture.bus;
        const char *run = c->capture.what.run;
        int r;

        if (c->capture.what.round == 0 && c->tries == 0) {
                c->began = host_now(b->host);
                choose_run(c);
        }
        if (!run[0]) {
                deliver_problem(c, "no run runs on this host");
                clear_round(c);
                return;
        }
        r = capture_ask(b, run, true, ANSWER_TIME, on_answer, c, &c->call);
        if (r < 0) {
                (void) log_warning_errno(r, "run %s: no capture: %m", run);
                clear_round(c);
        }
}

/* --- Rounds -------------------------------------------------------------------------------------------- */

/* NULL: too many are in progress. */
static struct round *new_round(struct capture_rounds *k, const char *run, usec_t wanted, usec_t second) {
        struct round *c = k->rounds;

        while (c < k->rounds + ROUNDS_MAX && c->capture.bus)
                c++;
        if (c == k->rounds + ROUNDS_MAX) {
                log_warning("a capture is asked for, but %d are in progress: it is left out", ROUNDS_MAX);
                return NULL;
        }
        c->capture = (struct capture_round) { .bus = k->bus,
                                              .directory = k->directory,
                                              .send = k->send,
                                              .what = { .rounds = second > 0 ? 2 : 1 },
                                              .wanted = wanted,
                                              .second = second };
        (void) snprintf(c->capture.what.run, sizeof(c->capture.what.run), "%.63s", run);
        return c;
}

static bool was_answered(const struct capture_rounds *k, const char *episode) {
        for (size_t i = 0; i < EPISODES_MAX; i++)
                if (streq(k->answered[i], episode))
                        return true;
        return capture_shelf_has(k->directory, episode);
}

static void note_answered(struct capture_rounds *k, const char *episode) {
        (void) snprintf(k->answered[k->turn++ % EPISODES_MAX], sizeof(k->answered[0]), "%s", episode);
}

void capture_rounds_record(struct capture_rounds *k, const json_t *v, bool fresh) {
        const char *episode = json_text_of(v, "episode"), *run = json_text_of(v, "run");
        usec_t now = host_now_real(k->bus->host), at = json_number_of(v, "at");
        struct round *c;

        capture_send_asked(k->send, v);
        if (!episode[0] || strlen(episode) >= sizeof(c->capture.name) ||
            (run[0] && !run_name_is_valid(run)) || was_answered(k, episode) ||
            (!fresh && now > at + OLD)) /* what this host finds when it comes back may be of long ago */
                return;
        c = new_round(k, run, at, MIN(json_number_of(v, "second"), (uint64_t) SECOND_MAX));
        if (!c)
                return;
        note_answered(k, episode);
        c->capture.what.generation = json_number_of(v, "generation");
        c->capture.what.hosts = json_number_of(v, "hosts");
        c->capture.what.slice_hosts = json_number_of(v, "slice_hosts");
        (void) snprintf(c->capture.what.episode, sizeof(c->capture.what.episode), "%s", episode);
        (void) snprintf(c->capture.name, sizeof(c->capture.name), "%s", episode);
        log_notice("captures of run %s are asked for by %.200s (episode %s): %.300s", run[0] ? run : "(any)",
                   json_text_of(v, "by"), episode, json_text_of(v, "why"));
        take_capture_in(c, at > now && at - now <= AHEAD_MAX ? at - now : 0);
}

/* Whether there is a registry that sees to this run. */
static bool registry_sees_to(const struct bus *b, const char *run, uint64_t generation) {
        return generation > 0 && member_collector(b) && member_run_record(b, run);
}

/* At most one round of a generation in OWN_APART. */
static bool had_one(struct capture_rounds *k, const char *run, uint64_t generation, usec_t now) {
        struct own_round *oldest = &k->own[0];

        for (size_t i = 0; i < ELEMENTSOF(k->own); i++) {
                struct own_round *o = &k->own[i];

                if (streq(o->run, run) && o->generation == generation && o->at > 0 &&
                    now < o->at + OWN_APART)
                        return true;
                if (o->at < oldest->at)
                        oldest = o;
        }
        *oldest = (struct own_round) { .at = now, .generation = generation };
        (void) snprintf(oldest->run, sizeof(oldest->run), "%s", run);
        return false;
}

void capture_rounds_suspected(struct capture_rounds *k, const char *run, uint64_t generation,
                              const struct suspicion *s) {
        const struct bus *b = k->bus;
        struct round *c;

        if (registry_sees_to(b, run, generation) || had_one(k, run, generation, host_now(b->host)))
                return;
        c = new_round(k, run, host_now_real(b->host), SECOND);
        if (!c)
                return;
        c->capture.what.generation = generation;
        (void) snprintf(c->capture.name, sizeof(c->capture.name), "own.%.24s-%" PRIu64 "-%" PRIu64, run,
                        generation, c->capture.wanted);
        log_notice("run %s is captured by this host for itself: %s", run, s->why);
        take_capture_in(c, 0);
}

int capture_rounds_order(struct capture_rounds *k, const char *run, capture_answer_t answer, void *token) {
        struct round *c = new_round(k, run, host_now_real(k->bus->host), 0);

        if (!c)
                return -EBUSY;
        c->capture.answer = answer;
        c->capture.token = token;
        (void) snprintf(c->capture.name, sizeof(c->capture.name), "asked.%.24s-0-%" PRIu64, run,
                        c->capture.wanted);
        take_capture_in(c, 0);
        return 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

const char *capture_rounds_directory(const struct capture_rounds *k) {
        return k->directory;
}

void capture_rounds_registry(struct capture_rounds *k, bool other) {
        if (other)
                capture_send_reset(k->send);
        else
                capture_send_look(k->send);
}

int capture_rounds_new(struct bus *b, struct capture_rounds **ret) {
        const char *spool = b->settings.spool_directory, *slash = strrchr(spool, '/');
        struct capture_rounds *k = calloc(1, sizeof(*k));
        int r;

        if (!k)
                return -ENOMEM;
        k->bus = b;
        (void) snprintf(k->directory, sizeof(k->directory), "%.*s/captures",
                        (int) (slash ? slash - spool : 0), spool);
        r = capture_send_new(b, k->directory, &k->send);
        if (r < 0) {
                (void) capture_rounds_free(k);
                return r;
        }
        *ret = k;
        return 0;
}

struct capture_rounds *capture_rounds_free(struct capture_rounds *k) {
        if (!k)
                return NULL;
        for (size_t i = 0; i < ROUNDS_MAX; i++)
                if (k->rounds[i].capture.bus)
                        clear_round(&k->rounds[i]);
        k->send = capture_send_free(k->send);
        free(k);
        return NULL;
}
