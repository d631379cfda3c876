/* SPDX-License-Identifier: Apache-2.0 */
#include "gang_world.h"

static const json_t *slice(const struct world *w, unsigned s) {
        char key[32];

        snprintf(key, sizeof(key), "slice/s%u", s);
        return gang_record(w->g, key);
}

static size_t count(const struct world *w, const char *list) {
        return json_array_size(json_object_get(slice(w, 0), list));
}

static json_int_t number(const json_t *v, const char *key) {
        return json_integer_value(json_object_get(v, key));
}

static void test_it_forms(void) {
        struct world w;
        const json_t *missing;
        usec_t began;

        world_new(&w, 1, 3);
        began = w.now;
        world_join(&w, 0, 1);
        ASSERT_TRUE(world_step(&w) > 0);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "forming");
        ASSERT_EQ(count(&w, "roster"), 1);
        ASSERT_EQ(count(&w, "missing"), 2);
        missing = json_array_get(json_object_get(slice(&w, 0), "missing"), 0);
        ASSERT_EQ(number(missing, "worker"), 0);
        ASSERT_EQ(number(missing, "since"), began);
        ASSERT_STREQ(world_text(missing, "why"), "never heard");
        w.now += USEC_PER_SEC;
        world_join(&w, 0, 0);
        world_join(&w, 0, 2);
        world_step(&w);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        ASSERT_EQ(number(slice(&w, 0), "since"), w.now);
        ASSERT_EQ(number(slice(&w, 0), "generation"), 1);
        ASSERT_EQ(count(&w, "roster"), 3);
        ASSERT_EQ(count(&w, "missing"), 0);
        ASSERT_STREQ(world_text(gang_record(w.g, "slot/s0/2"), "host"), "s0-2");
        ASSERT_EQ(world_step(&w), 0);
        ASSERT_OK(world_say(&w, 0, 1)); /* the same once more */
        ASSERT_EQ(world_step(&w), 0);
        gang_free(w.g);
}

static void test_lost_and_back(void) {
        struct world w;
        const json_t *missing;

        world_new(&w, 1, 3);
        world_join_all(&w);
        w.now += USEC_PER_SEC;
        world_gone(&w, 0, 1);
        world_step(&w);
        ASSERT_EQ(number(slice(&w, 0), "generation"), 2);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "forming");
        missing = json_array_get(json_object_get(slice(&w, 0), "missing"), 0);
        ASSERT_STREQ(world_text(missing, "host"), "s0-1");
        ASSERT_STREQ(json_string_value(json_array_get(json_object_get(missing, "address"), 0)), "10.0.0.1");
        ASSERT_STREQ(world_text(missing, "why"), "its lease ended");
        ASSERT_EQ(number(missing, "since"), w.now);
        world_join(&w, 0, 1);
        world_step(&w);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        ASSERT_EQ(number(slice(&w, 0), "generation"), 2);
        w.host[0][2].life++; /* its agent was started again before anybody saw it go */
        ASSERT_OK(world_say(&w, 0, 2));
        world_step(&w);
        ASSERT_EQ(number(slice(&w, 0), "generation"), 3);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        /* of the life before */
        ASSERT_EQ(gang_gone(w.g, "s0", 2, "0000000000000001", false, "late", w.now), -ENOENT);
        ASSERT_EQ(gang_gone(w.g, "s9", 2, "0000000000000001", false, "late", w.now), -ENOENT);
        gang_free(w.g);
}

static void test_two_claim_one_id(void) {
        struct world w, other;
        const json_t *c;
        char why[GANG_WHY_MAX];

        world_new(&w, 1, 3);
        world_join_all(&w);
        other = w;
        other.host[0][1].machine = 1;
        ASSERT_EQ(world_say(&other, 0, 1), -EEXIST);
        world_step(&w);
        ASSERT_EQ(count(&w, "conflicts"), 1);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        c = json_array_get(json_object_get(slice(&w, 0), "conflicts"), 0);
        ASSERT_STREQ(world_text(c, "host"), "s0-1b");
        ASSERT_STREQ(world_text(c, "holder"), "s0-1");
        ASSERT_STREQ(json_string_value(json_array_get(json_object_get(slice(&w, 0), "roster"), 1)) ? ""
                     : world_text(json_array_get(json_object_get(slice(&w, 0), "roster"), 1), "host"),
                     "s0-1");
        w.now += gang_default_options.lease - 1;
        ASSERT_EQ(world_step(&w), 0);
        w.now += 1; /* it stopped saying it */
        world_step(&w);
        ASSERT_EQ(count(&w, "conflicts"), 0);
        ASSERT_EQ(gang_release(w.g, "s0", 1, why), -EBUSY);
        world_gone(&w, 0, 1);
        other.now = w.now;
        ASSERT_EQ(world_say(&other, 0, 1), -EEXIST); /* dead for a while is no reason to take it */
        ASSERT_OK(gang_release(w.g, "s0", 1, why));
        ASSERT_OK(world_say(&other, 0, 1));
        world_step(&w);
        ASSERT_EQ(gang_release(w.g, "s0", 7, why), -ENOENT);
        ASSERT_STREQ(world_text(gang_record(w.g, "slot/s0/1"), "host"), "s0-1b");
        gang_free(w.g);
}

/* The same id twice: an image that was copied with its machine id. */
static void test_copied_machine(void) {
        struct world w;
        json_t *m;
        char why[GANG_WHY_MAX];

        world_new(&w, 1, 2);
        world_join_all(&w);
        m = world_member(&w, 0, 1);
        json_object_set_new(m, "host", json_string("copy"));
        json_object_set_new(m, "incarnation", json_string("c0"));
        ASSERT_EQ(gang_say(w.g, m, w.now, why), -EEXIST);
        json_object_set_new(m, "host", json_string("s0-1")); /* by name as well */
        ASSERT_OK(gang_say(w.g, m, w.now, why));
        ASSERT_EQ(world_say(&w, 0, 1), -EEXIST); /* the life before speaks again */
        json_decref(m);
        gang_free(w.g);
}

static const json_t *twin(const struct world *w, unsigned s, size_t at) {
        return json_array_get(json_object_get(slice(w, s), "twins"), at);
}

static void say_machine(struct world *w, unsigned s, unsigned h, const char *id, const char *machine,
                        int error) {
        json_t *m = world_member(w, s, h);
        char why[GANG_WHY_MAX];

        json_object_set_new(m, "id", json_string(id));
        json_object_set_new(m, "machine", json_string(machine));
        ASSERT_EQ(gang_say(w->g, m, w->now, why), error);
        json_decref(m);
        world_step(w);
}

/* One machine id on two workers, also of two slices: both are members, both are told, until it is mended. */
static void test_twins(void) {
        struct world w;

        world_new(&w, 2, 1);
        say_machine(&w, 0, 0, "i-1", "aaaa", 0);
        ASSERT_EQ(count(&w, "twins"), 0);
        say_machine(&w, 1, 0, "i-2", "aaaa", 0);
        ASSERT_STREQ(world_text(twin(&w, 0, 0), "other"), "s1-0");
        ASSERT_STREQ(world_text(twin(&w, 0, 0), "address"), "10.1.0.0");
        ASSERT_STREQ(world_text(twin(&w, 1, 0), "other"), "s0-0");
        ASSERT_STREQ(world_text(twin(&w, 1, 0), "machine"), "aaaa");
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        ASSERT_STREQ(world_text(slice(&w, 1), "state"), "ready");
        say_machine(&w, 1, 0, "i-2", "bbbb", 0); /* the same instance: the same machine, live as it is */
        ASSERT_EQ(json_array_size(json_object_get(slice(&w, 0), "twins")), 0);
        ASSERT_EQ(json_array_size(json_object_get(slice(&w, 1), "twins")), 0);
        say_machine(&w, 1, 0, "i-2", "aaaa", 0);
        ASSERT_EQ(count(&w, "twins"), 1);
        world_gone(&w, 1, 0);
        world_step(&w);
        ASSERT_EQ(count(&w, "twins"), 0);
        gang_free(w.g);
}

/* A host that changes its slice, and comes back, is one machine each time; another boot may be a copy. */
static void test_moved_is_no_twin(void) {
        static const struct {
                unsigned slice;
                const char *life;
                size_t twins;
        } says[] = { { 0, "b0.0001", 0 }, { 1, "b0.0002", 0 }, { 0, "b0.0003", 0 }, { 1, "b1.0004", 1 } };
        struct world w;

        world_new(&w, 2, 1);
        for (size_t i = 0; i < ELEMENTSOF(says); i++) {
                json_t *m = world_member(&w, says[i].slice, 0);
                char why[GANG_WHY_MAX];

                json_object_set_new(m, "host", json_string("h0"));
                json_object_set_new(m, "machine", json_string("aaaa"));
                json_object_set_new(m, "incarnation", json_string(says[i].life));
                ASSERT_OK(gang_say(w.g, m, w.now, why));
                json_decref(m);
                world_step(&w);
                ASSERT_EQ(json_array_size(json_object_get(slice(&w, says[i].slice), "twins")),
                          says[i].twins);
        }
        gang_free(w.g);
}

/* Without instance ids the copy gets an id of its own as the remedy says, and keeps its worker id. */
static void test_twin_mended(void) {
        struct world w;

        world_new(&w, 1, 2);
        say_machine(&w, 0, 0, "aaaa", "aaaa", 0);
        say_machine(&w, 0, 1, "aaaa", "aaaa", 0);
        ASSERT_EQ(count(&w, "twins"), 2);
        w.host[0][1].life++;
        say_machine(&w, 0, 1, "bbbb", "bbbb", -EEXIST); /* its last life may still be there */
        w.host[0][1].life--;
        world_gone(&w, 0, 1);
        w.host[0][1].life++;
        say_machine(&w, 0, 1, "bbbb", "bbbb", 0);
        ASSERT_EQ(count(&w, "twins"), 0);
        world_gone(&w, 0, 1);
        w.host[0][1].life++;
        say_machine(&w, 0, 1, "cccc", "cccc", -EEXIST); /* an id of its own identifies it */
        gang_free(w.g);
}

/* The instance id was not known when it came first. */
static void test_instance_id_comes_later(void) {
        struct world w;
        json_t *m;
        char why[GANG_WHY_MAX];

        world_new(&w, 1, 2);
        world_join_all(&w);
        m = world_member(&w, 0, 1);
        json_object_set(m, "machine", json_object_get(m, "id"));
        json_object_set_new(m, "id", json_string("4711"));
        ASSERT_OK(gang_say(w.g, m, w.now, why));
        ASSERT_OK(gang_say(w.g, m, w.now, why));
        json_object_set_new(m, "id", json_string("4712")); /* another instance with that machine id */
        ASSERT_EQ(gang_say(w.g, m, w.now, why), -EEXIST);
        json_decref(m);
        gang_free(w.g);
}

static void test_fingerprints(void) {
        struct world w;
        const json_t *u;

        world_new(&w, 1, 4);
        w.host[0][3].digest = "d2";
        world_join_all(&w);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "ready");
        ASSERT_EQ(count(&w, "unlike"), 1);
        u = json_array_get(json_object_get(slice(&w, 0), "unlike"), 0);
        ASSERT_EQ(number(u, "worker"), 3);
        ASSERT_STREQ(world_text(u, "part"), "libtpu");
        ASSERT_STREQ(world_text(u, "found"), "d2");
        ASSERT_STREQ(world_text(u, "others"), "d1");
        w.host[0][3].digest = NULL;
        ASSERT_OK(world_say(&w, 0, 3));
        world_step(&w);
        ASSERT_EQ(count(&w, "unlike"), 0);
        gang_free(w.g);
}

/* One of another slice has the digest of these, and other words for it. */
static void test_fingerprints_of_a_liar(void) {
        struct world w;
        const json_t *u;

        world_new(&w, 2, 2);
        w.host[0][0].parts = w.host[0][1].parts = "none, says the liar";
        w.host[1][1].digest = "d2";
        world_join_all(&w);
        u = json_array_get(json_object_get(slice(&w, 1), "unlike"), 0);
        ASSERT_STREQ(world_text(u, "found"), "d2");
        ASSERT_STREQ(world_text(u, "others"), "d1");
        ASSERT_EQ(count(&w, "unlike"), 0); /* of the first slice */
        gang_free(w.g);
}

/* Who takes over misses nobody before a lease, and whoever is back then was never away. */
static void test_taken_over(void) {
        struct world w;
        struct gang *old;

        world_new(&w, 1, 3);
        world_join_all(&w);
        w.now += 100 * USEC_PER_SEC;
        old = w.g;
        w.g = world_reload(&w);
        ASSERT_EQ(world_step(&w), 0);
        w.now += gang_default_options.lease - 1;
        ASSERT_OK(world_say(&w, 0, 0));
        ASSERT_OK(world_say(&w, 0, 2));
        ASSERT_EQ(world_step(&w), 0);
        ASSERT_TRUE(json_equal(slice(&w, 0), gang_record(old, "slice/s0")));
        w.now += 1;
        world_step(&w);
        ASSERT_STREQ(world_text(slice(&w, 0), "state"), "forming");
        ASSERT_EQ(count(&w, "missing"), 1);
        ASSERT_EQ(number(slice(&w, 0), "generation"), 2);
        gang_free(old);
        gang_free(w.g);
}

static void test_what_cannot_be(void) {
        static const struct {
                const char *key, *json;
        } bad[] = {
                { "slice", "\"a/b\"" },  { "slice", "7" },
                { "worker", "-1" },      { "worker", "4096" },
                { "worker", "3" },       { "host", "\"\"" },
                { "id", "\"\"" },        { "incarnation", "null" },
                { "address", "\"a\"" },  { "address", "[\"10.0.0.256\"]" },
                { "hosts", "5000" },     { "notice", "\"soon\"" },
                { "runs", "{}" },        { "runs", "[{\"name\":\"X\",\"state\":\"running\"}]" },
                { "runs", "[{\"name\":\"x\",\"state\":\"walking\"}]" },
                { "runs", "[7]" },       { "fingerprint", "{\"digest\":7}" },
                { "fingerprint", "{\"parts\":[]}" }, { "v", "0" },
                { "host", "\"a\\u0000b\"" },
        };
        struct world w;

        world_new(&w, 1, 3);
        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                json_t *m = world_member(&w, 0, 0);
                char why[GANG_WHY_MAX];

                json_object_set_new(m, bad[i].key,
                                    json_loads(bad[i].json, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL));
                if (gang_say(w.g, m, w.now, why) != -EBADMSG)
                        test_fail(__FILE__, __LINE__, "%s: %s was taken", bad[i].key, bad[i].json);
                ASSERT_TRUE(*why);
                json_decref(m);
        }
        ASSERT_EQ(world_step(&w), 0);
        gang_free(w.g);
}

/* A slice that nobody has been in for a week is forgotten, with its worker ids. */
static void test_forgotten(void) {
        struct world w;

        world_new(&w, 1, 2);
        world_join_all(&w);
        world_gone(&w, 0, 0);
        world_gone(&w, 0, 1);
        world_step(&w);
        ASSERT_EQ(w.next, w.now + (usec_t) 7 * 24 * 3600 * USEC_PER_SEC);
        w.now = w.next;
        world_step(&w);
        ASSERT_TRUE(!slice(&w, 0) && !gang_record(w.g, "slot/s0/0"));
        gang_free(w.g);
}

/* Who was never heard is named as the others know it; what it says of itself counts more. */
static void test_named_by_others(void) {
        struct world w;
        const json_t *missing;
        json_t *m;
        char why[GANG_WHY_MAX];

        world_new(&w, 1, 4);
        world_join(&w, 0, 2);
        m = world_member(&w, 0, 2);
        json_object_set_new(m, "next", json_pack("[s,s,i,s,s]", "t-3", "10.9.0.9", 7, "t-1", "t-2"));
        ASSERT_OK(gang_say(w.g, m, w.now, why));
        json_decref(m);
        world_step(&w);
        missing = json_object_get(slice(&w, 0), "missing");
        ASSERT_STREQ(world_text(json_array_get(missing, 0), "host"), "10.9.0.9");
        ASSERT_STREQ(world_text(json_array_get(missing, 1), "host"), "");
        ASSERT_STREQ(world_text(json_array_get(missing, 2), "host"), "t-3");
        ASSERT_OK(world_want(&w, world_intent("a1", 1, 1, 0)));
        world_step(&w);
        ASSERT_TRUE(strstr(world_waits(&w), "s0: worker 0 (10.9.0.9) missing since"));
        world_join(&w, 0, 0);
        world_step(&w);
        ASSERT_STREQ(world_text(json_array_get(json_object_get(slice(&w, 0), "roster"), 0), "host"), "s0-0");
        gang_free(w.g);
}

/* A run on a slice that nobody is in waits: it may come yet. The name that was meant is said. */
static void test_a_slice_of_nobody(void) {
        struct world w;
        json_t *i = world_intent("a1", 1, 1, 0);

        world_new(&w, 2, 2);
        json_object_set_new(i, "slices", json_pack("[s]", "s_1"));
        ASSERT_OK(world_want(&w, json_incref(i)));
        world_settle(&w);
        ASSERT_STREQ(world_waits(&w), "s_1: no host of it was ever heard; none is known");
        world_join_all(&w);
        world_settle(&w);
        ASSERT_STREQ(world_waits(&w),
                     "s_1: no host of it was ever heard; did you mean 's1'? known: s0, s1");
        json_decref(i);
        gang_free(w.g);
}

/* One of 20 workers in each of five slices; proved: by a certificate. */
static json_t *one_of_many(const struct world *w, unsigned s, unsigned worker, const char *host,
                           bool proved) {
        json_t *m = world_member(w, 0, 0);

        json_object_set_new(m, "slice", json_sprintf("s%u", s));
        json_object_set_new(m, "worker", json_integer(worker));
        json_object_set_new(m, "hosts", json_integer(20));
        json_object_set_new(m, "host", json_string(host));
        json_object_set_new(m, "id", json_sprintf("id of %s", host));
        json_object_set_new(m, "proved", json_boolean(proved));
        return m;
}

static void say_one_of_many(struct world *w, unsigned s, unsigned worker, const char *host, bool proved,
                            int wanted) {
        json_t *m = one_of_many(w, s, worker, host, proved);
        char why[GANG_WHY_MAX];

        ASSERT_EQ(gang_say(w->g, m, w->now, why), wanted);
        json_decref(m);
}

static size_t count_conflicts(const struct world *w, size_t *ret_most) {
        size_t sum = 0;

        *ret_most = 0;
        for (unsigned s = 0; s < 5; s++) {
                size_t n = json_array_size(json_object_get(slice(w, s), "conflicts"));

                *ret_most = MAX(*ret_most, n);
                sum += n;
        }
        return sum;
}

/* A host that claims every worker id: it is refused each, and few of its claims are kept and shown. */
static void test_claims_of_a_liar(void) {
        for (unsigned proved = 0; proved < 2; proved++) {
                struct world w;
                char host[32];
                size_t most;

                world_new(&w, 1, 1);
                for (unsigned i = 0; i < 100; i++) {
                        (void) snprintf(host, sizeof(host), "h%u", i);
                        say_one_of_many(&w, i / 20, i % 20, host, false, 0);
                }
                for (unsigned i = 0; i < 100; i++)
                        say_one_of_many(&w, i / 20, i % 20, "liar", proved > 0, -EEXIST);
                world_step(&w);
                ASSERT_EQ(count_conflicts(&w, &most), proved > 0 ? 1 : 16 + 16 + 16 + 4);
                ASSERT_EQ(most, proved > 0 ? 1 : 16);
                say_one_of_many(&w, 4, 0, "other", false, -EEXIST); /* which is shown as ever */
                world_step(&w);
                ASSERT_EQ(json_array_size(json_object_get(slice(&w, 4), "conflicts")), 1);
                w.now += gang_default_options.lease;
                world_step(&w);
                ASSERT_EQ(count_conflicts(&w, &most), 0);
                gang_free(w.g);
        }
}

TEST_MAIN(test_it_forms, test_lost_and_back, test_two_claim_one_id, test_copied_machine, test_twins,
          test_moved_is_no_twin,
          test_twin_mended, test_instance_id_comes_later, test_fingerprints, test_fingerprints_of_a_liar,
          test_taken_over,
          test_what_cannot_be, test_forgotten, test_named_by_others, test_a_slice_of_nobody,
          test_claims_of_a_liar)
