/* SPDX-License-Identifier: Apache-2.0 */
/* The registry between a store and its callers: nothing is told that is not written, and nothing by who
 * leads no more. */
#include "inside.h"
#include "scratch.h"
#include "test.h"

static struct {
        struct control_store base;
        bool leads, at_once; /* at_once: a batch is written before the call returns */
        unsigned writes;
        json_t *batch; /* under way; NULL: none */
} fake;

static struct {
        unsigned status[8], n, published, done_calls;
        char body[8][4096];
        int done;
        bool led, lose_on_answer, keep_on_publish;
        int kept;
} seen;

static struct registry *r;

static int fake_start(struct control_store *s) {
        (void) s;
        return 0;
}

static bool fake_leads(const struct control_store *s) {
        (void) s;
        return fake.leads;
}

static int fake_write(struct control_store *s, const json_t *batch) {
        (void) s;
        ASSERT_TRUE(fake.leads && !fake.batch);
        fake.writes++;
        if (fake.at_once)
                return 0;
        fake.batch = json_deep_copy(batch);
        return 1;
}

static int fake_resign(struct control_store *s) {
        (void) s;
        return 0;
}

static struct control_store *fake_free(struct control_store *s) {
        (void) s;
        return NULL;
}

static const struct control_ops fake_ops = { .start = fake_start, .leads = fake_leads, .write = fake_write,
                                             .resign = fake_resign, .free = fake_free };

static void on_answer(void *call, unsigned status, struct registry_body *body, void *userdata) {
        (void) call, (void) userdata;
        seen.status[seen.n] = status;
        (void) snprintf(seen.body[seen.n], sizeof(seen.body[0]), "%s", body ? body->text : "");
        seen.n++;
        fake.leads = fake.leads && !seen.lose_on_answer;
        registry_body_unref(body);
}

static void on_published(const char *key, const json_t *value, void *userdata) {
        (void) key, (void) value, (void) userdata;
        if (seen.keep_on_publish) { /* the deadline is over in the midst of it */
                json_t *v = json_pack("{s:i}", "at", 1);

                fake.leads = false;
                seen.kept = registry_keep(r, "episode/e", v);
                ASSERT_TRUE(registry_gang(r) != NULL); /* what is just being gone through stays */
                json_decref(v);
        }
        ASSERT_TRUE(fake.leads || seen.keep_on_publish);
        seen.published++;
}

static void on_events(void *userdata) {
        (void) userdata;
}

static void on_failed(int error, void *userdata) {
        (void) userdata;
        test_fail(__FILE__, __LINE__, "the database: %d", error);
}

static void on_leads(bool leads, void *userdata) {
        (void) userdata;
        seen.led = leads;
}

static void on_done(int error, void *userdata) {
        (void) userdata;
        seen.done = error;
        seen.done_calls++;
}

static sd_event *event;

static void turn_until_write(void) {
        while (!fake.batch)
                ASSERT_TRUE(sd_event_run(event, 30 * USEC_PER_SEC) > 0);
}

static void wrote(int error) {
        json_t *batch = TAKE_PTR(fake.batch);

        fake.base.events->wrote(error, fake.base.userdata);
        json_decref(batch);
}

static void lead(uint64_t term, const json_t *records) {
        fake.leads = true;
        fake.base.term = term;
        ASSERT_OK(fake.base.events->led(records, fake.base.userdata));
}

/* proved: the host that the caller is; NULL: it proves none. */
static unsigned sync_text(const char *text, const char *proved) {
        static char call;
        struct registry_body *body;
        unsigned status;

        status = registry_sync(r, &(struct registry_speaker){ .host = proved }, text, strlen(text), &call,
                               &body);
        if (status != 0)
                on_answer(&call, status, body, NULL);
        return status;
}

static unsigned sync_of(unsigned worker) {
        char text[600];

        (void) snprintf(text, sizeof(text),
                        "{\"v\":1,\"wait\":0,\"member\":{\"v\":1,\"slice\":\"s0\",\"worker\":%u,"
                        "\"host\":\"h%u\",\"id\":\"i%u\","
                        "\"incarnation\":\"a%u\",\"address\":[\"10.0.0.1\"],\"hosts\":2,\"state\":\"ready\","
                        "\"runs\":[]}}",
                        worker, worker, worker, worker);
        return sync_text(text, NULL);
}

static void test_leading(void) {
        char why[GANG_WHY_MAX];
        json_t *none = json_object(), *kept,
                *order = json_pack("{s:i, s:{s:s, s:s}}", "v", 1, "cordon", "reason", "cable", "by", "me");

        ASSERT_EQ(sync_of(0), 503); /* nobody is known to lead */
        (void) snprintf(fake.base.agents_url, sizeof(fake.base.agents_url), "https://other:4318");
        ASSERT_EQ(sync_of(0), 421);
        ASSERT_TRUE(strstr(seen.body[1], "\"leader\":\"https://other:4318\""));
        ASSERT_EQ(registry_want(r, "order/h0", order, why), -EAGAIN);
        ASSERT_EQ(registry_keep(r, "episode/e", order), -EAGAIN);

        fake.base.agents_url[0] = '\0';
        (void) snprintf(fake.base.id, sizeof(fake.base.id), "77");
        lead(7, none);
        ASSERT_TRUE(seen.led);
        seen.n = 0;
        ASSERT_EQ(sync_of(0), 0);
        turn_until_write();
        ASSERT_TRUE(json_object_get(fake.batch, "slot/s0/0") && json_object_get(fake.batch, "slice/s0"));
        /* nobody is told before it is written */
        ASSERT_TRUE(seen.n == 0 && seen.published == 0 && !registry_record(r, "slice/s0"));
        ASSERT_EQ(sync_of(1), 0); /* decided while it is being written: the next batch */
        for (int i = 0; i < 5; i++)
                ASSERT_TRUE(sd_event_run(event, 20 * USEC_PER_MSEC) >= 0);
        ASSERT_EQ(fake.writes, 1);
        wrote(0);
        ASSERT_TRUE(registry_record(r, "slice/s0") && seen.published == 2);
        ASSERT_EQ(seen.n, 1); /* the second waits for its own */
        ASSERT_EQ(seen.status[0], 200);
        ASSERT_TRUE(strstr(seen.body[0], "\"term\":7,\"store\":\"77\"") &&
                    strstr(seen.body[0], "\"slice/s0\":{"));
        kept = json_pack("{s:O, s:O}", "slice/s0", registry_record(r, "slice/s0"), "slot/s0/0",
                         registry_record(r, "slot/s0/0"));

        turn_until_write();
        wrote(-EAGAIN); /* it is not known whether it was written: once more, with what is new */
        ASSERT_EQ(seen.n, 1);
        ASSERT_EQ(registry_want(r, "order/h0", order, why), 0);
        ASSERT_FALSE(registry_is_stored(r));
        ASSERT_OK(registry_when_stored(r, on_done, NULL));
        turn_until_write();
        ASSERT_TRUE(json_object_get(fake.batch, "slot/s0/1") && json_object_get(fake.batch, "order/h0"));
        ASSERT_TRUE(seen.done_calls == 0 && !registry_record(r, "order/h0"));

        wrote(0);
        ASSERT_TRUE(seen.done_calls == 1 && seen.done == 0 && registry_record(r, "order/h0"));
        ASSERT_EQ(seen.n, 2);
        ASSERT_EQ(seen.status[1], 200);

        ASSERT_EQ(sync_of(1), 0);
        ASSERT_EQ(registry_want(r, "order/h0", NULL, why), 0);
        turn_until_write();
        /* which changes nothing, and waits for what is on its way */
        ASSERT_EQ(registry_want(r, "order/h1", NULL, why), 0);
        ASSERT_OK(registry_when_stored(r, on_done, NULL));
        wrote(0);
        ASSERT_TRUE(seen.done_calls == 2 && seen.done == 0 && !registry_record(r, "order/h0"));

        seen.n = 0;
        ASSERT_EQ(registry_want(r, "order/h0", order, why), 0);
        ASSERT_OK(registry_when_stored(r, on_done, NULL));
        turn_until_write();
        ASSERT_EQ(sync_of(0), 0);
        fake.leads = false; /* its time has run out, and it was not told yet: this very look must tell it */
        seen.published = 0;
        wrote(0);
        ASSERT_TRUE(seen.published == 0 && !seen.led && !registry_record(r, "slice/s0") &&
                    !registry_gang(r));
        ASSERT_TRUE(seen.done_calls == 3 && seen.done == -EAGAIN);
        ASSERT_TRUE(seen.n > 0); /* who waited is sent away */
        ASSERT_EQ(seen.status[seen.n - 1], 503);
        ASSERT_EQ(sync_of(1), 503);

        lead(9, kept); /* as it was written, not as it was decided */
        seen.n = 0;
        ASSERT_TRUE(registry_record(r, "slice/s0") && !registry_record(r, "order/h0"));
        ASSERT_EQ(registry_members(r), 0);
        ASSERT_EQ(sync_of(0), 0);
        ASSERT_EQ(registry_keep(r, "episode/e", order), 0);
        ASSERT_EQ(registry_keep(r, "run/x", order), -EINVAL);
        turn_until_write();
        ASSERT_TRUE(json_object_get(fake.batch, "episode/e") && !json_object_get(fake.batch, "order/h0"));
        fake.leads = false; /* the first thing that happens then is a sync */
        ASSERT_EQ(sync_of(1), 503);
        ASSERT_EQ(seen.n, 2);
        ASSERT_EQ(seen.status[0], 503); /* the one that waited */
        json_decref(TAKE_PTR(fake.batch));
        json_decref(none);
        json_decref(kept);
        json_decref(order);
}

/* The deadline is over while a batch is published: who keeps a record then is refused, and nothing is
 * forgotten under those who go through it. */
static void test_lost_while_publishing(void) {
        json_t *none = json_object();

        memset(&seen, 0, sizeof(seen));
        lead(11, none);
        ASSERT_EQ(sync_of(0), 0);
        turn_until_write();
        seen.keep_on_publish = true;
        wrote(0);
        ASSERT_TRUE(seen.published >= 2);
        ASSERT_EQ(seen.kept, -EAGAIN);
        seen.keep_on_publish = false;
        ASSERT_EQ(sync_of(1), 503); /* the next look tells it */
        ASSERT_FALSE(seen.led || registry_gang(r));
        json_decref(none);
}

/* A person's call that loses the lead on its way is told so, and waits for no other term. */
static void test_lost_while_deciding(void) {
        json_t *none = json_object(), *mode = json_pack("{s:i, s:s, s:s, s:s}", "v", 1, "mode", "observe",
                                                        "by", "me", "reason", "so");
        char why[GANG_WHY_MAX] = "";

        memset(&seen, 0, sizeof(seen));
        fake.at_once = true;
        lead(13, none);
        ASSERT_EQ(sync_of(0), 0);
        ASSERT_EQ(sync_of(1), 0);
        while (seen.n < 2)
                ASSERT_TRUE(sd_event_run(event, 30 * USEC_PER_SEC) > 0);
        seen.n = 0;
        for (unsigned w = 0; w < 2; w++) { /* with all that there is, both wait for news */
                struct session *s = sessions_find(&r->sessions, "s0", w);
                static char call;

                s->since = r->records.revision;
                s->whole = false;
                s->fresh = 0;
                sessions_wait(&r->sessions, s, &call, registry_boot_now(r), REGISTRY_WAIT_MAX);
        }
        seen.lose_on_answer = true;
        ASSERT_EQ(registry_want(r, "site/mode", mode, why), -EAGAIN);
        ASSERT_TRUE(strstr(why, "does not lead"));
        ASSERT_EQ(seen.status[0], 200);
        ASSERT_EQ(seen.status[1], 503); /* the other one is told nothing by who leads no more */
        ASSERT_EQ(registry_when_stored(r, on_done, NULL), -EAGAIN);
        ASSERT_EQ(registry_want(r, "site/mode", mode, why), -EAGAIN);
        seen.lose_on_answer = false;
        lead(15, none);
        ASSERT_EQ(seen.done_calls, 0);
        fake.leads = fake.at_once = false;
        ASSERT_EQ(sync_of(1), 503);
        json_decref(none);
        json_decref(mode);
}

/* However many runs were forgotten: what a host is told whole has the one that there is. */
static void test_forgotten_runs_crowd_nothing_out(void) {
        json_t *none = json_object(),
                *intent = json_pack("{s:i, s:s, s:s, s:s, s:[s], s:[s], s:i, s:i, s:i}", "v", 1,
                                    "name", "live", "serial", "1", "user",
                                                          "alice", "slices", "s0", "argv", "x", "min", 1,
                                                          "max", 1, "restarts", 0);
        struct reader w = { .slice = "s0", .host = "h0", .whole = true };
        struct registry_body *b;
        char why[GANG_WHY_MAX] = "", key[32];

        memset(&seen, 0, sizeof(seen));
        fake.at_once = true;
        lead(17, none);
        ASSERT_EQ(registry_want(r, "intent/live", intent, why), 0);
        ASSERT_TRUE(registry_record(r, "run/live") != NULL);
        for (unsigned i = 0; i < 1000; i++) {
                (void) snprintf(key, sizeof(key), "run/gone%u", i);
                ASSERT_OK(records_put(&r->records, key, NULL, true, r->records.revision + 1));
        }
        b = answers_make(&r->answers, r->gang, &r->records, &w);
        ASSERT_TRUE(b && strstr(b->text, "\"run/live\":{") && !strstr(b->text, "gone"));
        registry_body_unref(b);
        /* Who knows most of it is told the rest; who missed more than there is room for is told all that
         * there is. */
        for (unsigned i = 0; i < 2; i++) {
                w = (struct reader) { .slice = "s0", .host = "h0",
                                      .since = r->records.revision - (i == 0 ? 100 : 200) };
                b = answers_make(&r->answers, r->gang, &r->records, &w);
                ASSERT_TRUE(b && !!strstr(b->text, "\"whole\":true") == (i == 1) &&
                            !!strstr(b->text, "\"run/gone900\":null") == (i == 0));
                registry_body_unref(b);
        }
        fake.leads = fake.at_once = false;
        ASSERT_EQ(sync_of(1), 503);
        json_decref(none);
        json_decref(intent);
}

/* Nor do those that wait for the same slice: the run that has it is told, however old its record is. */
static void test_waiting_runs_crowd_nothing_out(void) {
        json_t *none = json_object();
        struct reader w = { .slice = "s0", .host = "h0", .whole = true };
        struct registry_body *b;
        char why[GANG_WHY_MAX] = "", key[32];

        memset(&seen, 0, sizeof(seen));
        fake.at_once = true;
        lead(19, none);
        for (unsigned i = 0; i < 200; i++) {
                json_t *intent;

                (void) snprintf(key, sizeof(key), "intent/w%u", i);
                intent = json_pack("{s:i, s:s, s:s, s:s, s:[s], s:[s], s:i, s:i, s:i}", "v", 1, "name",
                                   key + 7, "serial", "1", "user",
                                   "alice", "slices", "s0", "argv", "x", "min", 1, "max", 1, "restarts", 0);
                ASSERT_EQ(registry_want(r, key, intent, why), 0);
                json_decref(intent);
                if (i == 0)
                        ASSERT_OK(records_put(&r->records, "run/w0", json_pack("{s:s}", "state", "running"),
                                              true,
                                              r->records.revision + 1));
        }
        b = answers_make(&r->answers, r->gang, &r->records, &w);
        ASSERT_TRUE(b && strstr(b->text, "\"run/w0\":{") && strstr(b->text, "\"run/w199\":{") &&
                    !strstr(b->text, "\"run/w1\":{"));
        registry_body_unref(b);
        /* One that is gone, and finds no room any more, is gone for who is told all. */
        w = (struct reader) { .slice = "s0", .host = "h0", .since = r->records.revision };
        ASSERT_OK(records_put(&r->records, "run/old", NULL, true, r->records.revision + 1));
        b = answers_make(&r->answers, r->gang, &r->records, &w);
        ASSERT_TRUE(b && strstr(b->text, "\"whole\":true"));
        registry_body_unref(b);
        fake.leads = fake.at_once = false;
        ASSERT_EQ(sync_of(1), 503);
        json_decref(none);
}

/* --- A host that moves -------------------------------------------------------------------------------- */

/* The only worker of slice mN, in the N-th life of its boot. */
static void join_slice(unsigned n) {
        char text[600];

        (void) snprintf(text, sizeof(text),
                        "{\"v\":1,\"wait\":0,\"member\":{\"v\":1,\"slice\":\"m%u\",\"worker\":0,"
                        "\"host\":\"h\",\"id\":\"i\",\"machine\":\"m\",\"incarnation\":\"b.%04u\","
                        "\"address\":[\"10.0.0.1\"],\"hosts\":1,\"state\":\"ready\",\"runs\":[]}}",
                        n, n);
        seen.n = 0;
        ASSERT_EQ(sync_text(text, "h"), 0);
        while (!strstr(seen.body[0], "\"slice/m") || seen.n == 0)
                ASSERT_TRUE(sd_event_run(event, 30 * USEC_PER_SEC) > 0);
}

static unsigned say_same(unsigned n, bool leaves) {
        char text[200];

        (void) snprintf(text, sizeof(text),
                        "{\"v\":1,\"wait\":5,\"same\":\"m%u/0\",\"incarnation\":\"b.%04u\","
                        "\"since\":\"%s.%" PRIu64 "\",\"leave\":%s}",
                        n, n, r->answers.epoch, r->records.revision, leaves ? "true" : "false");
        return sync_text(text, "h");
}

static size_t count_views(void) {
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(r->answers.views); i++)
                n += r->answers.views[i] != NULL;
        return n;
}

/* Where it was nothing is left of it: whether it left, or a question of its earlier life is still open and
 * another comes late. */
static void test_moves(void) {
        json_t *none = json_object();

        memset(&seen, 0, sizeof(seen));
        fake.at_once = true;
        lead(21, none);
        for (unsigned i = 0; i < 100; i++) {
                if (i % 2 == 1)
                        ASSERT_EQ(say_same(i - 1, true), 200);
                join_slice(i);
                ASSERT_EQ(say_same(i, false), 0);
                if (i == 0)
                        continue;
                seen.n = 0;
                ASSERT_EQ(say_same(i - 1, false), 200);
                ASSERT_TRUE(strstr(seen.body[seen.n - 1], "\"tell\":true"));
                ASSERT_EQ(registry_members(r), 1);
        }
        ASSERT_EQ(count_views(), 1);
        fake.leads = fake.at_once = false;
        ASSERT_EQ(sync_of(1), 503);
        json_decref(none);
}

int main(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512], aside[300], why[256];
        struct store *store = NULL;

        scratch_path(&s, "c.db", path);
        ASSERT_OK(store_open(path, &store, aside, why));
        ASSERT_TRUE(sd_event_new(&event) >= 0);
        fake.base.ops = &fake_ops;
        ASSERT_OK(control_registry_new(&(struct control_registry_options){ .event = event, .store = store,
                                                           .control = &fake.base, .clock = &clock_system,
                                                           .lease = 15 * USEC_PER_SEC,
                                                           .tenant = REGISTRY_TENANT, .answer = on_answer,
                                                           .published = on_published, .events = on_events,
                                                           .leads = on_leads, .failed = on_failed }, &r));
        test_leading();
        test_lost_while_publishing();
        test_lost_while_deciding();
        test_forgotten_runs_crowd_nothing_out();
        test_waiting_runs_crowd_nothing_out();
        test_moves();
        r = control_registry_free(r);
        (void) sd_event_unref(event);
        (void) store_free(store);
        printf("6 tests passed\n");
        return 0;
}
