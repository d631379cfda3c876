/* SPDX-License-Identifier: Apache-2.0 */
/* Bad links as agents tell of them: quoted in the verdict, evidence where nothing else is, nobody's guilt
 * beside what explains more. */
#include "diagnose-scene.h"

#define HOSTS 4u
#define WORDS "NIC eth1 to worker %u: 38 RTOs in 10 s, 6 %% of segments retransmitted (60)"

/* Host `from` tells of a bad link to host `to`; check path.answer: of a connection without an answer. */
struct told {
        uint32_t from, to;
        const char *check;
};

static void tell(struct host_capture *c, struct stack_table *t, const struct told *m) {
        struct captured_finding *f;
        char words[128], text[160], peer[32];

        (void) snprintf(words, sizeof(words), WORDS, m->to);
        (void) snprintf(text, sizeof(text), "from 10.10.1.%u, %s", 10 + m->from,
                        streq(m->check, "net.link")
                                ? words
                                : "nothing for 12 s although data was sent again 5 times (1 connection)");
        (void) snprintf(peer, sizeof(peer), "10.10.1.%u", 10 + m->to);
        ASSERT_OK(host_capture_add_finding(c, &f));
        f->check = scene_string(t, m->check);
        f->subject = scene_string(t, peer);
        f->found = scene_string(t, text);
}

/* odd: a host that reads instead of waiting for the others; UINT32_MAX: none. */
static struct diagnosis *diagnose_told(struct scene *scene, const struct told *told, size_t n,
                                       uint32_t odd) {
        const struct scripted reads = { NEXT_BATCH, 'S', "pipe_read" };

        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < HOSTS; i++) {
                        struct host_capture c;
                        char own[40];

                        scene_host(&c, i, round);
                        scene_process(&c, &scene->table, i == odd ? reads : WAITING);
                        (void) snprintf(own, sizeof(own), "eth1 10.10.1.%u", 10 + i);
                        c.own[c.n_own++] = scene_string(&scene->table, own);
                        for (size_t k = 0; k < n; k++)
                                if (told[k].from == i)
                                        tell(&c, &scene->table, &told[k]);
                        ASSERT_OK(scene_add(scene, &c));
                }
        return scene_diagnose(scene, HOSTS, RUN_STALLED);
}

static void assert_says(const struct diagnosis *d, const char *what) {
        if (!strstr(d->summary, what))
                test_fail(__FILE__, __LINE__, "\"%s\" is not in \"%s\"", what, d->summary);
}

/* A cut is told by connections without an answer; the agent's words go with it. */
static void test_a_cut_is_quoted(void) {
        static const struct told told[] = {
                { 0, 1, "path.answer" }, { 3, 0, "path.answer" }, { 0, 1, "net.link" }, { 3, 0, "net.link" }
        };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), UINT32_MAX);

        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 0);
        assert_says(d, "10.10.1.10 (eth1) and 2 others are lost");
        assert_says(d, "; NIC eth1 to worker 1: 38 RTOs in 10 s, 6 % of segments retransmitted (60)");
        (void) diagnosis_free(d);
}

/* Where the host itself says nothing of it, who is at the other end does. */
static void test_the_other_end_is_quoted(void) {
        static const struct told told[] = {
                { 1, 0, "path.answer" }, { 2, 0, "path.answer" }, { 1, 0, "net.link" }, { 2, 0, "net.link" }
        };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), UINT32_MAX);

        ASSERT_EQ(d->suspects[0].host, 0);
        assert_says(d, "; slice 1, worker 1 (10.10.0.11) says: NIC eth1 to worker 0: 38 RTOs in 10 s");
        (void) diagnosis_free(d);
}

/* Both NICs of a host are cut off, each from another one: no address is in two bad pairs, the host is. */
static void test_all_nics_of_a_host(void) {
        static const struct told told[] = {
                { 1, 0, "path.answer" }, { 3, 0, "path.answer" }, { 0, 1, "path.answer" }
        };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < HOSTS; i++) {
                        struct host_capture c;
                        char own[40], peer[32];
                        struct captured_finding *f;

                        scene_host(&c, i, round);
                        scene_process(&c, &scene.table, WAITING);
                        for (unsigned nic = 0; nic < 2; nic++) {
                                (void) snprintf(own, sizeof(own), "eth%u 10.10.%u.%u", nic, nic, 10 + i);
                                c.own[c.n_own++] = scene_string(&scene.table, own);
                        }
                        for (size_t k = 0; k < ELEMENTSOF(told); k++) {
                                unsigned nic = told[k].from == 3;

                                if (told[k].from != i)
                                        continue;
                                (void) snprintf(own, sizeof(own), "from 10.10.%u.%u, nothing for 12 s",
                                                nic, 10 + i);
                                (void) snprintf(peer, sizeof(peer), "10.10.%u.%u", nic, 10 + told[k].to);
                                ASSERT_OK(host_capture_add_finding(&c, &f));
                                f->check = scene_string(&scene.table, told[k].check);
                                f->subject = scene_string(&scene.table, peer);
                                f->found = scene_string(&scene.table, own);
                        }
                        ASSERT_OK(scene_add(&scene, &c));
                }
        d = scene_diagnose(&scene, HOSTS, RUN_STALLED);
        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 0);
        ASSERT_EQ(d->suspects[0].kind, KIND_PATH);
        assert_says(d, "packets between its addresses, on several NICs, and 2 of other hosts are lost");
        (void) diagnosis_free(d);
}

/* Packets are lost, and all connections are answered, late: the end that all bad ways share. */
static void test_a_lossy_port(void) {
        static const struct told told[] = {
                { 0, 1, "net.link" }, { 0, 2, "net.link" }, { 1, 0, "net.link" }, { 3, 0, "net.link" }
        };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), UINT32_MAX);

        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 0);
        ASSERT_EQ(d->suspects[0].kind, KIND_PATH);
        assert_says(d, "packets between its address 10.10.1.10 (eth1) and 3 others are lost");
        assert_says(d, "; NIC eth1 to worker 1: 38 RTOs in 10 s");
        (void) diagnosis_free(d);
}

static void test_a_lossy_pair(void) {
        static const struct told told[] = { { 1, 2, "net.link" }, { 2, 1, "net.link" } };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), UINT32_MAX);

        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].score, d->suspects[1].score);
        assert_says(d, "10.10.1.11 (eth1) and 10.10.1.12 (eth1) of worker 2 alone are lost: one of these "
                       "two NICs, or what lies between");
        assert_says(d, "; NIC eth1 to worker 2: 38 RTOs in 10 s");
        (void) diagnosis_free(d);
}

/* A rank that reads explains why all wait: bad links are a line of details, and blame nobody. */
static void test_what_explains_more(void) {
        static const struct told told[] = { { 1, 0, "net.link" },
                                            { 2, 0, "net.link" },
                                            { 3, 2, "net.link" } };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), 3);

        ASSERT_EQ(d->outcome, OUTCOME_NAMED);
        ASSERT_EQ(d->suspects[0].host, 3);
        ASSERT_EQ(d->suspects[0].kind, (enum stall_kind) WAIT_PIPE);
        ASSERT_TRUE(strstr(d->suspects[0].details, "its network: NIC eth1 to worker 2: 38 RTOs in 10 s"));
        for (size_t i = 1; i < d->n_suspects; i++)
                ASSERT_TRUE(d->suspects[i].score < BLAME_NAMED);
        (void) diagnosis_free(d);
}

/* Ways of several hosts that share no end name nobody; they are said all the same. */
static void test_nobody_is_named(void) {
        static const struct told told[] = { { 0, 1, "net.link" }, { 2, 3, "net.link" } };
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d = diagnose_told(&scene, told, ELEMENTSOF(told), UINT32_MAX);

        ASSERT_EQ(d->outcome, OUTCOME_NOBODY);
        assert_says(d, "; slice 1, worker 0 (10.10.0.10) says: NIC eth1 to worker 1: 38 RTOs in 10 s");
        (void) diagnosis_free(d);
}

/* Findings are foreign: what is not as agents say it is no link. */
static void test_malformed(void) {
        static const char *const texts[] = {
                "", "from", "from 10.10.1.10", "from 10.10.1.10,", "from ,", "NIC eth1 to worker 2: 38 RTOs"
        };

        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                struct captured_finding *f;
                struct host_capture c;
                struct diagnosis *d;

                scene_rank(&scene, 0, 0, WAITING);
                scene_host(&c, 1, 0);
                scene_process(&c, &scene.table, WAITING);
                ASSERT_OK(host_capture_add_finding(&c, &f));
                f->check = scene_string(&scene.table, "net.link");
                f->subject = scene_string(&scene.table, "10.10.1.10");
                f->found = scene_string(&scene.table, texts[i]);
                ASSERT_OK(scene_add(&scene, &c));
                d = scene_diagnose(&scene, 2, RUN_STALLED);
                ASSERT_FALSE(strstr(d->summary, " says:"));
                (void) diagnosis_free(d);
        }
}

TEST_MAIN(test_a_cut_is_quoted, test_the_other_end_is_quoted, test_all_nics_of_a_host, test_a_lossy_port,
          test_a_lossy_pair, test_what_explains_more, test_nobody_is_named, test_malformed)
