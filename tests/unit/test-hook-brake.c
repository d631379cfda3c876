/* SPDX-License-Identifier: Apache-2.0 */
/* How much of a slice must be out of service for the hook to be held. */
#include "hook.h"
#include "hook_brake.h"
#include "test.h"

/* One host of slice "a": state, reasons, age. */
static void add(json_t *hosts, const char *name, const char *slice, const char *state, const char *reasons,
                double age) {
        ASSERT_OK(json_array_append_new(hosts, json_pack("{s:s, s:s?, s:s?, s:s?, s:f}", "name", name,
                                                         "slice", slice, "state", state, "reasons", reasons,
                                                         "age_seconds", age)));
}

static enum brake decide(json_t *hosts, unsigned percent) {
        json_t *answer = json_pack("{s:O}", "hosts", hosts);
        enum brake b = brake_decide(answer, "a", "h0", percent);

        json_decref(answer);
        return b;
}

static void shares(void) {
        json_t *hosts = json_array();

        ASSERT_EQ(decide(hosts, 20), BRAKE_UNKNOWN);
        add(hosts, "h1", "a", "ready", NULL, 1);
        ASSERT_EQ(decide(hosts, 20), BRAKE_UNKNOWN); /* it does not know this host */
        add(hosts, "h0", "a", "unfit", "nic.mtu eth0 FAIL", 1);
        ASSERT_EQ(decide(hosts, 20), BRAKE_OFF); /* this one does not count */
        for (int i = 2; i < 10; i++)
                add(hosts, "hx", "a", "degraded", "thp WARN", 1);
        add(hosts, "z1", "b", "unfit", "", 1); /* others' slices and lone hosts do not count */
        add(hosts, "z2", NULL, "unfit", "", 1);
        ASSERT_EQ(decide(hosts, 1), BRAKE_OFF);
        json_object_set_new(json_array_get(hosts, 0), "reasons", json_string("cordoned by root: x"));
        ASSERT_EQ(decide(hosts, 11), BRAKE_OFF);
        ASSERT_EQ(decide(hosts, 10), BRAKE_ON); /* 1 of 10 */
        json_object_set_new(json_array_get(hosts, 2), "age_seconds", json_integer(61));
        ASSERT_EQ(decide(hosts, 20), BRAKE_ON); /* silent */
        json_object_set_new(json_array_get(hosts, 3), "state", json_string("unfit"));
        ASSERT_EQ(decide(hosts, 30), BRAKE_ON);
        ASSERT_EQ(decide(hosts, 31), BRAKE_OFF);
        json_decref(hosts);
}

static void foreign_answers(void) {
        static const char *const texts[] = { "{}", "[]", "{\"hosts\": 7}",
                                             "{\"hosts\": [1, null, {}, {\"name\": 5, \"slice\": \"a\"}]}" };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                json_t *v = json_loads(texts[i], 0, NULL);

                ASSERT_TRUE(v);
                ASSERT_EQ(brake_decide(v, "a", "h0", 20), BRAKE_UNKNOWN);
                json_decref(v);
        }
}

static void wanted(void) {
        struct hook_options o = { .command = "/x", .events = "tpu.a.b tpu.hook.failed tpu.c" };

        ASSERT_TRUE(hook_wants(&o, "tpu.a.b"));
        ASSERT_TRUE(hook_wants(&o, "tpu.c"));
        ASSERT_FALSE(hook_wants(&o, "tpu.a"));
        ASSERT_FALSE(hook_wants(&o, "a.b"));
        ASSERT_FALSE(hook_wants(&o, "tpu.hook.failed")); /* its own end would start it again */
        o.command[0] = 0;
        ASSERT_FALSE(hook_wants(&o, "tpu.c"));
}

TEST_MAIN(shares, foreign_answers, wanted)
