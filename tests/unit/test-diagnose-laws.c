/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must hold of every scene: the order of hosts and of threads does not matter, nor whether captures
 * were merged at once or by halves, nor whether they came over the wire. And who slows a run down.
 */
#include "capture-bytes.h"
#include "diagnose-scene.h"
#include "diagnosis_print.h"
#include "pace.h"

#define HOSTS 24u

/* Pseudorandom, the same everywhere. */
static uint32_t roll(uint64_t *state, uint32_t below) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t) (*state >> 33) % below;
}

static struct scripted any_place(uint64_t *seed) {
        static const struct scripted places[] = {
                { ALL_REDUCE, 'S', "futex_wait" },
                { BARRIER, 'S', "futex_wait" },
                { NEXT_BATCH, 'S', "pipe_read" },
                { NEXT_BATCH, 'D', "io_schedule" },
                { MAIN_STEP " | train.py:33 spin", 'R', NULL },
                { NULL, 'S', NULL },
                { ALL_REDUCE, 'T', NULL },
                { MAIN_STEP " | !libc.so.6 read", 'S', NULL },
                { "a.py:1 f", 0, NULL },
        };
        uint32_t k = roll(seed, 20);

        return places[k < ELEMENTSOF(places) ? k : 0];
}

/* One host's capture with a table of its own; the same seed makes the same capture, with its threads in any
 * order. */
static void any_host(uint64_t seed, uint64_t order, uint32_t worker, uint32_t round, struct host_capture *c,
                     struct stack_table *t) {
        struct captured_core *core;
        uint32_t threads = 1 + roll(&seed, 6), first = roll(&order, threads);
        struct scripted main_thread = any_place(&seed), others[6];

        scene_host(c, worker, round);
        (void) scene_string(t, ""); /* the number of nothing */
        for (uint32_t i = 0; i < roll(&order, 5); i++)
                (void) scene_string(t, i % 2 ? "this shifts all" : "numbers");
        c->step = roll(&seed, 3) ? 100 : 99;
        if (roll(&seed, 9) == 0) {
                c->ended = (900 + roll(&seed, 5)) * USEC_PER_SEC;
                return;
        }
        scene_process(c, t, main_thread);
        for (uint32_t i = 0; i < threads; i++)
                others[i] = any_place(&seed);
        for (uint32_t i = 0; i < threads; i++) {
                uint32_t k = (first + i) % threads;
                char name[16];

                (void) snprintf(name, sizeof(name), "pool-%u", k);
                scene_thread(c, t, 9000 + k, name, others[k]);
        }
        ASSERT_OK(host_capture_add_core(c, &core));
        *core = (struct captured_core){ .core = worker, .launch = roll(&seed, 8) ? 12 : 11, .pc = 500 };
        core->fingerprint = scene_string(t, "aa");
}

static char *printed(const struct scene *s) {
        struct diagnosis *d = scene_diagnose(s, HOSTS + 1, RUN_STALLED);
        char *text = NULL, *json;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        json_t *v = diagnosis_to_json(d, true);

        ASSERT_TRUE(v != NULL);
        ASSERT_OK(diagnosis_print_text(f, d, false));
        ASSERT_OK(diagnosis_print_text(f, d, true));
        json = json_dumps(v, JSON_SORT_KEYS | JSON_INDENT(1));
        ASSERT_TRUE(json != NULL);
        fputs(json, f);
        free(json);
        json_decref(v);
        (void) diagnosis_free(d);
        ASSERT_EQ(fclose(f), 0);
        return text;
}

enum way {
        WAY_PLAIN,
        WAY_SHUFFLED,
        WAY_WIRE,
        _WAY_MAX,
};

static void over_the_wire(struct scene *s, uint64_t seed, uint64_t order, uint32_t worker, uint32_t round) {
        _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;
        struct host_capture c, copy;
        char why[CAPTURE_WHY_MAX];
        uint8_t *data;
        size_t len;

        any_host(seed, order, worker, round, &c, &t);
        capture_bytes(&c, &t, &data, &len);
        ASSERT_OK(capture_read(data, len, CAPTURE_DIAGNOSED, &copy, &s->table, why));
        free(data);
        host_capture_clear(&c);
        ASSERT_OK(scene_add(s, &copy));
}

static char *one_way(uint64_t seed, enum way way) {
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        uint64_t order = seed + way;

        for (uint32_t i = 0; i < 2 * HOSTS; i++) {
                uint32_t k = way == WAY_SHUFFLED ? i * 29 % (2 * HOSTS)
                                                 : i; /* 29 has no divisor of 48: every one once */
                struct host_capture c;

                if (way == WAY_WIRE) {
                        over_the_wire(&scene, seed * 100 + k, order, k / 2, k % 2);
                        continue;
                }
                any_host(seed * 100 + k, way == WAY_PLAIN ? 0 : order, k / 2, k % 2, &c, &scene.table);
                ASSERT_OK(scene_add(&scene, &c));
        }
        return printed(&scene);
}

static void test_order(void) {
        uint64_t seed = test_seed();

        for (uint64_t k = 0; k < 40; k++) {
                char *plain = one_way(seed + k, WAY_PLAIN);

                for (enum way way = WAY_SHUFFLED; way < _WAY_MAX; way++) {
                        char *other = one_way(seed + k, way);

                        ASSERT_STREQ(other, plain);
                        free(other);
                }
                free(plain);
        }
}

/* Different scenes read differently: the test above would not see a printer that prints nothing. */
static void test_differs(void) {
        char *a = one_way(1, WAY_PLAIN), *b = one_way(2, WAY_PLAIN);

        ASSERT_TRUE(strcmp(a, b) != 0);
        ASSERT_TRUE(strstr(a, "[0") && strstr(a, "train.py"));
        free(a);
        free(b);
}

/* --- Who slows it down --------------------------------------------------------------------------------- */

static void fill(double *busy, size_t n, double usual, double spread, uint64_t *seed) {
        for (size_t i = 0; i < STRAGGLER_WINDOWS * n; i++)
                busy[i] = usual + spread * (roll(seed, 2001) / 1000.0 - 1);
}

static void test_straggler(void) {
        uint64_t seed = test_seed();
        struct straggler_verdict v;
        double busy[STRAGGLER_WINDOWS * 64];

        for (unsigned k = 0; k < 2000; k++) {
                size_t n = 4 + roll(&seed, 61), slow = roll(&seed, (uint32_t) n);
                double usual = 0.3 + roll(&seed, 300) / 1000.0;

                fill(busy, n, usual, 0.02, &seed);
                ASSERT_OK(straggler_judge(busy, STRAGGLER_WINDOWS, n, &v)); /* healthy */
                ASSERT_FALSE(v.found);
                for (size_t w = 0; w < STRAGGLER_WINDOWS; w++) /* twice as slow: it computes all the time */
                        busy[w * n + slow] = MIN(2 * busy[w * n + slow], 1.0);
                ASSERT_OK(straggler_judge(busy, STRAGGLER_WINDOWS, n, &v));
                ASSERT_TRUE(v.found);
                ASSERT_EQ(v.host, slow);
                ASSERT_TRUE(v.windows >= STRAGGLER_WINDOWS_NEEDED && v.busy > v.others);
                ASSERT_OK(straggler_judge(busy, STRAGGLER_WINDOWS - 1, n, &v)); /* too early */
                ASSERT_FALSE(v.found);
        }
}

static void test_no_straggler(void) {
        struct straggler_verdict v;
        double busy[STRAGGLER_WINDOWS * 4] = { 0.9, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4,
                                               0.4, 0.9, 0.4, 0.4, 0.4, 0.4, 0.4, 0.9 };
        double unknown[STRAGGLER_WINDOWS * 3];

        ASSERT_OK(straggler_judge(busy, STRAGGLER_WINDOWS, 4, &v)); /* another one in each window */
        ASSERT_FALSE(v.found);
        for (size_t i = 0; i < ELEMENTSOF(unknown); i++)
                unknown[i] = i % 3 == 0 ? -1 : i % 3 == 1 ? 0.9 : 0.3; /* only two are known: no majority */
        ASSERT_OK(straggler_judge(unknown, STRAGGLER_WINDOWS, 3, &v));
        ASSERT_FALSE(v.found);
}

TEST_MAIN(test_order, test_differs, test_straggler, test_no_straggler)
