/* SPDX-License-Identifier: Apache-2.0 */
/* What no stack shows: networks that are cut, hosts that say nothing, ranks that have left. */
#include "diagnose-scene.h"

static void finding(struct host_capture *c, struct stack_table *t, const char *check, const char *subject,
                    bool fail) {
        struct captured_finding *f;

        ASSERT_OK(host_capture_add_finding(c, &f));
        f->check = scene_string(t, check);
        f->subject = scene_string(t, subject);
        f->found = scene_string(t, "no carrier");
        f->fail = fail;
}

/* A NIC that was cut: everybody waits, one host's check fails. What fails everywhere says nothing. */
static void test_nic_cut(void) {
        for (uint32_t cut = 0; cut < 8; cut += 7) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                for (uint32_t i = 0; i < 8; i++) {
                        struct host_capture c;

                        scene_host(&c, i, 0);
                        scene_process(&c, &scene.table, WAITING);
                        finding(&c, &scene.table, "nic.mtu", "eth0", true);
                        if (i == cut)
                                finding(&c, &scene.table, "nic.carrier", "eth1", true);
                        ASSERT_OK(scene_add(&scene, &c, NULL));
                }
                d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, cut);
                ASSERT_EQ(d->n_suspects, 1);
                ASSERT_TRUE(strstr(d->summary, "its check nic.carrier of eth1 fails: no carrier"));
                (void) diagnosis_free(d);
        }
}

static void unanswered(struct host_capture *c, struct stack_table *t, const char *local, const char *peer) {
        struct captured_finding *f;
        char text[128];

        (void) snprintf(text, sizeof(text), "from %s, nothing for 12 s", local);
        ASSERT_OK(host_capture_add_finding(c, &f));
        f->check = scene_string(t, "path.answer");
        f->subject = scene_string(t, peer);
        f->found = scene_string(t, text);
}

/* Hosts in a ring over their second NIC, of which one is cut off: the host before it sends to it in vain,
 * and it sends to the one behind it in vain. Of two nobody can tell. */
static void test_ring_cut(void) {
        for (uint32_t n = 2; n <= 16; n *= 2)
                for (uint32_t cut = 0; cut < n; cut += 1 + n / 3) {
                        _cleanup_scene_ struct scene scene = SCENE_NULL;
                        struct diagnosis *d;
                        char says[64];

                        for (uint32_t i = 0; i < n; i++) {
                                struct host_capture c;
                                char own[32], next[32];

                                scene_host(&c, i, 0);
                                scene_process(&c, &scene.table, WAITING);
                                (void) snprintf(own, sizeof(own), "10.10.1.%u", 10 + i);
                                (void) snprintf(next, sizeof(next), "10.10.1.%u", 10 + (i + 1) % n);
                                if (i == cut || (i + 1) % n == cut)
                                        unanswered(&c, &scene.table, own, next);
                                unanswered(&c, &scene.table, own, "169.254.169.254"); /* everyone misses it */
                                ASSERT_OK(scene_add(&scene, &c, NULL));
                        }
                        d = scene_diagnose(&scene, n, RUN_UNKNOWN);
                        (void) snprintf(says, sizeof(says),
                                        "packets between its address 10.10.1.%u and 3 others", 10 + cut);
                        ASSERT_EQ(d->outcome, n == 2 ? OUTCOME_NOBODY : OUTCOME_NAMED);
                        if (n > 2) {
                                ASSERT_EQ(d->suspects[0].host, cut);
                                ASSERT_EQ(d->suspects[0].reason, REASON_PATH);
                                ASSERT_TRUE(strstr(d->summary, says));
                                ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
                        }
                        (void) diagnosis_free(d);
                }
}

/* The NIC that its agent uses, too, is cut: it is silent, and what the others miss is its address. */
static void test_cut_and_silent(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 4; i++) {
                struct host_capture c;
                char own[32];

                scene_host(&c, i, 0);
                (void) snprintf(own, sizeof(own), "10.10.0.%u", 10 + i);
                c.silent = i == 2;
                if (!c.silent) {
                        scene_process(&c, &scene.table, WAITING);
                        unanswered(&c, &scene.table, own, "10.10.0.12");
                }
                ASSERT_OK(scene_add(&scene, &c, NULL));
        }
        d = scene_diagnose(&scene, 4, RUN_STALLED);
        ASSERT_EQ(d->suspects[0].host, 2);
        ASSERT_TRUE(strstr(d->summary, ", the 3 others wait in all-reduce"));
        ASSERT_EQ(d->n_odd, 1);
        (void) diagnosis_free(d);
}

/* Connections without an answer say nothing against a rank that is seen not to wait, and nothing for a
 * machine that is no host of the slice. */
static void test_path_is_not_all(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 8; i++) {
                struct host_capture c;
                char own[32];

                scene_host(&c, i, 0);
                scene_process(&c, &scene.table,
                              i == 5 ? (struct scripted) { NEXT_BATCH, 'S', "pipe_read" } : WAITING);
                (void) snprintf(own, sizeof(own), "10.10.0.%u", 10 + i);
                unanswered(&c, &scene.table, own, "10.10.0.200");
                if (i == 2)
                        unanswered(&c, &scene.table, own, "10.10.0.201");
                ASSERT_OK(scene_add(&scene, &c, NULL));
        }
        d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 5);
        ASSERT_EQ(d->suspects[0].reason, REASON_PLACE);
        ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
        ASSERT_EQ(d->n_odd, 1);
        (void) diagnosis_free(d);
}

/* All compile, or all evaluate: at places that differ, and some do not move. Nobody waits, so nobody is to
 * blame; but when most stand still, the one that does not is odd. */
static void test_works(void) {
        const struct scripted working[] = { { MAIN_STEP " | train.py:50 compile", 'R', NULL },
                                            { MAIN_STEP " | train.py:51 compile", 'S', "hrtimer_nanosleep" },
                                            { MAIN_STEP " | train.py:70 evaluate | dataset.py:88 next_batch",
                                              'S', "hrtimer_nanosleep" },
                                            { MAIN_STEP " | train.py:72 evaluate", 'R', NULL } },
                              stands = { MAIN_STEP " | train.py:33 fetch", 'S', "pipe_read" };

        for (uint32_t n = 4; n <= 16; n *= 2)
                for (size_t odd = 0; odd < ELEMENTSOF(working); odd++) {
                        _cleanup_scene_ struct scene all = SCENE_NULL, most = SCENE_NULL;
                        struct diagnosis *d;

                        for (uint32_t i = 0; i < n; i++)
                                for (uint32_t round = 0; round < 2; round++) {
                                        scene_rank(&all, i, round, working[i == 1 ? odd : 1]);
                                        scene_rank(&most, i, round, i == 1 ? working[odd] : stands);
                                }
                        d = scene_diagnose(&all, n, RUN_STALLED);
                        ASSERT_EQ(d->outcome, OUTCOME_WORKS);
                        ASSERT_TRUE(strstr(d->summary, "nobody waits for another"));
                        (void) diagnosis_free(d);
                        d = scene_diagnose(&most, n, RUN_STALLED);
                        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                        ASSERT_EQ(d->suspects[0].host, 1);
                        (void) diagnosis_free(d);
                }
}

/* Its agent's own NIC was cut: no answer, and the others wait for it. */
static void test_silent(void) {
        for (uint32_t n = 4; n <= 64; n *= 4) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                for (uint32_t i = 0; i < n; i++)
                        if (i != n - 1)
                                scene_rank(&scene, i, 0, WAITING);
                d = scene_diagnose(&scene, n, RUN_UNKNOWN);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, n - 1);
                ASSERT_EQ(d->suspects[0].reason, REASON_SILENT);
                ASSERT_EQ(d->evidence.n_silent, 1);
                ASSERT_TRUE(strstr(d->summary, "did not answer, the"));
                (void) diagnosis_free(d);
        }
}

/* One is silent, but another one is seen to be at fault. */
static void test_silent_is_not_all(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 15; i++)
                scene_rank(&scene, i, 0,
                           i == 3 ? (struct scripted){ NEXT_BATCH, 'S', "pipe_read" } : WAITING);
        d = scene_diagnose(&scene, 16, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 3);
        ASSERT_EQ(d->suspects[1].host, 15);
        ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
        ASSERT_TRUE(strstr(d->summary, "of 16 are different; its main thread is in `read`"));
        (void) diagnosis_free(d);
}

static void leave(struct scene *scene, uint32_t worker, usec_t when, const char *how) {
        struct host_capture c;

        scene_host(&c, worker, 0);
        c.ended = when;
        c.ended_how = scene_string(&scene->table, how);
        ASSERT_OK(scene_add(scene, &c, NULL));
}

/* A rank that leaves silently; the others fail at once: who was first? */
static void test_left_first(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 16; i++)
                leave(&scene, i, (i == 11 ? 900 : 903 + i) * USEC_PER_SEC,
                      i == 11 ? "exit code 0" : "exit code 1");
        d = scene_diagnose(&scene, 16, RUN_STALLED);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 11);
        ASSERT_TRUE(strstr(d->summary,
                           "its process has left the run (exit code 0) first, 3.0 s before the next"));
        ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
        (void) diagnosis_free(d);
}

/* It left while the others still wait. */
static void test_left_alone(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 3; i++)
                scene_rank(&scene, i, 0, WAITING);
        leave(&scene, 3, 900 * USEC_PER_SEC, "signal 9");
        d = scene_diagnose(&scene, 4, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 3);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_TRUE(strstr(d->summary, "has left the run (signal 9), the 3 others wait in all-reduce"));
        (void) diagnosis_free(d);
}

TEST_MAIN(test_nic_cut, test_ring_cut, test_cut_and_silent, test_path_is_not_all, test_works,
          test_silent, test_silent_is_not_all, test_left_first, test_left_alone)
