/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_slice.h"
#include "gang.h"
#include "test.h"

#define NOW ((usec_t) 1700000000 * USEC_PER_SEC)

static void say(struct gang *g, unsigned worker, unsigned hosts, const char *incarnation) {
        char why[GANG_WHY_MAX], host[16];
        json_t *m;

        (void) snprintf(host, sizeof(host), "h%u", worker);
        m = json_pack("{s:i,s:s,s:i,s:s,s:s,s:s,s:[s],s:i,s:s,s:s,s:{s:s,s:{}},s:s,s:s,s:s,s:b,s:s,s:[]}", "v", 1,
                      "slice", "s0", "worker", (int) worker, "host", host, "id", host, "incarnation", incarnation,
                      "address", "10.0.0.1", "hosts", (int) hosts, "accelerator", "", "topology", "", "fingerprint",
                      "digest", "d", "parts", "state", "ready", "reasons", "", "orders", "", "observe", 0, "notice",
                      "", "runs");
        ASSERT_EQ(gang_say(g, m, NOW, why), 0);
        json_decref(m);
}

static void ignore(const char *key, const json_t *value, bool durable, void *userdata) {
        (void) key, (void) value, (void) durable, (void) userdata;
}

/* The planner's record of a slice in which only the first so many are there. */
static struct gang *world(unsigned hosts, unsigned there) {
        struct gang *g;

        ASSERT_EQ(gang_new(&gang_default_options, &g), 0);
        for (unsigned i = 0; i < there; i++)
                say(g, i, hosts, "1111111111111111");
        (void) gang_step(g, NOW, ignore, NULL);
        return g;
}

static json_int_t number(const json_t *v, const char *name) {
        return json_integer_value(json_object_get(v, name));
}

static json_t *brief_of(unsigned hosts, unsigned there) {
        struct gang *g = world(hosts, there);
        json_t *brief = etcd_slice_shorten(gang_record(g, "slice/s0"));

        ASSERT_TRUE(brief);
        (void) gang_free(g);
        return brief;
}

static size_t size_of(const json_t *v) {
        char *text = json_dumps(v, JSON_COMPACT);
        size_t n = strlen(text);

        free(text);
        return n;
}

static void test_small_stays_whole(void) {
        struct gang *g = world(ETCD_SLICE_WHOLE, 3);

        ASSERT_TRUE(!etcd_slice_is_large(gang_record(g, "slice/s0")));
        ASSERT_TRUE(!etcd_slice_is_short(gang_record(g, "slice/s0")));
        (void) gang_free(g);
        g = world(ETCD_SLICE_WHOLE + 1, 3);
        ASSERT_TRUE(etcd_slice_is_large(gang_record(g, "slice/s0")));
        (void) gang_free(g);
}

static void test_short_form(void) {
        json_t *v = brief_of(100, 60);

        ASSERT_TRUE(etcd_slice_is_short(v) && !json_object_get(v, "roster"));
        ASSERT_EQ(number(v, "there"), 60);
        ASSERT_EQ(number(v, "absent"), 40);
        ASSERT_EQ(number(v, "disputed"), 0);
        ASSERT_EQ(number(v, "hosts"), 100);
        ASSERT_EQ(number(v, "generation"), 1);
        ASSERT_STREQ(json_string_value(json_object_get(v, "state")), "forming");
        ASSERT_EQ(json_array_size(json_object_get(v, "missing")), ETCD_SLICE_NAMED);
        ASSERT_EQ(number(json_array_get(json_object_get(v, "missing"), 0), "worker"), 60);
        json_decref(v);
}

/* What every host is sent does not grow with the slice. */
static void test_size(void) {
        json_t *small = brief_of(32, 16), *large = brief_of(GANG_HOSTS_MAX, 2000);

        ASSERT_TRUE(size_of(large) < size_of(small) + 64);
        ASSERT_TRUE(size_of(large) < 2048);
        json_decref(small);
        json_decref(large);
}

/* An agent that does not know roster/ takes over: nobody's restart is seen in it, and no generation is lost. */
static void test_read_by_an_older_planner(void) {
        json_t *v = brief_of(40, 40);
        char why[GANG_WHY_MAX];
        struct gang *g;

        ASSERT_EQ(gang_new(&gang_default_options, &g), 0);
        ASSERT_EQ(gang_load(g, "slice/s0", v, NOW, why), 0);
        for (unsigned i = 0; i < 40; i++) {
                char key[32], host[16];
                json_t *slot;

                (void) snprintf(key, sizeof(key), "slot/s0/%u", i);
                (void) snprintf(host, sizeof(host), "h%u", i);
                slot = json_pack("{s:i,s:s,s:i,s:s,s:s,s:[s]}", "v", 1, "slice", "s0", "worker", (int) i, "host", host,
                                 "id", host, "address", "10.0.0.1");
                ASSERT_EQ(gang_load(g, key, slot, NOW, why), 0);
                json_decref(slot);
        }
        for (unsigned i = 0; i < 40; i++)
                say(g, i, 40, "1111111111111111");
        (void) gang_step(g, NOW + 1, ignore, NULL);
        ASSERT_EQ(number(gang_record(g, "slice/s0"), "generation"), 1);
        ASSERT_STREQ(json_string_value(json_object_get(gang_record(g, "slice/s0"), "state")), "ready");
        (void) gang_free(g);
        json_decref(v);
}

int main(void) {
        test_small_stays_whole();
        test_short_form();
        test_size();
        test_read_by_an_older_planner();
        return 0;
}
