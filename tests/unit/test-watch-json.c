/* SPDX-License-Identifier: Apache-2.0 */
/* Figures of BPF programs as JSON and as a sentence; and CPUs' nodes. */
#include "test.h"
#include "watch_json.h"

#define SECOND 1000000000ull

static double number(const json_t *o, const char *key) {
        return json_number_value(json_object_get(o, key));
}

static void test_sched(void) {
        static struct sched_figures f;
        struct run_standing still = { .starved = 0 };
        json_t *o, *delays, *place;
        char text[WATCH_SENTENCE_MAX];

        f.shards[0] = (struct sched_shard){ .delays = 3, .delay_ns = 2 * SECOND, .preemptions = 1,
                                            .preempted_ns = SECOND };
        f.shards[15] = (struct sched_shard){ .delays = 1, .delay_ns = SECOND, .blocked = 2,
                                             .blocked_ns = 3 * SECOND, .migrations = 7 };
        f.shards[0].buckets[0] = 2;
        f.shards[0].buckets[10] = 1;
        f.shards[15].buckets[SCHED_BUCKETS - 1] = 1;
        f.waits[3] = (struct sched_wait){ .place = 1, .waits = 2, .ns = 3 * SECOND,
                                          .longest_ns = 2 * SECOND };
        (void) snprintf(f.waits[3].comm, sizeof(f.waits[3].comm), "py\xff");
        (void) snprintf(f.waits[3].stack, sizeof(f.waits[3].stack),
                        "schedule+0x1/0x2 io_schedule+0x1/0x2 nfs_wait+0x3/0x4 0x0 0x0");
        o = watch_json_sched(&f);
        delays = json_object_get(o, "delays");
        ASSERT_EQ(json_integer_value(json_object_get(delays, "n")), 4);
        ASSERT_TRUE(number(delays, "seconds") == 3 && number(delays, "p50") == 1e-6);
        ASSERT_EQ(json_array_size(json_object_get(delays, "buckets")), 3);
        ASSERT_TRUE(json_is_null(json_object_get(json_array_get(json_object_get(delays, "buckets"), 2),
                                                 "below")));
        place = json_array_get(json_object_get(json_object_get(o, "blocked"), "places"), 0);
        ASSERT_STREQ(json_string_value(json_object_get(place, "comm")), "py?");
        ASSERT_STREQ(json_string_value(json_object_get(place, "stack")),
                     "schedule+0x1/0x2 io_schedule+0x1/0x2 nfs_wait+0x3/0x4");
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(o, "migrations"), "cpus")), 7);
        json_decref(o);
        ASSERT_STREQ(watch_sentence_sched(&f, &still, 10, text),
                     "its threads stood 3.0 s of 10 s in state D in nfs_wait; its threads waited 3.0 s of "
                     "10 s for a CPU (1.0 s preempted)");
        ASSERT_STREQ(watch_sentence_sched(&f, &still, 1000, text), ""); /* nothing stands out */
        {
                struct run_look from = { .at = 0 }, to = { .at = 5 * USEC_PER_SEC };

                to.cpu.user_usec = 2 * USEC_PER_SEC; /* it waited for 3 s */
                ASSERT_TRUE(watch_is_starved(&f, &from, &to));
                to.cpu.system_usec = USEC_PER_SEC;
                ASSERT_FALSE(watch_is_starved(&f, &from, &to)); /* and had a CPU as long */
                to.cpu.user_usec = to.cpu.system_usec = 0;
                to.at = 7 * USEC_PER_SEC;
                ASSERT_FALSE(watch_is_starved(&f, &from, &to)); /* of 7 s */
                to.cpu.user_usec = from.cpu.user_usec = -1;
                to.at = 5 * USEC_PER_SEC;
                ASSERT_FALSE(watch_is_starved(&f, &from, &to));
        }
        still = (struct run_standing){ .starved = 2, .starved_comm = "python3", .blocked = 1,
                                       .blocked_comm = "pt\xff" };
        ASSERT_STREQ(watch_sentence_sched(NULL, &still, 5, text),
                     "2 of its threads (python3, …) wanted a CPU and got next to none all of 5 s; 1 of its "
                     "threads (pt?) stood in state D all of 5 s");
        memset(&f, 0xff, sizeof(f)); /* whatever it is: it ends in JSON */
        o = watch_json_sched(&f);
        ASSERT_TRUE(o != NULL);
        json_decref(o);
        ASSERT_TRUE(strlen(watch_sentence_sched(&f, &still, 10, text)) < WATCH_SENTENCE_MAX);
}

static void test_io(void) {
        static struct io_figures f;
        json_t *o, *slow;
        char text[WATCH_SENTENCE_MAX];

        f.requests[IO_WRITE] = (struct io_times){ .n = 2, .ns = SECOND, .bytes = 4096,
                                                  .buckets = { [12] = 2 } };
        f.slow_requests[1] = (struct io_slow){ .ns = SECOND / 2, .ended = 1, .kind = IO_WRITE,
                                               .where = "nvme0n1" };
        f.slow_requests[5] = (struct io_slow){ .ns = SECOND, .ended = 1, .kind = IO_READ, .where = "sda" };
        f.slow_calls[0] = (struct io_slow){ .ns = 4 * SECOND, .ended = 1, .kind = IO_CALL_SYNC,
                                            .where = "nfs4", .file = "checkpoint" };
        /* none that we know */
        f.slow_calls[1] = (struct io_slow){ .ns = 9 * SECOND, .ended = 1, .kind = 77 };
        f.stalls = 3;
        o = watch_json_io(&f);
        slow = json_object_get(o, "slow_requests");
        ASSERT_EQ(json_array_size(slow), 2);
        ASSERT_STREQ(json_string_value(json_object_get(json_array_get(slow, 0), "disk")), "sda");
        slow = json_object_get(o, "slow_calls");
        ASSERT_EQ(json_array_size(slow), 1);
        ASSERT_STREQ(json_string_value(json_object_get(json_array_get(slow, 0), "file")), "checkpoint");
        ASSERT_EQ(json_array_size(json_object_get(o, "requests")), 1);
        ASSERT_EQ(json_array_size(json_object_get(o, "calls")), 0);
        json_decref(o);
        ASSERT_STREQ(watch_sentence_io(&f, 10, text), "a sync of checkpoint on nfs4 took 4.0 s; a read of "
                                                      "disk sda took 1.0 s; its writers were held "
                                                      "back 3 times until the disk caught up");
        memset(&f, 0xff, sizeof(f));
        o = watch_json_io(&f);
        ASSERT_TRUE(o != NULL);
        json_decref(o);
        ASSERT_TRUE(strlen(watch_sentence_io(&f, 10, text)) < WATCH_SENTENCE_MAX);
}

static void test_looks(void) {
        struct run_look from = { .cpu = { 10, 20, -1 }, .memory = { .refaults = 5, .major_faults = -1 },
                                 .io = { 100, 200 } }, to = from;
        json_t *o;

        to.cpu.user_usec = 1000010;
        to.memory.refaults = 8;
        to.io.read_bytes = 99; /* it began anew */
        o = watch_json_cpu(&from, &to);
        ASSERT_TRUE(number(o, "user") == 1 && json_is_null(json_object_get(o, "throttled")) &&
                    json_is_null(json_object_get(o, "waited")));
        json_decref(o);
        o = watch_json_storage(&from, &to);
        ASSERT_EQ(json_integer_value(json_object_get(o, "refaults")), 3);
        ASSERT_TRUE(json_is_null(json_object_get(o, "read_bytes")) &&
                    json_is_null(json_object_get(o, "major_faults")));
        json_decref(o);
}

static void test_nodes(void) {
        uint8_t node[12] = { 0 };

        ASSERT_TRUE(cpu_list_mark("0-2,5,10-2000", 3, node, 12));
        ASSERT_TRUE(node[0] == 3 && node[2] == 3 && node[3] == 0 && node[5] == 3 && node[9] == 0 &&
                    node[11] == 3);
        ASSERT_TRUE(cpu_list_mark("", 1, node, 12));
        ASSERT_FALSE(cpu_list_mark("x", 1, node, 12));
        ASSERT_FALSE(cpu_list_mark("3-1", 1, node, 12));
        ASSERT_FALSE(cpu_list_mark("-1", 1, node, 12));
        ASSERT_FALSE(cpu_list_mark("1-", 1, node, 12));
}

TEST_MAIN(test_sched, test_io, test_looks, test_nodes)
