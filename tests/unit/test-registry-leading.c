/* SPDX-License-Identifier: Apache-2.0 */
/* The registry between a store and its callers: nothing is told that is not written, and nothing by who leads no more. */
#include "inside.h"
#include "scratch.h"
#include "test.h"

static struct {
        struct control_store base;
        bool leads;
        unsigned writes;
        json_t *batch; /* under way; NULL: none */
} fake;

static struct {
        unsigned status[8], n, published, done_calls;
        char body[8][4096];
        int done;
        bool led;
} seen;

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

static const struct control_ops fake_ops = { .start = fake_start, .leads = fake_leads, .write = fake_write, .resign = fake_resign, .free = fake_free };

static void on_answer(void *call, unsigned status, struct registry_body *body, void *userdata) {
        (void) call, (void) userdata;
        seen.status[seen.n] = status;
        (void) snprintf(seen.body[seen.n], sizeof(seen.body[0]), "%s", body ? body->text : "");
        seen.n++;
        registry_body_unref(body);
}

static void on_published(const char *key, const json_t *value, void *userdata) {
        (void) key, (void) value, (void) userdata;
        ASSERT_TRUE(fake.leads);
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
static struct registry *r;

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

static unsigned sync_of(unsigned worker) {
        static char call;
        struct registry_body *body;
        char text[600];
        unsigned status;

        (void) snprintf(text, sizeof(text), "{\"v\":1,\"wait\":0,\"member\":{\"v\":1,\"slice\":\"s0\",\"worker\":%u,\"host\":\"h%u\",\"id\":\"i%u\","
                        "\"incarnation\":\"a%u\",\"address\":[\"10.0.0.1\"],\"hosts\":2,\"state\":\"ready\",\"runs\":[]}}", worker, worker, worker, worker);
        status = registry_sync(r, text, strlen(text), &call, &body);
        if (status != 0)
                on_answer(&call, status, body, NULL);
        return status;
}

static void test_leading(void) {
        char why[GANG_WHY_MAX];
        json_t *none = json_object(), *kept, *order = json_pack("{s:i, s:{s:s, s:s}}", "v", 1, "cordon", "reason", "cable", "by", "me");

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
        ASSERT_TRUE(seen.n == 0 && seen.published == 0 && !registry_record(r, "slice/s0")); /* nobody is told before it is written */
        ASSERT_EQ(sync_of(1), 0); /* decided while it is being written: the next batch */
        for (int i = 0; i < 5; i++)
                ASSERT_TRUE(sd_event_run(event, 20 * USEC_PER_MSEC) >= 0);
        ASSERT_EQ(fake.writes, 1);
        wrote(0);
        ASSERT_TRUE(registry_record(r, "slice/s0") && seen.published == 2);
        ASSERT_EQ(seen.n, 1); /* the second waits for its own */
        ASSERT_EQ(seen.status[0], 200);
        ASSERT_TRUE(strstr(seen.body[0], "\"term\":7,\"store\":\"77\"") && strstr(seen.body[0], "\"slice/s0\":{"));
        kept = json_pack("{s:O, s:O}", "slice/s0", registry_record(r, "slice/s0"), "slot/s0/0", registry_record(r, "slot/s0/0"));

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
        ASSERT_EQ(registry_want(r, "order/h1", NULL, why), 0); /* which changes nothing, and waits for what is on its way */
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
        ASSERT_TRUE(seen.published == 0 && !seen.led && !registry_record(r, "slice/s0") && !registry_gang(r));
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

int main(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        char path[512], aside[300], why[256];
        struct store *store = NULL;

        scratch_path(&s, "c.db", path);
        ASSERT_OK(store_open(path, &store, aside, why));
        ASSERT_TRUE(sd_event_new(&event) >= 0);
        fake.base.ops = &fake_ops;
        ASSERT_OK(registry_new(&(struct registry_options){ .event = event, .store = store, .control = &fake.base, .clock = &clock_system,
                                                           .lease = 15 * USEC_PER_SEC, .tenant = REGISTRY_TENANT, .answer = on_answer,
                                                           .published = on_published, .events = on_events, .leads = on_leads, .failed = on_failed }, &r));
        test_leading();
        r = registry_free(r);
        (void) sd_event_unref(event);
        (void) store_free(store);
        printf("1 test passed\n");
        return 0;
}
