/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold of every graph of waits. Random runs with a known culprit: who waits for whom is a random
 * forest that leads to it, over certain waits, polls, debts and chains within hosts; noise stands beside.
 * No victim is ever above the culprit, shares add up to one, and the order of captures changes nothing.
 */
#include <math.h>

#include "wait-scene.h"
#include "weights.h"

static uint32_t roll(uint64_t *state, uint32_t below) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t) (*state >> 33) % below;
}

static void strike(struct world *w, uint32_t host, uint64_t *seed) {
        static const uint8_t kinds[] = { WAIT_FILE,  WAIT_TIMER,     WAIT_FILE_LOCK, WAIT_DEVICE,
                                         WAIT_CHILD, WAIT_THROTTLED, WAIT_PAGE };
        struct world_thread *t = world_main(w, host), *holder;
        uint32_t k = roll(seed, ELEMENTSOF(kinds) + 3);

        t->n_waits = 0;
        t->stack = roll(seed, 2) ? OWN_BATCH : "loop.py:10 go | loop.py:50 slope";
        if (k < ELEMENTSOF(kinds))
                (void) world_wait(t, kinds[k]);
        else if (k == ELEMENTSOF(kinds))
                t->state = 'R';
        else if (k == ELEMENTSOF(kinds) + 1)
                w->hosts[host].processes[0].state = t->state = 'T';
        else {
                struct captured_wait *lock = world_wait(t, WAIT_LOCK);

                holder = world_thread(w, host, world_pid(host), 2000, "holder", "keep.py:3 keep");
                lock->holder_pid = world_pid(host);
                lock->holder_tid = 2000;
                (void) world_wait(holder, WAIT_FILE);
        }
}

/* `from` waits for `to`, in one of the forms in which captures show it. */
static void wait_for(struct world *w, uint32_t from, uint32_t to, uint64_t *seed) {
        struct world_link *l = world_link(w, to, from);
        struct world_thread *t = world_main(w, from);

        switch (roll(seed, 4)) {
        case 0:
                (void) world_recv(w, from, t, l);
                break;
        case 1: { /* a thread of its own receives, and holds what the main thread wants */
                struct captured_wait *lock = world_wait(t, WAIT_LOCK);

                lock->holder_pid = world_pid(from);
                lock->holder_tid = 3000 + from;
                (void) world_recv(
                        w, from,
                        world_thread(w, from, world_pid(from), 3000 + from, "receiver", "net.py:8 take"), l);
                break;
        }
        case 2: /* it sends, and is not read */
                world_recv(w, from, t, l)->writes = true;
                l->a_unread = 1000 + roll(seed, 100000);
                break;
        default: /* it looks at it again and again */
                t->state = 'R';
                world_recv(w, from, t, l)->spins = true;
                break;
        }
        if (roll(seed, 2)) { /* the times say so, too */
                l->a_sent += MS_STEP;
                l->b_received += MS_STEP;
        }
}

static void add_noise(struct world *w, uint32_t culprit, uint64_t *seed) {
        for (uint32_t i = 0; i < w->n_hosts; i++) {
                struct world_thread *t = world_thread(w, i, world_pid(i), 4000 + i, "pool",
                                                      "pool.py:3 idle");

                if (roll(seed, 8) == 0) {
                        t->stack = "pool.py:3 idle | pool.py:9 work";
                        t->state = 'R';
                } else
                        (void) world_wait(t, WAIT_LOCK);
        }
        for (uint32_t k = 0; k < w->n_hosts / 2; k++) { /* connections that are long done with */
                uint32_t a = roll(seed, (uint32_t) w->n_hosts), b = roll(seed, (uint32_t) w->n_hosts);

                if (a == b || w->n_links == WORLD_LINKS_MAX)
                        continue;
                *world_link(w, a, b) = (struct world_link){ .a = a,
                                                            .b = b,
                                                            .a_sent = 700000,
                                                            .a_received = 600000,
                                                            .b_sent = 600000,
                                                            .b_received = 700000,
                                                            .a_unread = a == culprit ? 0 : roll(seed, 50) };
        }
}

static uint32_t make_run(struct world *w, uint64_t *seed) {
        uint32_t n = 3 + roll(seed, 30), culprit = roll(seed, n), order[WORLD_HOSTS_MAX];

        world_init(w, n);
        for (uint32_t i = 0; i < n; i++)
                order[i] = i;
        order[0] = culprit;
        order[culprit] = 0;
        for (uint32_t i = n - 1; i > 1; i--) {
                uint32_t k = 1 + roll(seed, i), other = order[i];

                order[i] = order[k];
                order[k] = other;
        }
        strike(w, culprit, seed);
        for (uint32_t i = 1; i < n; i++)
                wait_for(w, order[i], order[roll(seed, i)], seed);
        add_noise(w, culprit, seed);
        return culprit;
}

static void test_victims_are_below(void) {
        uint64_t seed = test_seed();
        static struct world w;

        for (unsigned k = 0; k < 3000; k++) {
                _cleanup_scene_ struct scene scene = SCENE_NULL;
                uint64_t begun = seed;
                uint32_t culprit = make_run(&w, &seed);
                struct diagnosis *d = world_diagnose(&w, &scene);
                double sum = 0;

                for (uint32_t i = 0; i < d->graph.n; i++)
                        sum += d->graph.nodes[i].share;
                if (d->outcome != OUTCOME_NAMED || d->suspects[0].host != culprit || fabs(sum - 1) > 1e-6)
                        test_fail(__FILE__, __LINE__, "run %u (%" PRIu64 "), culprit %u: %.9f %s: %s", k,
                                  begun, culprit, sum, outcome_name(d->outcome), d->summary);
                for (size_t i = 1; i < d->n_suspects; i++)
                        ASSERT_TRUE(d->suspects[i].score < BLAME_NAMED);
                (void) diagnosis_free(d);
        }
}

/* Long chains of certain waits lose nothing on the way, however long they are. */
static void test_a_long_chain(void) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;

        world_init(&w, WORLD_HOSTS_MAX);
        for (uint32_t i = 1; i < WORLD_HOSTS_MAX; i++)
                (void) world_recv(&w, i, world_main(&w, i), world_link(&w, i - 1, i));
        (void) world_wait(world_main(&w, 0), WAIT_TIMER);
        d = world_diagnose(&w, &scene);
        ASSERT_EQ(d->suspects[0].host, 0);
        ASSERT_TRUE(d->graph.nodes[0].share > 0.999);
        ASSERT_EQ(d->n_waiting, WORLD_HOSTS_MAX - 1);
        (void) diagnosis_free(d);
}

/* Each number of the judgement is a probability, and says where it is from. */
static void test_weights(void) {
        for (unsigned i = 0; i < _WEIGHT_MAX; i++) {
                ASSERT_TRUE(weight_of((enum weight) i) > 0 && weight_of((enum weight) i) <= 1);
                ASSERT_TRUE(strlen(weight_measurement((enum weight) i)) > 0);
        }
}

TEST_MAIN(test_victims_are_below, test_a_long_chain, test_weights)
