/* SPDX-License-Identifier: Apache-2.0 */
#include "gang_world.h"

/* Generation 5 of the record. in: this host is in its slices. */
static void test_table(void) {
        static const struct {
                const char *state;
                bool in;
                uint64_t generation;
                enum part_state mine;
                enum part_action wanted;
        } rows[] = {
                { "waiting", true, 0, PART_NONE, PART_NOTHING },
                { "waiting", true, 4, PART_EXITED, PART_NOTHING },
                { "waiting", false, 4, PART_RUNNING, PART_STOP },
                { "preparing", true, 0, PART_NONE, PART_PREPARE },
                { "preparing", true, 4, PART_EXITED, PART_PREPARE },
                { "preparing", true, 4, PART_STOPPED, PART_PREPARE },
                { "preparing", true, 4, PART_REFUSED, PART_PREPARE },
                { "preparing", true, 4, PART_RUNNING, PART_STOP },
                { "preparing", true, 4, PART_STARTING, PART_STOP },
                { "preparing", true, 5, PART_PREPARING, PART_NOTHING },
                { "preparing", true, 5, PART_PREPARED, PART_NOTHING },
                { "preparing", true, 5, PART_REFUSED, PART_NOTHING },
                { "preparing", false, 4, PART_RUNNING, PART_STOP },
                { "preparing", false, 0, PART_NONE, PART_NOTHING },
                { "running", true, 5, PART_PREPARED, PART_START },
                { "running", true, 5, PART_STARTING, PART_NOTHING },
                { "running", true, 5, PART_RUNNING, PART_NOTHING },
                { "running", true, 5, PART_EXITED, PART_NOTHING }, /* once */
                { "running", true, 5, PART_STOPPED, PART_NOTHING },
                { "running", true, 5, PART_REFUSED, PART_NOTHING },
                { "running", true, 0, PART_NONE, PART_NOTHING }, /* not into what the others have begun */
                { "running", true, 4, PART_PREPARED, PART_NOTHING },
                { "running", true, 4, PART_RUNNING, PART_STOP },
                { "running", true, 6, PART_RUNNING, PART_NOTHING }, /* an old record */
                { "running", false, 5, PART_RUNNING, PART_STOP },
                { "stopping", true, 5, PART_RUNNING, PART_STOP },
                { "stopping", true, 5, PART_STARTING, PART_STOP },
                { "stopping", true, 4, PART_RUNNING, PART_STOP },
                { "stopping", true, 5, PART_PREPARED, PART_NOTHING },
                { "stopping", true, 5, PART_EXITED, PART_NOTHING },
                { "ended", true, 5, PART_RUNNING, PART_STOP },
                { "ended", true, 6, PART_RUNNING, PART_NOTHING },
                { "ended", false, 3, PART_RUNNING, PART_STOP },
                { "ended", true, 0, PART_NONE, PART_NOTHING },
        };

        for (size_t i = 0; i < ELEMENTSOF(rows); i++) {
                json_t *run = json_pack("{s:s, s:i, s:[{s:s, s:[{s:i}]}]}", "state", rows[i].state,
                                        "generation", 5, "slices", "slice",
                                        rows[i].in ? "s0" : "s1", "hosts", "worker", 2);
                const struct member_part mine = { rows[i].generation, rows[i].mine };
                enum part_action action;

                ASSERT_OK(part_decide(run, "s0", 2, &mine, &action));
                if (action != rows[i].wanted)
                        test_fail(__FILE__, __LINE__, "row %zu: %s, %s of %d: action %d", i, rows[i].state,
                                  part_state_name(rows[i].mine), (int) rows[i].generation, (int) action);
                json_decref(run);
        }
}

static void test_no_record(void) {
        const struct member_part mine = { 5, PART_RUNNING };
        enum part_action action = PART_STOP;

        ASSERT_OK(part_decide(NULL, "s0", 2, &mine, &action));
        ASSERT_EQ(action, PART_NOTHING);
}

static void test_broken_records(void) {
        static const char *const bad[] = {
                "{}", "[]", "7", "{\"state\":\"running\"}", "{\"state\":\"running\",\"generation\":1}",
                "{\"state\":\"walking\",\"generation\":1,\"slices\":[]}",
                "{\"state\":7,\"generation\":1,\"slices\":[]}",
                "{\"state\":\"running\",\"generation\":-1,\"slices\":[]}",
        };
        const struct member_part mine = { 1, PART_RUNNING };

        for (size_t i = 0; i < ELEMENTSOF(bad); i++) {
                json_t *run = json_loads(bad[i], JSON_DECODE_ANY, NULL);
                enum part_action action = PART_NOTHING;

                ASSERT_EQ(part_decide(run, "s0", 2, &mine, &action), -EBADMSG);
                ASSERT_EQ(action, PART_NOTHING);
                json_decref(run);
        }
}

static void test_names(void) {
        for (int i = PART_PREPARING; i < _PART_STATE_MAX; i++) {
                enum part_state s;

                ASSERT_OK(part_state_parse(part_state_name((enum part_state) i), &s));
                ASSERT_EQ(s, i);
        }
        ASSERT_EQ(part_state_parse("none", &(enum part_state) { 0 }), -EINVAL);
        ASSERT_EQ(part_state_parse("", &(enum part_state) { 0 }), -EINVAL);
}

TEST_MAIN(test_table, test_no_record, test_broken_records, test_names)
