/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectors over a model of etcd, with time, delays, lost answers, calls that land after they were given
 * up, pauses and leases that end, all by chance: nobody writes behind a newer term, no batch lands behind a
 * later one, what is called written is there, and there are never two who lead at one moment. And that this
 * test would notice: without the conditions of transactions (each of the two), and with a clock that stands
 * still while its process does, it finds both.
 */
#include "json_text.h"
#include "keep.h"
#include "test.h"

#define COLLECTORS 3
#define LEASE (10 * USEC_PER_SEC)
#define TICK (50 * USEC_PER_MSEC)
#define END (240 * USEC_PER_SEC) /* chance ends 60 s before */
#define CALLS 4096
#define KEY "/tpu/default/ctl/leader"

struct call {
        bool open, arrived;
        unsigned from;
        enum etcd_lane lane;
        char path[32];
        json_t *body;
        char *answer; /* text; NULL: none yet */
        usec_t arrives, answers, give_up; /* 0: never */
        void (*done)(const struct gateway_answer *a, void *userdata);
        void *userdata;
};

struct collector {
        unsigned number;
        struct election election;
        struct keep keep;
        struct clock_fixed times;
        struct clock clock;
        json_t *value;
        usec_t paused; /* until then */
        bool loaded, writing;
        int64_t batch, in_flight;
        uint64_t won;
};

struct world {
        usec_t now;
        uint64_t random;
        bool calm, no_term, no_number, lazy_clocks;
        struct collector c[COLLECTORS];
        struct call calls[CALLS];
        size_t n_calls;
        /* etcd */
        json_t *keys; /* base64 key -> kv */
        int64_t revision, next_lease;
        json_t *leases; /* id -> when it ends */
        /* what was seen */
        uint64_t term;
        int64_t last;
        unsigned wrong_order, two_leaders, false_words, written, takeovers;
};

static unsigned chance(struct world *w, unsigned n) {
        w->random = w->random * 6364136223846793005U + 1442695040888963407U;
        return (unsigned) (w->random >> 33) % n;
}

/* --- The model ----------------------------------------------------------------------------------------- */

static void end_leases(struct world *w) {
        const char *id, *key;
        json_t *ends, *kv;
        void *a, *b;

        json_object_foreach_safe (w->leases, a, id, ends) {
                if ((usec_t) json_integer_value(ends) > w->now)
                        continue;
                json_object_foreach_safe (w->keys, b, key, kv)
                        if (streq(json_text_of(kv, "lease"), id)) {
                                w->revision++;
                                json_object_del(w->keys, key);
                        }
                json_object_del(w->leases, id);
        }
}

static bool holds(const struct world *w, const json_t *compare) {
        const json_t *kv = json_object_get(w->keys, json_text_of(compare, "key"));
        bool mod = streq(json_text_of(compare, "target"), "MOD");

        return gateway_int(kv, mod ? "mod_revision" : "create_revision") ==
               gateway_int(compare, mod ? "mod_revision" : "create_revision");
}

/* The term that has begun: the leader's key stands there, whether it wrote anything yet or not. */
static uint64_t present_term(const struct world *w) {
        json_t *key = gateway_bytes(KEY, strlen(KEY));
        uint64_t term = (uint64_t) gateway_int(json_object_get(w->keys, json_string_value(key)),
                                               "create_revision");

        json_decref(key);
        return term;
}

/* A record of the test: who wrote it, in which term, as which batch. */
static void note(struct world *w, const json_t *kv) {
        struct gateway_kv k = { .value = json_object_get(kv, "value") };
        json_t *v = gateway_value_json(&k);
        uint64_t term = (uint64_t) json_integer_value(json_object_get(v, "term"));
        int64_t batch = json_integer_value(json_object_get(v, "batch"));

        if (batch > 0) {
                w->wrong_order += term < w->term || term < present_term(w) || (term == w->term &&
                                                                               batch <= w->last);
                w->term = MAX(w->term, term);
                w->last = batch;
                w->written++;
        }
        json_decref(v);
}

static json_t *range(const struct world *w, const json_t *q) {
        const char *end = json_text_of(q, "range_end");
        json_t *list = json_array(), *kv;
        const char *key;

        json_object_foreach (w->keys, key, kv)
                if (*end || streq(key, json_text_of(q, "key")))
                        json_array_append(list, kv);
        return json_pack("{s:o}", "kvs", list);
}

static json_t *apply(struct world *w, const json_t *op) {
        const json_t *put = json_object_get(op, "requestPut"),
                *drop = json_object_get(op, "requestDeleteRange");
        json_t *old, *kv;

        if (drop)
                json_object_del(w->keys, json_text_of(drop, "key"));
        if (!put)
                return json_pack("{s:o}", "response_range", range(w, json_object_get(op, "requestRange")));
        old = json_object_get(w->keys, json_text_of(put, "key"));
        kv = json_pack("{s:O, s:O, s:O, s:o, s:o}", "key", json_object_get(put, "key"), "value",
                       json_object_get(put, "value"), "lease",
                       json_object_get(put, "lease"), "create_revision",
                       gateway_number(old ? gateway_int(old, "create_revision") : w->revision),
                       "mod_revision", gateway_number(w->revision));
        note(w, kv);
        json_object_set_new(w->keys, json_text_of(put, "key"), kv);
        return json_pack("{s:{}}", "response_put");
}

static json_t *transact(struct world *w, const json_t *q) {
        const json_t *ops;
        json_t *answers = json_array(), *v;
        bool ok = true;
        size_t i;

        json_array_foreach (json_object_get(q, "compare"), i, v)
                ok = ok &&
                     (holds(w, v) || (w->no_term && json_array_size(json_object_get(q, "compare")) > 1) ||
                            (w->no_number && streq(json_text_of(v, "target"), "MOD")));
        ops = json_object_get(q, ok ? "success" : "failure");
        json_array_foreach (ops, i, v) {
                const char *id = json_text_of(json_object_get(v, "requestPut"), "lease");

                if (*id && !streq(id, "0") && !json_object_get(w->leases, id)) {
                        json_decref(answers);
                        return json_pack("{s:s, s:i}", "error", "etcdserver: requested lease not found",
                                         "code", 5);
                }
        }
        w->revision += ok;
        json_array_foreach (ops, i, v)
                json_array_append_new(answers, apply(w, v));
        return ok ? json_pack("{s:b, s:o}", "succeeded", 1, "responses", answers)
               : json_pack("{s:o}", "responses", answers);
}

static json_t *lease(struct world *w, const char *path, const json_t *q) {
        char id[32];

        if (streq(path, "/v3/lease/grant")) {
                (void) snprintf(id, sizeof(id), "%" PRId64, ++w->next_lease);
                json_object_set_new(w->leases, id, json_integer((json_int_t) (w->now + LEASE)));
                return json_pack("{s:s, s:s}", "ID", id, "TTL", "10");
        }
        (void) snprintf(id, sizeof(id), "%s", json_text_of(q, "ID"));
        if (streq(path, "/v3/lease/revoke")) {
                if (json_object_get(w->leases, id))
                        json_object_set_new(w->leases, id, json_integer(0));
                end_leases(w);
                return json_object();
        }
        if (!json_object_get(w->leases, id))
                return json_pack("{s:{s:s}}", "result", "ID", id); /* 200, no TTL */
        json_object_set_new(w->leases, id, json_integer((json_int_t) (w->now + LEASE)));
        return json_pack("{s:{s:s, s:s}}", "result", "ID", id, "TTL", "10");
}

static void serve(struct world *w, struct call *x) {
        json_t *v;

        end_leases(w);
        v = streq(x->path, "/v3/kv/range") ? range(w, x->body) :
            streq(x->path, "/v3/kv/txn")   ? transact(w, x->body) :
                                             lease(w, x->path, x->body);
        json_object_set_new(v, "header", json_pack("{s:s, s:o}", "cluster_id", "77", "revision",
                                                   gateway_number(w->revision)));
        x->answer = json_dumps(v, JSON_COMPACT);
        json_decref(v);
        x->arrived = true;
}

/* --- The way there ------------------------------------------------------------------------------------- */

static struct world *world;

static int model_call(void *link, enum etcd_lane lane, const char *path, json_t *body, usec_t patience,
                      void (*done)(const struct gateway_answer *a, void *userdata), void *userdata) {
        struct collector *c = link;
        struct world *w = world;
        unsigned luck = w->calm ? 99 : chance(w, 100);
        struct call *x;

        for (size_t i = 0; i < w->n_calls; i++)
                if (w->calls[i].open && w->calls[i].from == c->number && w->calls[i].lane == lane) {
                        json_decref(body);
                        return -EBUSY;
                }
        ASSERT_TRUE(w->n_calls < CALLS);
        x = &w->calls[w->n_calls++];
        *x = (struct call){ .open = true, .from = c->number, .lane = lane, .body = body,
                            .give_up = w->now + patience, .done = done, .userdata = userdata };
        (void) snprintf(x->path, sizeof(x->path), "%s", path);
        x->arrives = w->now + chance(w, 200) * USEC_PER_MSEC;
        x->answers = x->arrives + chance(w, 200) * USEC_PER_MSEC;
        if (luck < 5) /* it is lost */
                x->arrives = x->answers = USEC_INFINITY;
        else if (luck < 12) /* its answer is lost */
                x->answers = USEC_INFINITY;
        else if (luck < 20) { /* it lies somewhere, and lands when it was given up */
                x->arrives += chance(w, 20000) * USEC_PER_MSEC;
                x->answers = x->arrives + chance(w, 4000) * USEC_PER_MSEC;
        }
        return 0;
}

static void model_cancel(void *link, enum etcd_lane lane) {
        struct collector *c = link;

        for (size_t i = 0; i < world->n_calls; i++)
                if (world->calls[i].from == c->number && world->calls[i].lane == lane)
                        world->calls[i].open = false;
}

static void deliver(struct world *w) {
        for (size_t i = 0; i < w->n_calls; i++) {
                struct call *x = &w->calls[i];
                _cleanup_gateway_answer_ struct gateway_answer a = GATEWAY_ANSWER_NULL;

                if (!x->arrived && x->arrives <= w->now)
                        serve(w, x);
                if (!x->open || w->c[x->from].paused > w->now)
                        continue;
                if (x->arrived && x->answers <= w->now)
                        gateway_parse(x->answer, strlen(x->answer),
                                      strstr(x->answer, "\"error\"") ? 404 : 200, &a);
                else if (x->give_up <= w->now)
                        gateway_fail("no answer", &a);
                else
                        continue;
                x->open = false;
                x->done(&a, x->userdata);
        }
        for (size_t i = 0; i < w->n_calls;)
                if (!w->calls[i].open && (w->calls[i].arrived || w->calls[i].arrives == USEC_INFINITY)) {
                        json_decref(w->calls[i].body);
                        free(w->calls[i].answer);
                        w->calls[i] = w->calls[--w->n_calls];
                } else
                        i++;
}

/* --- Collectors ---------------------------------------------------------------------------------------- */

static void on_won(uint64_t term, const char *cluster, void *userdata) {
        struct collector *c = userdata;

        ASSERT_STREQ(cluster, "77");
        c->won = term;
        c->batch = 0;
        world->takeovers++;
        keep_load(&c->keep, term);
}

static void on_lost(const char *why, void *userdata) {
        struct collector *c = userdata;

        (void) why;
        c->loaded = c->writing = false;
        keep_clear(&c->keep);
}

static void on_other(const json_t *value, int64_t revision, void *userdata) {
        (void) value, (void) revision, (void) userdata;
}

static void on_loaded(int error, const json_t *records, const char *why, void *userdata) {
        struct collector *c = userdata;

        c->loaded = error == 0 && election_leads(&c->election);
        if (!c->loaded)
                election_depose(&c->election, why);
        else /* what others wrote is there */
                world->false_words += world->written > 0 && !json_object_get(records, "run/train");
}

static void on_wrote(int error, const char *why, void *userdata) {
        struct collector *c = userdata;

        (void) why;
        c->writing = false;
        if (error == 0 && election_leads(&c->election)) /* else nobody is told */
                world->false_words += world->term != c->won || world->last != c->in_flight;
}

static void on_deposed(const char *why, void *userdata) {
        struct collector *c = userdata;

        election_depose(&c->election, why);
}

static void start_collector(struct world *w, unsigned i) {
        struct collector *c = &w->c[i];
        char name[8];

        (void) snprintf(name, sizeof(name), "c%u", i);
        c->number = i;
        c->times = (struct clock_fixed){ .boot = w->now + (i + 1) * 1000 * USEC_PER_SEC };
        c->clock = clock_from(&c->times);
        c->value = json_pack("{s:i, s:s, s:s}", "v", 1, "incarnation", name, "agents", "http://a");
        election_init(&c->election,
                      &(struct election_options){ .port = { model_call, model_cancel, c },
                                                  .clock = &c->clock, .lease = LEASE, .key = KEY,
                                                                .value = c->value, .won = on_won,
                                                                .lost = on_lost, .other = on_other,
                                                                .userdata = c });
        keep_init(&c->keep, &(struct keep_options){ .port = { model_call, model_cancel, c },
                                                    .election = &c->election, .prefix = "/tpu/default/",
                                                    .patience = 3 * USEC_PER_SEC, .loaded = on_loaded,
                                                    .wrote = on_wrote, .deposed = on_deposed,
                                                    .userdata = c });
}

static void act(struct world *w, struct collector *c) {
        json_t *batch;

        if (!c->loaded || c->writing || chance(w, 4) || !election_leads(&c->election))
                return;
        batch = json_pack("{s:{s:i, s:I, s:I}}", "run/train", "v", 1, "term", (json_int_t) c->won, "batch",
                          (json_int_t) ++c->batch);
        c->in_flight = c->batch;
        c->writing = keep_write(&c->keep, batch) == 0;
        json_decref(batch);
}

static void look(struct world *w) {
        unsigned leading = 0;

        /* a paused one answers nobody now, but would, if it went on this very moment */
        for (unsigned i = 0; i < COLLECTORS; i++)
                leading += w->c[i].loaded && election_leads(&w->c[i].election);
        w->two_leaders += leading > 1;
}

static void tick(struct world *w) {
        w->now += TICK;
        w->calm = w->now > END - 60 * USEC_PER_SEC;
        for (unsigned i = 0; i < COLLECTORS; i++) {
                struct collector *c = &w->c[i];

                if (!w->lazy_clocks || c->paused <= w->now)
                        c->times.boot += TICK;
                /* a pause seldom comes alone */
                if (!w->calm && c->paused <= w->now &&
                    chance(w, c->paused + USEC_PER_SEC > w->now ? 20 : 400) == 0)
                        c->paused = w->now + chance(w, 30000) * USEC_PER_MSEC;
        }
        look(w);
        deliver(w);
        end_leases(w);
        for (unsigned i = 0; i < COLLECTORS; i++)
                if (w->c[i].paused <= w->now) {
                        act(w, &w->c[i]); /* a sync may be the first thing that it sees */
                        (void) election_step(&w->c[i].election);
                }
        look(w);
}

static void schedule(struct world *w, uint64_t seed) {
        *w = (struct world){ .now = 1000 * USEC_PER_SEC, .random = seed, .no_term = w->no_term,
                             .no_number = w->no_number, .lazy_clocks = w->lazy_clocks,
                             .keys = json_object(), .leases = json_object(), .revision = 1 };
        world = w;
        w->now = 0;
        for (unsigned i = 0; i < COLLECTORS; i++)
                start_collector(w, i);
        while (w->now < END)
                tick(w);
        for (unsigned i = 0; i < COLLECTORS; i++) {
                keep_clear(&w->c[i].keep);
                json_decref(w->c[i].value);
        }
        for (size_t i = 0; i < w->n_calls; i++) {
                json_decref(w->calls[i].body);
                free(w->calls[i].answer);
        }
        json_decref(w->keys);
        json_decref(w->leases);
}

static void test_schedules(void) {
        static struct world w;
        unsigned seed = test_seed() * 1000, written = 0, takeovers = 0;

        for (unsigned i = 0; i < 200; i++) {
                w = (struct world){ 0 };
                schedule(&w, seed + i);
                if (w.wrong_order || w.two_leaders || w.false_words)
                        test_fail(__FILE__, __LINE__, "schedule %u: %u writes out of order, %u times two "
                                                      "leaders, %u false words", i,
                                  w.wrong_order, w.two_leaders, w.false_words);
                if (w.written <= 20)
                        test_fail(__FILE__, __LINE__, "schedule %u: %u writes in %u terms", i, w.written,
                                  w.takeovers);
                written += w.written;
                takeovers += w.takeovers;
        }
        printf("%u writes in %u terms\n", written, takeovers);
}

static void test_would_notice(void) {
        static struct world w;
        unsigned wrong = 0, late = 0, two = 0;

        for (unsigned i = 0; i < 40; i++) {
                w = (struct world){ .no_term = true };
                schedule(&w, 1000 + i);
                wrong += w.wrong_order;
                w = (struct world){ .no_number = true };
                schedule(&w, 1000 + i);
                late += w.wrong_order;
                w = (struct world){ .lazy_clocks = true };
                schedule(&w, 1000 + i);
                two += w.two_leaders;
        }
        ASSERT_TRUE(wrong > 0 && late > 0 && two > 0);
        printf("without the term %u writes out of order, without the number %u; with clocks that stand "
               "still %u times two leaders\n", wrong,
               late, two);
}

/* --- By hand ------------------------------------------------------------------------------------------- */

static struct {
        char path[32];
        void (*done)(const struct gateway_answer *a, void *userdata);
        void *userdata;
        bool leads;
        unsigned resigned;
} hand;

static int hand_call(void *link, enum etcd_lane lane, const char *path, json_t *body, usec_t patience,
                     void (*done)(const struct gateway_answer *a, void *userdata), void *userdata) {
        (void) link, (void) lane, (void) patience;
        json_decref(body);
        (void) snprintf(hand.path, sizeof(hand.path), "%s", path);
        hand.done = done;
        hand.userdata = userdata;
        return 0;
}

static void hand_cancel(void *link, enum etcd_lane lane) {
        (void) link, (void) lane;
}

static void hand_answers(const char *path, const char *text) {
        _cleanup_gateway_answer_ struct gateway_answer a = GATEWAY_ANSWER_NULL;

        ASSERT_STREQ(hand.path, path);
        hand.path[0] = '\0';
        gateway_parse(text, strlen(text), 200, &a);
        hand.done(&a, hand.userdata);
}

static void hand_fails(const char *path) {
        struct gateway_answer a = GATEWAY_ANSWER_NULL;

        ASSERT_STREQ(hand.path, path);
        hand.path[0] = '\0';
        a.error = -EAGAIN;
        hand.done(&a, hand.userdata);
}

static void hand_resigned(void *userdata) {
        (void) userdata;
        hand.resigned++;
}

static void hand_won(uint64_t term, const char *cluster, void *userdata) {
        (void) cluster, (void) userdata;
        ASSERT_EQ(term, 6);
        hand.leads = true;
}

static void hand_lost(const char *why, void *userdata) {
        (void) why, (void) userdata;
        hand.leads = false;
}

/* However long an answer was on its way: the deadline counts from before what it answers was sent. */
static void test_deadline(void) {
        static const char *const renewed = "{\"result\":{\"ID\":\"9\",\"TTL\":\"10\"}}";
        struct clock_fixed t = { .boot = 100 * USEC_PER_SEC };
        struct clock clock = clock_from(&t);
        json_t *value = json_pack("{s:s}", "incarnation", "a");
        struct election e;

        election_init(&e, &(struct election_options){ .port = { .call = hand_call }, .clock = &clock,
                                                      .lease = LEASE, .key = KEY, .value = value,
                                                      .won = hand_won, .lost = hand_lost,
                                                      .other = on_other });
        (void) election_step(&e);
        hand_answers("/v3/kv/range", "{\"header\":{\"revision\":\"5\"}}");
        t.boot += USEC_PER_SEC;
        hand_answers("/v3/lease/grant", "{\"ID\":\"9\",\"TTL\":\"10\"}");
        t.boot += USEC_PER_SEC;
        hand_answers("/v3/kv/txn", "{\"header\":{\"revision\":\"6\"},\"succeeded\":true}");
        ASSERT_TRUE(hand.leads && election_leads(&e));
        ASSERT_EQ(e.deadline, 109 * USEC_PER_SEC); /* from before the grant was sent */
        t.boot = 104 * USEC_PER_SEC;
        (void) election_step(&e); /* a third of the lease is over */
        t.boot = 108 * USEC_PER_SEC;
        hand_answers("/v3/lease/keepalive", renewed);
        ASSERT_EQ(e.deadline, 113 * USEC_PER_SEC);
        (void) election_step(&e);
        t.boot = 113 * USEC_PER_SEC - 1;
        ASSERT_TRUE(election_leads(&e));
        t.boot++;
        ASSERT_FALSE(election_leads(&e));
        ASSERT_TRUE(hand.leads);
        /* too late: whoever looked meanwhile was told that it is over */
        hand_answers("/v3/lease/keepalive", renewed);
        ASSERT_FALSE(hand.leads || election_leads(&e));
        (void) election_step(&e);
        hand_answers("/v3/lease/revoke", "{}");
        (void) election_step(&e);
        ASSERT_STREQ(hand.path, "/v3/kv/range");
        json_decref(value);
}

/* Who leaves while it takes the lead never leads, keeps no lease that another would have to wait for, and is
 * heard to have left. */
static void test_leaving_while_taking(void) {
        static const char *const range = "/v3/kv/range", *const grant = "/v3/lease/grant",
                *const txn = "/v3/kv/txn", *const revoke = "/v3/lease/revoke",
                                *const nobody = "{\"header\":{\"revision\":\"5\"}}",
                                *const lease = "{\"ID\":\"9\",\"TTL\":\"10\"}",
                                *const own = "{\"header\":{\"revision\":\"7\",\"cluster_id\":\"1\"},"
                                             "\"kvs\":[{\"key\":\"eA==\",\"value\":"
                                             "\"eyJpbmNhcm5hdGlvbiI6ImEifQ==\",\"create_revision\":\"6\","
                                             "\"mod_revision\":\"6\",\"lease\":\"9\"}]}";
        json_t *value = json_pack("{s:s}", "incarnation", "a");

        for (unsigned when = 0; when < 6; when++) {
                struct clock_fixed t = { .boot = 100 * USEC_PER_SEC };
                struct clock clock = clock_from(&t);
                struct election e;

                memset(&hand, 0, sizeof(hand));
                election_init(&e, &(struct election_options){ .port = { .call = hand_call }, .clock = &clock,
                                                              .lease = LEASE, .key = KEY, .value = value,
                                                              .won = hand_won, .lost = hand_lost,
                                                              .other = on_other,
                                                              .resigned = hand_resigned });
                (void) election_step(&e);
                if (when == 0)
                        election_resign(&e);
                hand_answers(range, nobody);
                if (when == 1)
                        election_resign(&e);
                if (when >= 1)
                        hand_answers(grant, lease);
                if (when == 2)
                        election_resign(&e);
                if (when == 2 || when == 3)
                        hand_answers(txn, "{\"header\":{\"revision\":\"6\"},\"succeeded\":true}");
                if (when == 3) { /* the records are being read */
                        ASSERT_TRUE(hand.leads);
                        election_resign(&e);
                }
                if (when >= 4) { /* it was done, but the answer is lost */
                        hand_fails(txn);
                        t.boot += USEC_PER_SEC;
                }
                if (when == 4)
                        election_resign(&e);
                if (when == 5) {
                        (void) election_step(&e);
                        election_resign(&e);
                        hand_answers(range, own);
                }
                ASSERT_FALSE(hand.leads || election_leads(&e));
                ASSERT_EQ(hand.resigned, 0);
                (void) election_step(&e);
                if (when > 0) {
                        hand_answers(revoke, "{}");
                        (void) election_step(&e);
                }
                ASSERT_FALSE(hand.leads);
                ASSERT_EQ(hand.resigned, 1);
                ASSERT_STREQ(hand.path, ""); /* it asks no more */
        }
        json_decref(value);
}

static struct {
        unsigned calls;
        int error;
        size_t n;
} loaded;

static void hand_loaded(int error, const json_t *records, const char *why, void *userdata) {
        (void) why, (void) userdata;
        loaded.calls++;
        loaded.error = error;
        loaded.n = json_object_size(records);
}

/* etcd, or what stands in its place, gives the same page again and again, or one of before: that ends, and
 * nobody leads by it. */
static void test_pages_go_on(void) {
#define PAGE(key, more)                                                                                     \
        "{\"header\":{\"revision\":\"7\",\"cluster_id\":\"1\"},\"more\":" more                              \
        ",\"kvs\":[{\"key\":\"" key "\",\"value\":\"e30=\",\"mod_revision\":\"3\"}]}"
#define KEY_A "L3RwdS9kZWZhdWx0L29yZGVyL2E=" /* /tpu/default/order/a */
#define KEY_B "L3RwdS9kZWZhdWx0L29yZGVyL2I="
        static const struct {
                const char *first, *second;
                int error;
        } t[] = {
                { PAGE(KEY_A, "true"), PAGE(KEY_B, "false"), 0 },
                { PAGE(KEY_A, "true"), PAGE(KEY_A, "true"), -EBADMSG },
                { PAGE(KEY_B, "true"), PAGE(KEY_A, "true"), -EBADMSG },
                { PAGE(KEY_B, "true"), PAGE(KEY_A, "false"), -EBADMSG },
                { PAGE("L290aGVyL2E=", "false"), NULL, -EBADMSG }, /* of another folder */
        };

        for (size_t i = 0; i < ELEMENTSOF(t); i++) {
                struct election e = { 0 };
                struct keep k;

                memset(&hand, 0, sizeof(hand));
                memset(&loaded, 0, sizeof(loaded));
                keep_init(&k, &(struct keep_options){ .port = { hand_call, hand_cancel, NULL },
                                                      .election = &e, .prefix = "/tpu/default/",
                                                      .patience = USEC_PER_SEC, .loaded = hand_loaded });
                keep_load(&k, 5);
                hand_answers("/v3/kv/range", t[i].first);
                if (t[i].second) {
                        ASSERT_EQ(loaded.calls, 0);
                        hand_answers("/v3/kv/range", t[i].second);
                }
                ASSERT_EQ(loaded.calls, 1);
                ASSERT_EQ(loaded.error, t[i].error);
                ASSERT_TRUE(t[i].error < 0 || loaded.n == 2);
                ASSERT_STREQ(hand.path, ""); /* it asks no more */
                keep_clear(&k);
        }
}

TEST_MAIN(test_deadline, test_pages_go_on, test_leaving_while_taking, test_schedules, test_would_notice)
