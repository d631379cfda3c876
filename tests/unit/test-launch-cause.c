/* SPDX-License-Identifier: Apache-2.0 */
/* One word for how a run ended, out of all that is known; and whether it is restarted. */
#include "cause.h"
#include "tail.h"
#include "test.h"

/* Evidence by its parts; what is left out is as of a run of which nothing but its record is known. */
struct row {
        const char *result, *code, *status;
        uint32_t oom_kills;
        bool not_executed, rebooted, stop_asked, preempted, checkpoint, container;
        int unkillable;
        const char *line; /* of its log, or NULL */
        enum cause cause;
        const char *why; /* a part of it */
};

static const struct row table[] = {
        { .result = "success", .code = "exited", .status = "0", .cause = CAUSE_SUCCESS,
          .why = "ended with 0" },
        /* success is success, whatever else was seen */
        { .result = "success", .code = "exited", .status = "0", .stop_asked = true,
          .preempted = true,
          .line = "Megascale detects a hang", .cause = CAUSE_SUCCESS },
        { .result = "success", .code = "killed", .status = "TERM", .cause = CAUSE_STOPPED, .why = "TERM" },
        { .result = "success", .code = "killed", .status = "TERM", .stop_asked = true,
          .cause = CAUSE_STOPPED },
        { .result = "exit-code", .code = "exited", .status = "1", .stop_asked = true,
          .cause = CAUSE_STOPPED },
        { .result = "timeout", .code = "killed", .status = "KILL", .stop_asked = true,
          .cause = CAUSE_TIMEOUT, .why = "grace" },
        { .result = "signal", .code = "killed", .status = "KILL", .stop_asked = true, .cause = CAUSE_TIMEOUT,
          .why = "grace" },
        { .result = "signal", .code = "killed", .status = "KILL", .cause = CAUSE_SIGNAL,
          .why = "killed by KILL" },
        { .result = "core-dump", .code = "dumped", .status = "ABRT", .cause = CAUSE_CORE_DUMP,
          .why = "ABRT" },
        { .result = "exit-code", .code = "exited", .status = "3", .cause = CAUSE_EXIT_CODE, .why = "3" },
        { .result = "exit-code", .code = "exited", .status = "93", .cause = CAUSE_NEVER_RESTART,
          .why = "93" },
        { .result = "exit-code", .code = "exited", .status = "93", .preempted = true,
          .cause = CAUSE_NEVER_RESTART },
        { .result = "exit-code", .code = "exited", .status = "203", .cause = CAUSE_NOT_STARTED },
        { .result = "exit-code", .code = "exited", .status = "127", .not_executed = true,
          .cause = CAUSE_NOT_STARTED, .why = "127" },
        { .result = "exit-code", .code = "exited", .status = "126", .not_executed = true,
          .cause = CAUSE_NOT_STARTED, .why = "126" },
        /* a shell's, after days */
        { .result = "exit-code", .code = "exited", .status = "127", .cause = CAUSE_EXIT_CODE, .why = "127" },
        /* the mode of a run's own file is not why it ended */
        { .result = "exit-code", .code = "exited", .status = "3", .not_executed = true,
          .cause = CAUSE_EXIT_CODE, .why = "3" },
        { .result = "resources", .code = "", .status = "", .cause = CAUSE_NOT_STARTED, .why = "resources" },
        { .result = "oom-kill", .code = "killed", .status = "KILL", .cause = CAUSE_OOM_KILL,
          .why = "killed 1 " },
        /* the kernel chose a worker, and the trainer gave up with a code of its own */
        /* a stop or a notice that raced with the kernel is not why */
        { .result = "oom-kill", .code = "killed", .status = "KILL", .stop_asked = true, .preempted = true,
          .cause = CAUSE_OOM_KILL, .why = "lack of memory" },
        { .result = "signal", .code = "killed", .status = "KILL", .oom_kills = 1, .stop_asked = true,
          .cause = CAUSE_OOM_KILL },
        /* but a worker that was killed long before, in a run that ended as it was asked to */
        { .result = "success", .code = "killed", .status = "TERM", .oom_kills = 1, .stop_asked = true,
          .cause = CAUSE_STOPPED },
        { .result = "timeout", .code = "killed", .status = "KILL", .oom_kills = 1, .stop_asked = true,
          .cause = CAUSE_TIMEOUT },
        { .result = "exit-code", .code = "exited", .status = "1", .oom_kills = 2, .cause = CAUSE_OOM_KILL,
          .why = "killed 2 " },
        { .result = "exit-code", .code = "exited", .status = "1", .preempted = true,
          .cause = CAUSE_PREEMPTED, .why = "no checkpoint" },
        { .result = "exit-code", .code = "exited", .status = "143", .preempted = true, .checkpoint = true,
          .cause = CAUSE_PREEMPTED,
          .why = "a checkpoint of step 41 since" },
        { .result = "success", .code = "killed", .status = "TERM", .preempted = true,
          .cause = CAUSE_PREEMPTED },
        { .result = "unknown", .cause = CAUSE_UNKNOWN },
        { .result = "unknown", .rebooted = true, .cause = CAUSE_HOST_DOWN },
        { .result = "exit-code", .code = "exited", .status = "1", .rebooted = true,
          .cause = CAUSE_EXIT_CODE },
        { .result = "unknown", .unkillable = 4711, .stop_asked = true, .cause = CAUSE_UNKILLABLE,
          .why = "4711" },
        { .result = "timeout", .code = "killed", .status = "ABRT", .cause = CAUSE_TIMEOUT },
        /* In a container: what its engine says in its own code. */
        { .result = "exit-code", .code = "exited", .status = "7", .container = true,
          .cause = CAUSE_EXIT_CODE, .why = "ended with 7" },
        { .result = "exit-code", .code = "exited", .status = "137", .container = true,
          .cause = CAUSE_SIGNAL, .why = "code 137: signal 9" },
        { .result = "exit-code", .code = "exited", .status = "139", .container = true,
          .cause = CAUSE_SIGNAL, .why = "signal 11" },
        { .result = "exit-code", .code = "exited", .status = "137", .container = true, .oom_kills = 1,
          .stop_asked = true, .cause = CAUSE_OOM_KILL },
        { .result = "exit-code", .code = "exited", .status = "143", .container = true, .stop_asked = true,
          .cause = CAUSE_STOPPED },
        { .result = "exit-code", .code = "exited", .status = "125", .container = true,
          .cause = CAUSE_UNKNOWN, .why = "could not make the container, or lost it" },
        { .result = "exit-code", .code = "exited", .status = "128", .container = true,
          .cause = CAUSE_EXIT_CODE },
        { .result = "exit-code", .code = "exited", .status = "255", .container = true,
          .cause = CAUSE_EXIT_CODE },
        { .result = "exit-code", .code = "exited", .status = "126", .container = true, .not_executed = true,
          .cause = CAUSE_NOT_STARTED },
        { .result = "exit-code", .code = "exited", .status = "93", .container = true,
          .cause = CAUSE_NEVER_RESTART },
        { .result = "exit-code", .code = "exited", .status = "137", .cause = CAUSE_EXIT_CODE },
        /* The lines of the users' own troubleshooting lists. */
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_PEER_LOST,
          .why = "another slice",
          .line = "(pid=, ip=10.68.9.5) W0421 04:19:07.570048   20579 grpc_transport.cc:1930] "
                  "GetMultiSliceTopology returned with "
                  "status: UNAVAILABLE: failed to connect to all addresses; last error: UNKNOWN: "
                  "ipv4:10.68.8.5:9915: connect "
                  "endpoint failed (Failed to connect to remote host: Connection refused)" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_PEER_LOST,
          .why = "could not connect",
          .line = "RuntimeError: UNKNOWN: TPU initialization failed: Failed to connect to 10.0.0.2" },
        { .result = "core-dump", .code = "dumped", .status = "ABRT", .cause = CAUSE_PEER_LOST,
          .why = "coordination",
          .line = "F0926 17:26:32.075587  157988 client.h:77] Terminating process because the JAX "
                  "distributed service detected "
                  "fatal errors. This most likely indicates that another task died" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_DEVICE_BUSY,
          .line = "I0000 tpu_initializer_helper.cc:94] libtpu.so already in use by another process. Run \"$ "
                  "sudo lsof -w "
                  "/dev/accel0\" to figure out which process is using the TPU. Not attempting to load "
                  "libtpu.so in this process." },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_DEVICE_BUSY,
          .line = "jaxlib.xla_extension.XlaRuntimeError: ABORTED: The TPU is already in use by process with "
                  "pid 2239507." },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_DEVICE_BUSY,
          .line = "open(/dev/vfio/0): Device or resource busy" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_DEVICE_LOST,
          .line = "Failed to open /dev/accel0: No such file or directory" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_CONFIGURATION,
          .line = "Invalid slice_builder_worker_addresses. Expected 4 worker addresses, got 1" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_HANG,
          .line = "Megascale detects a hang that is likely caused by bad TPU chips on the following hosts" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_PEER_LOST,
          .line = "RuntimeError: [./gloo/transport/tcp/pair.cc:589] Read error [10.10.0.13]:6574: "
                  "Connection reset by peer" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_PEER_LOST,
          .line = "RuntimeError: [./gloo/transport/tcp/pair.cc:598] Connection closed by peer "
                  "[10.10.0.12]:7867" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_EXIT_CODE,
          .line = "Connection closed by peer" },
        { .result = "exit-code", .code = "exited", .status = "1", .cause = CAUSE_EXIT_CODE,
          .line = "ValueError: no" },
        /* the kernel's word is stronger than a line of the log */
        { .result = "oom-kill", .code = "killed", .status = "KILL", .cause = CAUSE_OOM_KILL,
          .line = "Megascale detects a hang" },
};

static void test_table(void) {
        for (size_t i = 0; i < ELEMENTSOF(table); i++) {
                const struct row *t = &table[i];
                struct exit_record r = { .oom_kills = t->oom_kills, .not_executed = t->not_executed };
                struct end_evidence e = { .record = &r, .rebooted = t->rebooted, .stop_asked = t->stop_asked,
                                      .container = t->container, .preempted = t->preempted,
                                      .checkpoint = t->checkpoint,
                                      .checkpoint_step = 41, .unkillable = t->unkillable,
                                      .log = t->line ? log_sign_find(t->line, strlen(t->line)) : -1 };
                struct cause_found f;

                (void) snprintf(r.result, sizeof(r.result), "%s", t->result);
                (void) snprintf(r.code, sizeof(r.code), "%s", t->code ? t->code : "");
                (void) snprintf(r.status, sizeof(r.status), "%s", t->status ? t->status : "");
                cause_of(&e, &f);
                if (f.cause != t->cause || !f.why[0] || (t->why && !strstr(f.why, t->why)))
                        test_fail(__FILE__, __LINE__, "row %zu: %s (%s), not %s (%s)", i,
                                  cause_name(f.cause), f.why,
                                  cause_name(t->cause), t->why ? t->why : "");
        }
}

static void test_names(void) {
        enum cause c;

        for (enum cause i = CAUSE_SUCCESS; i < _CAUSE_MAX; i++) {
                ASSERT_OK(cause_parse(cause_name(i), &c));
                ASSERT_EQ(c, i);
        }
        ASSERT_EQ(cause_parse("", &c), -EINVAL);
        for (int i = 0; log_sign(i); i++)
                ASSERT_TRUE(log_sign(i)->why[0] && log_sign(i)->remedy[0] && log_sign(i)->words[0]);
        ASSERT_TRUE(!log_sign(-1) && !log_sign(1000));
}

static bool feed(struct tail_result *t, const char *line) {
        return tail_line(t, line, strlen(line));
}

/* Lines come last first. What was said before a step went well is not why the run ended. */
static void test_tail(void) {
        static const char step[] = "completed step: 41, seconds: 0.693, loss: 0.334";
        struct tail_result t;

        tail_init(&t);
        ASSERT_TRUE(feed(&t, "Megascale detects a hang"));
        ASSERT_TRUE(feed(&t, ""));
        ASSERT_FALSE(feed(&t, step));
        ASSERT_EQ(t.last_step, 41);
        ASSERT_EQ(log_sign(t.sign)->cause, CAUSE_HANG);
        tail_init(&t);
        ASSERT_FALSE(feed(&t, step));
        ASSERT_TRUE(t.step_known && t.sign == -1);
        /* of two the one that explains the other */
        tail_init(&t);
        ASSERT_TRUE(feed(&t, "TPU initialization failed: Failed to connect"));
        ASSERT_TRUE(feed(&t, "The TPU is already in use by process with pid 1"));
        ASSERT_EQ(log_sign(t.sign)->cause, CAUSE_DEVICE_BUSY);
        /* the last of several */
        tail_init(&t);
        ASSERT_TRUE(tail_checkpoint(&t, step, strlen(step)) && !t.checkpoint);
        ASSERT_FALSE(tail_checkpoint(&t, "saved a checkpoint at step 41", 29));
        ASSERT_TRUE(t.checkpoint && t.checkpoint_step == 41);
}

/* Whom a line names: fed behind each other, the last one first. */
static const char *lost(struct tail_result *t, const char *first, const char *then) {
        tail_init(t);
        ASSERT_TRUE(feed(t, first));
        ASSERT_TRUE(!then || feed(t, then));
        return t->lost_peer;
}

static void test_lost_peer(void) {
        static const char gloo[] = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] ",
                          jax[] = "Terminating process because the JAX distributed service detected fatal";
        struct tail_result t;
        char line[256];

        static const struct {
                const char *behind, *names;
        } lines[] = {
                { "Connection closed by peer [10.10.0.13]:41022", "10.10.0.13" },
                { "Connection closed by peer [::ffff:10.10.0.13]:41022", "10.10.0.13" },
                { "Connection closed by peer [fd20::7]:41022", "fd20::7" },
                { "c10d::Work 1.2.3 at [10.0.0.1]: Connection reset by peer 10.0.0.2:80.", "10.0.0.2" },
                { "Connection reset by peer [127.0.0.1]:80", "" },
                { "Connection reset by peer [::1]:80", "" },
                { "Connection reset by peer [::ffff:127.0.0.1]:80", "" },
                { "Connection reset by peer", "" },
                { "Connection reset by peer ipv4:10.0.0.2:8476", "10.0.0.2" },
                { "Connection reset by peer 10.0.0.2.", "10.0.0.2" },
                { "Connection reset by peer 10.0.0.256 [] [[ [10.0.0.1", "10.0.0.1" },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                (void) snprintf(line, sizeof(line), "%s%s", gloo, lines[i].behind);
                ASSERT_STREQ(lost(&t, line, NULL), lines[i].names);
        }
        /* the task stands below; that it once connected is nothing lost */
        ASSERT_STREQ(lost(&t, "/job:jax_worker/replica:0/task:3", jax), "task 3");
        ASSERT_STREQ(lost(&t, "/job:jax_worker/replica:0/task:3 has connected", jax), "");
        ASSERT_STREQ(lost(&t, "/job:jax_worker/replica:0/task:x", jax), "");
        ASSERT_STREQ(lost(&t, "/job:jax_worker/replica:0/task:12345678", jax), "");
        ASSERT_STREQ(lost(&t, "/task:3", jax), "");
        /* the earliest loss began it */
        ASSERT_STREQ(lost(&t, "gloo/transport/tcp/pair.cc:1 Connection closed by peer [10.0.0.3]:1",
                          "gloo/transport/tcp/pair.cc:1 Connection closed by peer [10.0.0.2]:1"),
                     "10.0.0.2");
        /* an address in a line that is no sign is no loss */
        ASSERT_STREQ(lost(&t, "listening at [10.0.0.2]:80", NULL), "");
}

static struct restart_decision decide(struct restarts *r, uint32_t max, enum cause c, bool step, uint64_t n,
                                      usec_t lived) {
        struct exit_record end = { .step_known = step, .last_step = n };
        struct restart_decision d;

        restart_decide(r, max, &end, c, lived, &d);
        *r = d.next;
        return d;
}

static void test_restarts(void) {
        struct restarts r = { .done = 0 };
        struct restart_decision d;

        d = decide(&r, 5, CAUSE_EXIT_CODE, true, 10, USEC_PER_SEC);
        ASSERT_TRUE(d.again);
        ASSERT_EQ(d.pause, RESTART_FIRST);
        ASSERT_STREQ(d.words, "restart 1 of 5 follows");
        /* no new step: longer pauses, and then no more */
        d = decide(&r, 5, CAUSE_EXIT_CODE, true, 10, USEC_PER_SEC);
        ASSERT_TRUE(d.again);
        ASSERT_EQ(d.pause, 2 * RESTART_FIRST);
        d = decide(&r, 5, CAUSE_EXIT_CODE, true, 11, USEC_PER_SEC); /* one that made progress counts anew */
        ASSERT_EQ(d.pause, RESTART_FIRST);
        ASSERT_TRUE(decide(&r, 9, CAUSE_EXIT_CODE, false, 0, USEC_PER_SEC).again);
        ASSERT_TRUE(decide(&r, 9, CAUSE_EXIT_CODE, true, 11, 2 * RESTART_LIVED).again);
        d = decide(&r, 9, CAUSE_EXIT_CODE, true, 5, USEC_PER_SEC);
        ASSERT_FALSE(d.again);
        ASSERT_TRUE(strstr(d.words, "no progress") != NULL);
        /* one that reports no steps makes progress by lasting */
        r = (struct restarts){ .done = 0 };
        for (int i = 0; i < 10; i++)
                ASSERT_TRUE(decide(&r, 10, CAUSE_SIGNAL, false, 0, RESTART_LIVED).again);
        d = decide(&r, 10, CAUSE_SIGNAL, false, 0, RESTART_LIVED);
        ASSERT_FALSE(d.again);
        ASSERT_TRUE(strstr(d.words, "10 restarts") != NULL);
        /* no policy, or no use */
        r = (struct restarts){ .done = 0 };
        ASSERT_FALSE(decide(&r, 0, CAUSE_EXIT_CODE, true, 1, 1).again);
        ASSERT_FALSE(decide(&r, 5, CAUSE_NEVER_RESTART, true, 2, 1).again);
        ASSERT_FALSE(decide(&r, 5, CAUSE_SUCCESS, true, 3, 1).again);
        ASSERT_FALSE(decide(&r, 5, CAUSE_STOPPED, true, 4, 1).again);
}

static void test_pause_is_bounded(void) {
        struct restarts r = { .idle = UINT32_MAX - 1 };
        struct exit_record end = { .step_known = false };
        struct restart_decision d;

        restart_decide(&r, 5, &end, CAUSE_SIGNAL, 0, &d);
        ASSERT_FALSE(d.again);
        ASSERT_TRUE(d.pause <= RESTART_PAUSE_MAX);
}

TEST_MAIN(test_table, test_names, test_tail, test_lost_peer, test_restarts, test_pause_is_bounded)
