/* SPDX-License-Identifier: Apache-2.0 */
/* Every row of the stall matrix as a scripted slice: who is named, and in which words. */
#include "diagnose-scene.h"
#include "ranks.h"

struct row {
        const char *name;
        struct scripted first, second; /* the odd host in both captures */
        const char *says;              /* part of the sentence */
        const char *detail;            /* part of the details */
};

static const struct row rows[] = {
        { "a read in the data loader that blocks",
          { NEXT_BATCH, 'S', "pipe_read" },
          { NEXT_BATCH, 'S', "pipe_read" },
          "its main thread is in `read` under `dataset.py:88 next_batch`",
          "stuck" },
        { "a stopped rank",
          { ALL_REDUCE, 'T', NULL },
          { ALL_REDUCE, 'T', NULL },
          "is stopped (state T)",
          "" },
        { "a rank under a debugger",
          { ALL_REDUCE, 't', NULL },
          { ALL_REDUCE, 't', NULL },
          "is stopped (state T)",
          "" },
        { "a deadlock in a lock",
          { MAIN_STEP " | cache.py:12 put", 'S', "futex_wait_queue" },
          { MAIN_STEP " | cache.py:12 put", 'S', "futex_wait_queue" },
          "waits for a lock under `cache.py:12 put`",
          "stuck" },
        { "a loop in Python",
          { MAIN_STEP " | train.py:33 spin", 'R', NULL },
          { MAIN_STEP " | train.py:35 spin", 'R', NULL },
          "runs in `train.py:35 spin`",
          "looping" },
        { "a loop in native code",
          { MAIN_STEP " | train.py:40 native | !libspin.so spin_forever", 'R', NULL },
          { MAIN_STEP " | train.py:40 native | !libspin.so spin_forever", 'R', NULL },
          "runs in `spin_forever` under `train.py:40 native`",
          "one long call" },
        { "a long pause of the garbage collector",
          { MAIN_STEP " | train.py:52 tidy", 'R', NULL },
          { MAIN_STEP " | train.py:52 tidy", 'R', NULL },
          "runs in `train.py:52 tidy`",
          "one long call" },
        { "a read of a file system that hangs",
          { NEXT_BATCH, 'D', "rpc_wait_bit_killable" },
          { NEXT_BATCH, 'D', "rpc_wait_bit_killable" },
          "waits uninterruptibly in `an NFS server` under `dataset.py:88",
          "stuck" },
        { "a queue that stays empty",
          { NEXT_BATCH " | /usr/lib/python3.11/queue.py:171 Queue.get | "
                       "/usr/lib/python3.11/threading.py:320 Condition.wait",
            'S', "futex_wait" },
          { NEXT_BATCH " | /usr/lib/python3.11/queue.py:171 Queue.get | "
                       "/usr/lib/python3.11/threading.py:320 Condition.wait",
            'S', "futex_wait" },
          "waits for a queue under `dataset.py:88 next_batch`",
          "stuck" },
        { "a sleep",
          { MAIN_STEP " | train.py:61 backoff", 'S', "hrtimer_nanosleep" },
          { MAIN_STEP " | train.py:61 backoff", 'S', "hrtimer_nanosleep" },
          "sleeps under `train.py:61 backoff`",
          "stuck" },
        { "another collective",
          { BARRIER, 'S', "futex_wait" },
          { BARRIER, 'S', "futex_wait" },
          "waits in barrier under `train.py:99 save`",
          "stuck" },
};

static void check_row(const struct row *row, uint32_t n, uint32_t odd) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;
        char host[64], count[96];

        scene_slice(&scene, n, odd, row->first, row->second);
        d = scene_diagnose(&scene, n, RUN_UNKNOWN);
        (void) snprintf(host, sizeof(host), "slice 1, worker %u (10.10.0.%u) holds the run up: ", odd,
                        10 + odd);
        (void) snprintf(count, sizeof(count),
                        n == 2 ? ", the other one waits in all-reduce"
                               : ", the %u others wait in all-reduce",
                        n - 1);
        if (d->outcome != OUTCOME_NAMED || d->suspects[0].host != odd || !startswith(d->summary, host) ||
            !strstr(d->summary, row->says) || !strstr(d->summary, count) ||
            !strstr(d->suspects[0].details, row->detail) || d->n_odd != 1)
                test_fail(__FILE__, __LINE__, "%s, %u hosts, worker %u: %s: %s\n%s", row->name, n, odd,
                          outcome_name(d->outcome), d->summary, d->n_suspects ? d->suspects[0].details : "");
        if (d->n_suspects > 1)
                ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
        (void) diagnosis_free(d);
}

static void test_matrix(void) {
        for (size_t i = 0; i < ELEMENTSOF(rows); i++)
                for (uint32_t n = 4; n <= 64; n *= 2)
                        for (uint32_t odd = 0; odd < n; odd += 1 + n / 5)
                                check_row(&rows[i], n, odd);
}

/* The sentence that the design promises, word for word. */
static void test_sentence(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        const struct scripted reads = { NEXT_BATCH, 'S', "pipe_read" };
        struct diagnosis *d;

        scene_slice(&scene, 64, 5, reads, reads);
        d = scene_diagnose(&scene, 64, RUN_STALLED);
        ASSERT_STREQ(d->summary,
                     "slice 1, worker 5 (10.10.0.15) holds the run up: its main thread is in `read` under "
                     "`dataset.py:88 next_batch`, the 63 others wait in all-reduce");
        ASSERT_TRUE(d->suspects[0].score > 0.85);
        (void) diagnosis_free(d);
}

/* --- Several collectives ------------------------------------------------------------------------------- */

#define DDP_FORWARD                                                                                        \
        MAIN_STEP " | /usr/lib/python3/dist-packages/torch/nn/modules/module.py:1194 Module._call_impl | " \
                  "/usr/lib/python3/dist-packages/torch/nn/parallel/distributed.py:1026 "                  \
                  "DistributedDataParallel.forward"
#define LINEAR " | /usr/lib/python3/dist-packages/torch/nn/modules/linear.py:114 Linear.forward"

/* The sentence about four hosts in two captures, and how many are odd. */
static void check_four(const struct scripted at[static 4], size_t odd, const char *says) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < 4; i++)
                        scene_rank(&scene, i, round, at[i]);
        d = scene_diagnose(&scene, 4, RUN_STALLED);
        if (!strstr(d->summary, says) || d->n_odd != odd)
                test_fail(__FILE__, __LINE__, "%zu odd: %s, not: %s", d->n_odd, d->summary, says);
        (void) diagnosis_free(d);
}

static void test_several_collectives(void) {
        static const struct scripted broadcast = { DDP_FORWARD, 'S', "futex_wait_queue" },
                                     native = { DDP_FORWARD " | !libtorch_cpu.so c10d::Work::wait", 'S',
                                                "futex_wait_queue" },
                                     stopped = { NEXT_BATCH, 'T', NULL },
                                     barrier = { BARRIER, 'S', "futex_wait_queue" },
                                     reads = { NEXT_BATCH, 'S', "pipe_read" };

        check_four((struct scripted[]){ broadcast, native, WAITING, stopped }, 1,
                   "worker 3 (10.10.0.13) holds the run up: its process 4703 is stopped (state T) under "
                   "`dataset.py:88 next_batch`, the 3 others wait in DDP's broadcast (2) and all-reduce "
                   "(1)");
        check_four((struct scripted[]){ broadcast, barrier, WAITING, reads }, 1,
                   "worker 3 (10.10.0.13) holds the run up: its main thread is in `read` under "
                   "`dataset.py:88 next_batch`, the 3 others wait in DDP's broadcast (1), barrier (1) and "
                   "all-reduce (1)");
        /* done with the broadcast, in which the others still are: it is ahead */
        check_four((struct scripted[]){ broadcast, broadcast, WAITING, broadcast }, 0,
                   "all 4 ranks wait for the others (DDP's broadcast");
        check_four((struct scripted[]){ WAITING, WAITING, barrier, WAITING }, 1,
                   "worker 2 (10.10.0.12) holds the run up: its main thread waits in barrier");
}

/* The module that DistributedDataParallel wraps is behind the same frame: what it does there is its own. */
static void test_wrapped_module(void) {
        /* asleep like the others, under one line of its own: only names could tell these apart */
        check_four(
                (struct scripted[]){ WAITING, WAITING, { DDP_FORWARD LINEAR, 'S', "futex_wait" }, WAITING },
                0, "all 4 ranks wait for the others (all-reduce)");
        check_four((struct scripted[]){ WAITING,
                                        WAITING,
                                        { DDP_FORWARD " | model.py:7 forward", 'S', "pipe_read" },
                                        WAITING },
                   1,
                   "its main thread is in `read` under `model.py:7 forward`, the 3 others wait in "
                   "all-reduce");
        check_four((struct scripted[]){ WAITING, WAITING, { DDP_FORWARD, 'R', NULL }, WAITING }, 1,
                   "its main thread runs in `train.py:80 step`, the 3 others wait in all-reduce");
}

/* A stopped process explains why others wait, whatever for: nobody else is named beside it. */
static void test_stopped_explains(void) {
        static const struct scripted lock = { MAIN_STEP, 'S', "futex_wait_queue" },
                                     stopped = { MAIN_STEP, 'T', NULL };

        check_four((struct scripted[]){ lock, lock, WAITING, stopped }, 1,
                   "worker 3 (10.10.0.13) holds the run up: its process 4703 is stopped (state T) under "
                   "`train.py:80 step`, the 3 others wait in all-reduce (1) and elsewhere (2)");
}

/* --- No stall ------------------------------------------------------------------------------------------ */

static void expect(const struct scene *scene, enum stall_state run, enum outcome outcome, const char *says) {
        struct diagnosis *d = scene_diagnose(scene, 4, run);

        if (d->outcome != outcome || !strstr(d->summary, says))
                test_fail(__FILE__, __LINE__, "%s: %s", outcome_name(d->outcome), d->summary);
        (void) diagnosis_free(d);
}

static void test_stopped(void) {
        _cleanup_scene_ struct scene one = SCENE_NULL, all = SCENE_NULL;
        const struct scripted stopped = { ALL_REDUCE, 'T', NULL };

        scene_slice(&one, 4, 2, stopped, stopped);
        expect(&one, RUN_GOES_ON, OUTCOME_GOES_ON, "no stall, although 1 of 4 processes is stopped");
        for (uint32_t i = 0; i < 4; i++)
                scene_rank(&all, i, 0, stopped);
        expect(&all, RUN_STALLED, OUTCOME_NOBODY, "somebody stopped the run");
}

static void test_goes_on(void) {
        _cleanup_scene_ struct scene moves = SCENE_NULL, steps = SCENE_NULL, alike = SCENE_NULL,
                                     nothing = SCENE_NULL;

        for (uint32_t i = 0; i < 4; i++) {
                scene_rank(&moves, i, 0, WAITING);
                scene_rank(&moves, i, 1, (struct scripted){ MAIN_STEP " | model.py:9 forward", 'R', NULL });
        }
        expect(&moves, RUN_UNKNOWN, OUTCOME_GOES_ON, "no stall");
        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < 4; i++) {
                        struct host_capture c;

                        scene_host(&c, i, round);
                        c.step = 100 + 3 * round;
                        scene_process(&c, &steps.table,
                                      i == 1 ? (struct scripted){ NEXT_BATCH, 'R', NULL } : WAITING);
                        ASSERT_OK(scene_add(&steps, &c));
                }
        expect(&steps, RUN_UNKNOWN, OUTCOME_GOES_ON, "no stall");
        expect(&steps, RUN_STALLED, OUTCOME_NAMED, "worker 1");
        scene_slice(&alike, 4, UINT32_MAX, WAITING, WAITING);
        expect(&alike, RUN_UNKNOWN, OUTCOME_NOBODY, "all 4 ranks wait for the others (all-reduce)");
        expect(&nothing, RUN_UNKNOWN, OUTCOME_NO_EVIDENCE, "no host answered");
}

/* --- Which thread, which process ----------------------------------------------------------------------- */

/* The main thread only waits for the thread that makes the steps. */
static void test_step_thread(void) {
        static const struct scripted
                joins = { "run.py:7 main | /usr/lib/python3.11/threading.py:1119 Thread.join", 'S',
                          "futex_wait" },
                idle = { "log.py:3 flush | /usr/lib/python3.11/queue.py:171 Queue.get | "
                         "/usr/lib/python3.11/threading.py:320 Condition.wait",
                         'S', "futex_wait" };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 8; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                scene_process(&c, &scene.table, joins);
                scene_thread(&c, &scene.table, 9001, "logger", idle);
                scene_thread(&c, &scene.table, 9002, "trainer",
                             i == 6 ? (struct scripted){ NEXT_BATCH, 'S', "pipe_read" } : WAITING);
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
        ASSERT_STREQ(d->evidence.thread_name, "trainer");
        ASSERT_EQ(d->suspects[0].host, 6);
        ASSERT_TRUE(strstr(
                d->summary,
                "its thread \"trainer\" is in `read` under `dataset.py:88 next_batch`, the 7 others wait"));
        (void) diagnosis_free(d);
}

/* The main thread waits for a queue; who should fill it reads, and nobody else's does. */
static void test_behind(void) {
        static const struct scripted gets = { NEXT_BATCH
                                              " | /usr/lib/python3.11/queue.py:171 Queue.get | "
                                              "/usr/lib/python3.11/threading.py:320 Condition.wait",
                                              'S', "futex_wait" },
                                     puts = { "loader.py:5 run | /usr/lib/python3.11/queue.py:140 Queue.put",
                                              'S', "futex_wait" },
                                     reads = { "loader.py:5 run | loader.py:9 fetch", 'S', "pipe_read" };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 8; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                scene_process(&c, &scene.table, i == 3 ? gets : WAITING);
                scene_thread(&c, &scene.table, 9001, "log",
                             (struct scripted){ "log.py:3 flush", 'S', "pipe_read" });
                scene_thread(&c, &scene.table, 9002, "loader", i == 3 ? reads : puts);
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 3);
        ASSERT_TRUE(strstr(d->summary,
                           "its main thread waits for a queue under `dataset.py:88 next_batch`; its "
                           "thread \"loader\" is in `read` under `loader.py:9 fetch`, as on no "
                           "other host, the 7 others wait in all-reduce"));
        (void) diagnosis_free(d);
}

/* A data loader's worker that waits for work is no rank, nor is a launcher. */
static void test_helpers(void) {
        static const struct scripted worker = {
                "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py:275 _worker_loop", 'S',
                "do_poll"
        };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 4; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                scene_process(&c, &scene.table, worker);
                c.processes[0].pid = 99;
                c.processes[0].parent = 4700 + i;
                scene_process(&c, &scene.table,
                              i == 0 ? (struct scripted){ NEXT_BATCH, 'S', "pipe_read" } : WAITING);
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 4, RUN_UNKNOWN);
        ASSERT_EQ(d->evidence.n_ranks, 4);
        ASSERT_EQ(d->suspects[0].host, 0);
        ASSERT_EQ(d->n_odd, 1);
        (void) diagnosis_free(d);
}

/* What changed while read is no evidence of a place, but that it runs is. */
static void test_changed(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 4; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                scene_process(&c, &scene.table,
                              i == 2 ? (struct scripted){ NEXT_BATCH, 'R', NULL } : WAITING);
                c.threads[0].changed = i == 2;
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 4, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 2);
        ASSERT_FALSE(strstr(d->summary, "next_batch"));
        ASSERT_TRUE(strstr(d->summary, "runs (its frames changed while they were read)"));
        (void) diagnosis_free(d);
}

/* --- Devices ------------------------------------------------------------------------------------------- */

struct device_row {
        int64_t pc, launch;
        const char *program, *error, *says;
};

static void test_devices(void) {
        static const struct device_row odd[] = {
                { 4711, 12, "aa", "", "(program counter 4711), 31 of 32 cores" },
                { 500, 11, "aa", "", "is at launch 11, most others are at 12" },
                { 500, 12, "bb", "", "has program bb, most others have aa" },
                { 500, 12, "aa", "HBM ECC", "reports \"HBM ECC\"" },
        };

        for (size_t k = 0; k < ELEMENTSOF(odd); k++) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                for (uint32_t i = 0; i < 32; i++) {
                        struct device_row row = i == 9 ? odd[k]
                                                       : (struct device_row){ 500, 12, "aa", "", NULL };
                        struct captured_core *core;
                        struct host_capture c;

                        scene_host(&c, i % 8, 0);
                        c.worker = i; /* one core a host */
                        scene_process(&c, &scene.table, WAITING);
                        ASSERT_OK(host_capture_add_core(&c, &core));
                        *core = (struct captured_core){ .core = i, .pc = row.pc, .launch = row.launch };
                        core->fingerprint = scene_string(&scene.table, row.program);
                        core->error = scene_string(&scene.table, row.error);
                        ASSERT_OK(scene_add(&scene, &c));
                }
                d = scene_diagnose(&scene, 32, RUN_UNKNOWN);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, 9);
                ASSERT_EQ(d->n_suspects, 1);
                if (!strstr(d->summary, odd[k].says))
                        test_fail(__FILE__, __LINE__, "%s", d->summary);
                (void) diagnosis_free(d);
        }
}

/* Rank 0 alone saves, and nothing announced it: the others wait for it as for one that is stuck. */
static void test_saves(void) {
        static const struct {
                struct scripted a, b;
                bool moved, saves;
        } cases[] = {
                { { MAIN_STEP " | train.py:70 keep | "
                              "/usr/lib/python3/dist-packages/torch/serialization.py:440 save | "
                              "/usr/lib/python3/dist-packages/torch/serialization.py:660 _save",
                    'R', NULL },
                  { MAIN_STEP " | train.py:70 keep | "
                              "/usr/lib/python3/dist-packages/torch/serialization.py:440 save | "
                              "/usr/lib/python3/dist-packages/torch/serialization.py:668 _save",
                    'R', NULL },
                  true,
                  true },
                { { MAIN_STEP " | train.py:99 save_shards", 'D', "folio_wait_bit" },
                  { MAIN_STEP " | train.py:104 save_shards", 'R', NULL },
                  true,
                  true },
                /* it hangs in the save */
                { { MAIN_STEP " | train.py:99 save_shards", 'D', "rpc_wait_bit_killable" },
                  { MAIN_STEP " | train.py:99 save_shards", 'D', "rpc_wait_bit_killable" },
                  false,
                  true },
                /* a loop that writes nothing */
                { { MAIN_STEP " | train.py:50 settle", 'R', NULL },
                  { MAIN_STEP " | train.py:53 settle", 'R', NULL },
                  true,
                  false },
                { { NEXT_BATCH, 'S', "pipe_read" }, { NEXT_BATCH, 'S', "pipe_read" }, false, false },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                scene_slice(&scene, 4, 0, cases[i].a, cases[i].b);
                d = scene_diagnose(&scene, 4, RUN_STALLED);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, 0);
                ASSERT_EQ(d->suspects[0].moved, cases[i].moved);
                ASSERT_EQ(d->suspects[0].saves, cases[i].saves);
                ASSERT_EQ(strstr(d->suspects[0].details, "it writes, and gets on") != NULL,
                          cases[i].moved && cases[i].saves);
                (void) diagnosis_free(d);
        }
}

static void test_names_that_save(void) {
        static const char *const yes[] = { "save",    "_save",       "Checkpoints.save", "save_all",
                                           "saveAll", "write_shard", "flushAndSave",     "json_dump" },
                                 *const no[] = { "",           "saver_of_time", "forward", "resave",
                                                 "checkpoint", "dumpling",      "rewrite" };

        for (size_t i = 0; i < ELEMENTSOF(yes); i++)
                ASSERT_TRUE(function_saves(yes[i]));
        for (size_t i = 0; i < ELEMENTSOF(no); i++)
                ASSERT_FALSE(function_saves(no[i]));
}

TEST_MAIN(test_saves, test_names_that_save, test_matrix, test_sentence, test_several_collectives,
          test_wrapped_module, test_stopped_explains, test_stopped, test_goes_on, test_step_thread,
          test_behind, test_helpers, test_changed, test_devices)
