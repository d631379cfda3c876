/* SPDX-License-Identifier: Apache-2.0 */
#include "run_fleet.h"
#include "run_spec.h"
#include "test.h"

static const char file[] = "# what to run\n"
                           "[Job]\n"
                           "Name=job1\n"
                           "Framework=jax\n"
                           "Slices=1:2\n"
                           "On=s0,s1\n"
                           "Restarts=3\n"
                           "Grace=20s\n"
                           "Wait=5min\n"
                           "Late=min\n"
                           "Port=9999\n"
                           "LastCall=10s\n"
                           "ShrinkAfter=1min\n"
                           "GrowAfter=0\n"
                           "Preempt=USR1\n"
                           "Memlock=infinity\n"
                           "Memory=64G\n"
                           "MemoryTotal=80G\n"
                           "MemoryHigh=infinity\n"
                           "Nofile=2000\n"
                           "Cpus=0-3\n"
                           "Core=keep\n"
                           "Devices=/dev/net/tun,char-nvidia\n"
                           "Directory=/home/alice\n"
                           "Env=A=1 2\n"
                           "Env=B=\n"
                           "Command=python3 \"train it.py\" --steps=10\n"
                           "Argument=  and \"this\" \n";

static struct run_spec from_flags(void) {
        return (struct run_spec){
                .name = "job1",     .framework = "jax",  .slices = "1:2",          .on = "s0,s1",
                .restarts = "3",    .grace = "20s",      .wait = "5min",           .late = "min",
                .last_call = "10s", .shrink_after = "1min", .grow_after = "0",
                .port = "9999",     .preempt = "USR1",   .directory = "/home/alice", .env = { "A=1 2", "B=" },
                .memlock = "infinity", .memory = "64G", .memory_total = "80G", .memory_high = "infinity", .nofile = "2000", .cpus = "0-3", .core = "keep",
                .devices = "/dev/net/tun,char-nvidia",
                .n_env = 2,         .n_argv = 4,         .argv = { "python3", "train it.py", "--steps=10", "and \"this\"" },
        };
}

static void test_file_and_flags_are_one_intent(void) {
        struct run_spec flags = from_flags();
        _cleanup_run_spec_ struct run_spec s = { .n_env = 0 };
        char why[RUN_SPEC_WHY_MAX] = "";
        json_t *a, *b;

        ASSERT_OK(run_spec_parse(&s, "job.ini", file, strlen(file), why));
        ASSERT_OK(run_spec_intent(&flags, "alice", &a, why));
        ASSERT_OK(run_spec_intent(&s, "alice", &b, why));
        ASSERT_TRUE(json_equal(a, b));
        ASSERT_EQ(json_integer_value(json_object_get(a, "grace")), 20000000);
        ASSERT_EQ(json_integer_value(json_object_get(a, "wait")), 300000000);
        ASSERT_EQ(json_integer_value(json_object_get(a, "last_call")), 10000000);
        ASSERT_EQ(json_integer_value(json_object_get(a, "shrink_after")), 60000000);
        ASSERT_EQ(json_integer_value(json_object_get(a, "grow_after")), 0);
        ASSERT_EQ(json_integer_value(json_object_get(a, "min")), 1);
        ASSERT_EQ(json_array_size(json_object_get(a, "slices")), 2);
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(a, "limits"), "memlock")), "infinity");
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(a, "limits"), "memory")), 64LL << 30);
        ASSERT_EQ(json_integer_value(json_object_get(json_object_get(a, "limits"), "memory_total")), 80LL << 30);
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(a, "limits"), "memory_high")), "infinity");
        ASSERT_STREQ(json_string_value(json_object_get(json_object_get(a, "limits"), "core")), "keep");
        ASSERT_STREQ(json_string_value(json_object_get(a, "devices")), "/dev/net/tun,char-nvidia");
        json_decref(a);
        json_decref(b);
}

static void test_flags_stand_before_the_file(void) {
        _cleanup_run_spec_ struct run_spec s = { .name = "other", .slices = "2", .env = { "A=mine" }, .n_env = 1,
                                                 .argv = { "sh" }, .n_argv = 1 };
        char why[RUN_SPEC_WHY_MAX] = "";
        struct run_numbers n;

        ASSERT_OK(run_spec_parse(&s, "job.ini", file, strlen(file), why));
        ASSERT_STREQ(s.name, "other");
        ASSERT_STREQ(s.framework, "jax");
        ASSERT_EQ(s.n_argv, 1);
        ASSERT_EQ(s.n_env, 3);
        ASSERT_STREQ(s.env[2], "A=mine"); /* the later counts */
        ASSERT_OK(run_spec_numbers(&s, &n, why));
        ASSERT_EQ(n.min, 2);
        ASSERT_EQ(n.max, 2);
}

static void test_defaults(void) {
        const struct run_spec on = { .on = "a,b,c" }, any = { .slices = "1:4" }, here = { .name = "x" };
        char why[RUN_SPEC_WHY_MAX];
        struct run_numbers n;
        json_t *o;

        ASSERT_OK(run_spec_numbers(&on, &n, why));
        ASSERT_EQ(n.min, 3);
        ASSERT_EQ(n.max, 3);
        ASSERT_OK(run_spec_numbers(&any, &n, why));
        ASSERT_EQ(n.min, 1);
        ASSERT_EQ(n.max, 4);
        ASSERT_TRUE(run_spec_is_fleet(&on) && run_spec_is_fleet(&any) && !run_spec_is_fleet(&here));
        ASSERT_OK(run_spec_intent(&any, "alice", &o, why));
        ASSERT_TRUE(!json_object_get(o, "wait") && !json_object_get(o, "grace") && !json_object_get(o, "late"));
        ASSERT_STREQ(json_string_value(json_object_get(o, "preempt")), "TERM");
        json_decref(o);
}

static void test_bad(void) {
        static const struct {
                const char *text, *why;
        } files[] = {
                { "[Run]\nName=a\n", "job.ini:2: section [Run]: there is only [Job]" },
                { "[Job]\nNmae=a\n", "job.ini:2: there is no key Nmae=" },
                { "[Job]\n\nCommand=a \"b\n", "job.ini:3: a quote is not closed" },
                { "[Job]\nno sense\n", "job.ini:2: " },
        };
        static const struct {
                struct run_spec s;
                const char *why;
        } specs[] = {
                { { .slices = "0" }, "--slices '0' is no number from 1 to 256" },
                { { .slices = "2:1" }, "--slices 2:1: the least is above the most" },
                { { .slices = "1:3", .on = "a,b" }, "--slices 1:3: --on names 2 slices only" },
                { { .slices = "1:" }, "--slices '' is no number" },
                { { .restarts = "-1" }, "--restarts '-1' is no number" },
                { { .port = "65536" }, "--port '65536' is no number from 1 to 65535" },
                { { .grace = "soon" }, "--grace 'soon': " },
                { { .memory = "much" }, "--memory 'much': " },
                { { .memlock = "0" }, "--memlock '0': 0 is no limit" },
                { { .nofile = "0" }, "--nofile '0' is no number from 1" },
                { { .core = "all" }, "--core is none or keep, not 'all'" },
                { { .late = "never" }, "--late is fail or min, not 'never'" },
        };
        char why[RUN_SPEC_WHY_MAX];
        struct run_numbers n;

        for (size_t i = 0; i < ELEMENTSOF(files); i++) {
                _cleanup_run_spec_ struct run_spec s = { .n_env = 0 };

                ASSERT_EQ(run_spec_parse(&s, "job.ini", files[i].text, strlen(files[i].text), why), -EINVAL);
                ASSERT_TRUE(startswith(why, files[i].why));
        }
        for (size_t i = 0; i < ELEMENTSOF(specs); i++) {
                ASSERT_EQ(run_spec_numbers(&specs[i].s, &n, why), -EINVAL);
                ASSERT_TRUE(startswith(why, specs[i].why));
        }
}

static void test_lines(void) {
        static const struct {
                const char *record, *line;
        } table[] = {
                { "{\"state\":\"waiting\",\"why\":\"\"}", "waiting" },
                { "{\"state\":\"waiting\",\"why\":\"h2 was lost\"}", "waiting: h2 was lost" },
                { "{\"state\":\"waiting\",\"why\":\"h2: busy\\nkill 1\"}", "waiting: h2: busy" },
                { "{\"state\":\"ended\",\"outcome\":\"refused\",\"why\":\"h2: busy\\nkill 1\"}", "ended: refused: h2: busy\nkill 1" },
                { "{\"state\":\"preparing\",\"generation\":2,\"why\":\"h2 was lost\",\"slices\":[{\"slice\":\"s0\",\"hosts\":[1,2]},"
                  "{\"slice\":\"s1\",\"hosts\":[1,2]}]}", "preparing, generation 2, on s0, s1 (4 hosts): h2 was lost" },
                { "{\"state\":\"running\",\"generation\":1,\"slices\":[{\"slice\":\"s0\",\"hosts\":[1]}]}",
                  "running, generation 1, on s0 (1 host)" },
                { "{\"state\":\"ended\",\"outcome\":\"failed\",\"why\":\"h1 ended it: oom-kill\"}", "ended: failed: h1 ended it: oom-kill" },
                { "{}", ", generation 0" },
        };

        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                json_t *run = json_loads(table[i].record, 0, NULL);
                char line[800];

                run_fleet_line(run, line, sizeof(line));
                ASSERT_STREQ(line, table[i].line);
                json_decref(run);
        }
}

TEST_MAIN(test_file_and_flags_are_one_intent, test_flags_stand_before_the_file, test_defaults, test_bad, test_lines)
