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
                        ASSERT_OK(scene_add(&scene, &c));
                }
                d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
                ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                ASSERT_EQ(d->suspects[0].host, cut);
                ASSERT_EQ(d->n_suspects, 1);
                ASSERT_TRUE(strstr(d->summary, "its check nic.carrier of eth1 fails: no carrier"));
                (void) diagnosis_free(d);
        }
}

static void unanswered_by(struct host_capture *c, struct stack_table *t, const char *local, const char *peer,
                          const char *how) {
        struct captured_finding *f;
        char text[128];

        (void) snprintf(text, sizeof(text), "from %s, %s", local, how);
        ASSERT_OK(host_capture_add_finding(c, &f));
        f->check = scene_string(t, "path.answer");
        f->subject = scene_string(t, peer);
        f->found = scene_string(t, text);
}

#define TCP "nothing for 12 s although data was sent again 5 times (1 connection)"
#define DATAGRAM "no answer to a datagram"

static void unanswered(struct host_capture *c, struct stack_table *t, const char *local, const char *peer) {
        unanswered_by(c, t, local, peer, TCP);
}

/* Hosts in a ring over their second NIC, of which one is cut off: the host before it sends to it in vain,
 * and it sends to the one behind it in vain. Of two it is not known which it is. */
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
                                /* everyone misses it */
                                unanswered(&c, &scene.table, own, "169.254.169.254");
                                ASSERT_OK(scene_add(&scene, &c));
                        }
                        d = scene_diagnose(&scene, n, RUN_UNKNOWN);
                        (void) snprintf(says, sizeof(says),
                                        "packets between its address 10.10.1.%u and 2 others", 10 + cut);
                        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                        if (n == 2)
                                ASSERT_EQ(d->suspects[0].score, d->suspects[1].score);
                        if (n > 2) {
                                ASSERT_EQ(d->suspects[0].host, cut);
                                ASSERT_EQ(d->suspects[0].kind, KIND_PATH);
                                ASSERT_TRUE(strstr(d->summary, says));
                                ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
                        }
                        (void) diagnosis_free(d);
                }
}

/* --- What evidence of a cut there is: four hosts, of which 0 has lost its second NIC ------------------- */

#define CUT_HOSTS 4u

/* Of host i in capture k: whom it has no answer from (bits), and how that shows. */
struct misses {
        uint32_t host, capture;
        unsigned peers;
        const char *how;
};

struct cut {
        const struct misses *misses;
        size_t n;
        uint32_t reached; /* in the second capture, of each */
        bool no_addresses;
};

static void second_nic(char text[static 32], uint32_t host) {
        (void) snprintf(text, 32, "10.10.1.%u", 10 + host);
}

static void tell_misses(struct host_capture *c, struct stack_table *t, const struct misses *m) {
        char own[32], peer[32];

        second_nic(own, c->worker);
        for (uint32_t p = 0; p < 8; p++) {
                second_nic(peer, p);
                if (m->peers & 1u << p)
                        unanswered_by(c, t, own, p < CUT_HOSTS ? peer : "169.254.169.254", m->how);
        }
}

static struct diagnosis *diagnose_cut(struct scene *scene, const struct cut *cut) {
        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < CUT_HOSTS; i++) {
                        struct host_capture c;
                        char own[40] = "eth1 ";

                        scene_host(&c, i, round);
                        scene_process(&c, &scene->table, WAITING);
                        second_nic(own + 5, i);
                        if (!cut->no_addresses)
                                c.own[c.n_own++] = scene_string(&scene->table, own);
                        if (round == 1)
                                c.reached = cut->reached;
                        for (size_t m = 0; m < cut->n; m++)
                                if (cut->misses[m].host == i && cut->misses[m].capture == round)
                                        tell_misses(&c, &scene->table, &cut->misses[m]);
                        ASSERT_OK(scene_add(scene, &c));
                }
        return scene_diagnose(scene, CUT_HOSTS, RUN_STALLED);
}

#define ALONE_0 "10.10.1.10 (eth1) and 10.10.1.13 (eth1) of worker 3 alone are lost"

static void test_cut_shapes(void) {
        static const struct misses
                sender[] = { { 3, 1, 1u << 0, TCP } }, /* its data alone was under way */
                /* gone in the second capture */
                before[] = { { 3, 0, 1u << 0, TCP }, { 0, 0, 1u << 1, TCP } },
                each_once[] = { { 3, 0, 1u << 0, TCP }, { 0, 1, 1u << 1, TCP } },
                idle[] = { { 0, 1, 0xe, DATAGRAM } }, /* nothing was under way at all */
                others[] = { { 1, 1, 1, DATAGRAM }, { 2, 1, 1, DATAGRAM }, { 3, 1, 1, DATAGRAM } },
                /* a firewall keeps all answers back, and 1 has more connections than the others */
                firewall[] = { { 0, 1, 1u << 1, DATAGRAM }, { 1, 1, 0xd, DATAGRAM },
                               { 2, 1, 1u << 1, DATAGRAM },
                               { 3, 1, 1u << 1, DATAGRAM } },
                firewall_tcp[] = { { 1, 1, 0xd, DATAGRAM }, { 0, 1, 0xe, DATAGRAM }, { 2, 1, 0xb, DATAGRAM },
                                   { 3, 1, 1u << 0, TCP },  { 0, 0, 1u << 1, TCP } },
                outside[] = { { 2, 1, 1u << 7, TCP } },
                outside_more[] = { { 0, 0, 1u << 7, TCP }, { 1, 0, 1u << 7, TCP }, { 2, 1, 1u << 7, TCP },
                                   { 3, 1, 1u << 0, TCP }, { 0, 1, 1u << 1, TCP } };
        const struct {
                struct cut cut;
                bool named;
                const char *says;
        } cases[] = {
                { { sender, ELEMENTSOF(sender), CAPTURE_REACHED_NONE, false }, true, ALONE_0 },
                { { before, ELEMENTSOF(before), 3, false }, true,
                  "10.10.1.10 (eth1) and 2 others are lost" },
                { { each_once, ELEMENTSOF(each_once), 3, false }, true,
                  "10.10.1.10 (eth1) and 2 others are lost" },
                { { idle, ELEMENTSOF(idle), 3, false }, true, "10.10.1.10 (eth1) and 3 others are lost" },
                { { others, ELEMENTSOF(others), 3, false }, true,
                  "10.10.1.10 (eth1) and 3 others are lost" },
                /* agents that tell no addresses: nobody says whose it is, and nobody else is blamed for
                 * it */
                { { others, ELEMENTSOF(others), CAPTURE_REACHED_NONE, true }, false, "" },
                { { sender, ELEMENTSOF(sender), CAPTURE_REACHED_NONE, true }, false, "" },
                { { firewall, ELEMENTSOF(firewall), 0, false }, false, "" },
                { { firewall_tcp, ELEMENTSOF(firewall_tcp), 0, false }, true,
                  "10.10.1.10 (eth1) and 2 others are lost" },
                { { firewall_tcp, ELEMENTSOF(firewall_tcp), CAPTURE_REACHED_NONE, false }, true,
                  "10.10.1.10 (eth1) and 2 others are lost" },
                { { outside, ELEMENTSOF(outside), 3, false }, false, "" },
                { { outside_more, ELEMENTSOF(outside_more), 3, false }, true,
                  "10.10.1.10 (eth1) and 2 others are lost" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d = diagnose_cut(&scene, &cases[i].cut);

                if (d->outcome != (cases[i].named ? OUTCOME_NAMED : OUTCOME_NOBODY) ||
                    !strstr(d->summary, cases[i].says))
                        fprintf(stderr, "case %zu: %s\n", i, d->summary);
                ASSERT_EQ(d->outcome, cases[i].named ? OUTCOME_NAMED : OUTCOME_NOBODY);
                ASSERT_TRUE(strstr(d->summary, cases[i].says));
                if (cases[i].named)
                        ASSERT_EQ(d->suspects[0].host, 0);
                (void) diagnosis_free(d);
        }
}

/* The NIC that its agent uses, too, is cut: it is silent, and what the others miss is its address. Where one
 * other misses it alone, that one has answered. */
static void test_cut_and_silent(void) {
        for (uint32_t miss = 1; miss <= 3; miss += 2) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                for (uint32_t i = 0; i < 4; i++) {
                        struct host_capture c;
                        char own[32];

                        scene_host(&c, i, 0);
                        (void) snprintf(own, sizeof(own), "10.10.0.%u", 10 + i);
                        c.silent = i == 2;
                        if (!c.silent)
                                scene_process(&c, &scene.table, WAITING);
                        if (!c.silent && (miss == 3 || i == 0))
                                unanswered(&c, &scene.table, own, "10.10.0.12");
                        ASSERT_OK(scene_add(&scene, &c));
                }
                d = scene_diagnose(&scene, 4, RUN_STALLED);
                ASSERT_EQ(d->suspects[0].host, 2);
                ASSERT_EQ(d->suspects[0].kind, KIND_PATH);
                ASSERT_TRUE(strstr(d->summary, "10.10.0.12 and "));
                ASSERT_TRUE(strstr(d->summary, "lost, and it did not answer: it is down, or cut off, the 3 "
                                               "others wait in all-reduce"));
                ASSERT_TRUE(!strstr(d->suspects[0].details, "did not answer"));
                ASSERT_EQ(d->n_odd, 1);
                (void) diagnosis_free(d);
        }
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
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 8, RUN_UNKNOWN);
        ASSERT_EQ(d->suspects[0].host, 5);
        ASSERT_EQ(d->suspects[0].kind, (enum stall_kind) WAIT_PIPE);
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
                ASSERT_EQ(d->suspects[0].kind, KIND_SILENT);
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
        ASSERT_TRUE(strstr(d->summary, " holds the run up: its main thread is in `read`"));
        (void) diagnosis_free(d);
}

static void leave(struct scene *scene, uint32_t worker, usec_t when, const char *how) {
        struct host_capture c;

        scene_host(&c, worker, 0);
        c.ended = when;
        c.ended_how = scene_string(&scene->table, how);
        ASSERT_OK(scene_add(scene, &c));
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

/* Their ends are closer than the clocks tell: who ended otherwise than all others was the first. */
static void test_left_odd(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 4; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                c.ended = 900 * USEC_PER_SEC + i * 10;
                c.ended_how = scene_string(&scene.table, i == 2 ? "exit code 0" : "exit code 1");
                c.clock_error = USEC_PER_SEC;
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 4, RUN_STALLED);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 2);
        ASSERT_TRUE(strstr(d->summary, "its process has left the run (exit code 0), as no other did"));
        ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
        (void) diagnosis_free(d);
}

/* torchrun: one of its processes was killed, which its own end does not say, for it was stopped with the
 * others; those that had a connection to it lost it. No clock is set. */
static void test_left_by_lost_connections(void) {
        static const char *const how[] = { "peer-lost (exited 1)", "stopped (exited 1)",
                                           "peer-lost (exited 1)", "stopped (exited 1)" };

        for (unsigned named = 0; named < 3; named++) { /* nobody, an address, a task */
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct diagnosis *d;

                for (uint32_t i = 0; i < 4; i++) {
                        struct host_capture c;

                        scene_host(&c, i, 0);
                        c.ended = 900 * USEC_PER_SEC + (i + 1) * 10;
                        c.ended_how = scene_string(&scene.table, how[i]);
                        c.ended_peer = scene_string(&scene.table, i % 2 == 1 || named == 0 ? ""
                                                                  : named == 1            ? "10.0.0.3"
                                                                                          : "task 3");
                        c.clock_error = 16 * USEC_PER_SEC;
                        (void) snprintf(c.address, sizeof(c.address), "10.0.0.%" PRIu32, i);
                        ASSERT_OK(scene_add(&scene, &c));
                }
                d = scene_diagnose(&scene, 4, RUN_STALLED);
                if (named > 0) {
                        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
                        ASSERT_EQ(d->suspects[0].host, 3);
                        ASSERT_TRUE(d->suspects[1].score < BLAME_NAMED);
                        ASSERT_TRUE(strstr(d->summary, "its process has left the run (stopped (exited 1)), "
                                                       "and the others lost their connections to it"));
                }
                (void) diagnosis_free(d);
        }
}

/* One host is gone with its machine: nothing is heard of it, and the first that noticed is not named for
 * it. */
static void test_lost_and_silent(void) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t i = 0; i < 3; i++) {
                struct host_capture c;

                scene_host(&c, i, 0);
                c.ended = (900 + 5 * i) * USEC_PER_SEC;
                c.ended_how = scene_string(&scene.table, "peer-lost (exited 1)");
                c.ended_peer = scene_string(&scene.table, "task 3");
                ASSERT_OK(scene_add(&scene, &c));
        }
        d = scene_diagnose(&scene, 4, RUN_STALLED);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 3);
        ASSERT_EQ((unsigned) d->suspects[0].kind, (unsigned) KIND_SILENT);
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

TEST_MAIN(test_nic_cut, test_ring_cut, test_cut_shapes, test_cut_and_silent, test_path_is_not_all,
          test_works, test_silent, test_silent_is_not_all, test_left_first, test_left_odd,
          test_left_by_lost_connections, test_lost_and_silent, test_left_alone)
