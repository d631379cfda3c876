/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random histories: generations only rise, a record never goes back, a planner that takes over changes
 * nothing when the same hosts speak, nobody is missed within a lease of that, and what is told is the same
 * each time.
 */
#include "gang_world.h"

static unsigned pick(uint64_t *random, unsigned n) {
        *random = *random * 6364136223846793005U + 1442695040888963407U;
        return (unsigned) (*random >> 33) % n;
}

struct seen { /* of the slices */
        uint64_t generation[WORLD_SLICES];
};

static void check_slices(const struct world *w, struct seen *seen) {
        for (unsigned s = 0; s < w->slices; s++) {
                char key[32];
                const json_t *v;
                uint64_t g;
                unsigned there = 0;

                snprintf(key, sizeof(key), "slice/s%u", s);
                v = gang_record(w->g, key);
                if (!v)
                        continue;
                g = (uint64_t) json_integer_value(json_object_get(v, "generation"));
                ASSERT_TRUE(g >= seen->generation[s]);
                seen->generation[s] = g;
                for (unsigned h = 0; h < w->hosts; h++)
                        there += w->host[s][h].there;
                ASSERT_EQ(streq(world_text(v, "state"), "ready"), there == w->hosts);
                ASSERT_EQ(json_array_size(json_object_get(v, "roster")), there);
                ASSERT_EQ(json_array_size(json_object_get(v, "missing")), w->hosts - there);
        }
}

/* What a run says of itself holds together. */
static void check_run(const struct world *w) {
        const json_t *r = world_run(w);
        const char *state = world_state(w);
        size_t width = world_width(w);
        const json_t *intent;

        if (!r)
                return;
        ASSERT_EQ(streq(state, "ended"), *world_text(r, "outcome") != '\0');
        intent = json_object_get(r, "intent");
        if (streq(state, "running") || streq(state, "preparing"))
                ASSERT_TRUE(width >= (size_t) json_integer_value(json_object_get(intent, "min")));
        ASSERT_TRUE(width <= (size_t) json_integer_value(json_object_get(intent, "max")));
        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < w->hosts; h++)
                        ASSERT_TRUE(w->host[s][h].part.generation <= world_generation(w));
}

static void host_moves(struct world *w, uint64_t *random) {
        unsigned s = pick(random, w->slices), h = pick(random, w->hosts);
        struct world_host *x = &w->host[s][h];

        if (!x->there) {
                x->life++;
                if (pick(random, 2))
                        x->part = (struct member_part) { 0 };
                x->notice = NULL;
                world_join(w, s, h);
                return;
        }
        switch (pick(random, 8)) {
        case 0:
                world_gone(w, s, h);
                return;
        case 1:
                x->life++;
                break;
        case 2:
                x->unfit = !x->unfit;
                break;
        case 3:
                x->notice = x->notice ? NULL : "preemption";
                break;
        case 4:
                x->digest = x->digest ? NULL : "d2";
                break;
        case 5:
                x->refuses = x->refuses ? NULL : "no";
                break;
        case 6:
                x->step += pick(random, 5);
                break;
        default:
                if (x->part.state == PART_RUNNING) {
                        static const char *const causes[] = { "success", "exit-code", "peer-lost",
                                                              "stopped" };

                        world_exit(w, s, h, causes[pick(random, 4)], "exited", pick(random, 9) ? "1" : "93");
                }
                return;
        }
        ASSERT_OK(world_say(w, s, h));
}

static void tell_difference(const char *key, const json_t *value, void *userdata) {
        const struct gang *old = userdata;
        char *a = json_dumps(gang_record(old, key), JSON_ENCODE_ANY), *b = json_dumps(value, 0);

        if (!a || !streq(a, b))
                fprintf(stderr, "\n%s was %s\nis now %s\n", key, a ? a : "not there", b);
        free(a);
        free(b);
}

/* The same again by another planner. */
static void take_over(struct world *w) {
        struct gang *old = w->g;
        unsigned changes;

        w->g = world_reload(w);
        for (unsigned s = 0; s < w->slices; s++)
                for (unsigned h = 0; h < w->hosts; h++)
                        if (w->host[s][h].there)
                                ASSERT_OK(world_say(w, s, h));
        changes = world_step(w);
        if (changes > 0) {
                gang_visit(w->g, tell_difference, old);
                test_fail(__FILE__, __LINE__, "%u records are other ones after another planner took over",
                          changes);
        }
        gang_free(old);
}

static void settle_with_time(struct world *w) {
        for (unsigned i = 0; i < 64; i++) {
                world_settle(w);
                if (w->next > w->now)
                        return;
        }
}

static void history(uint64_t random) {
        struct seen seen = { 0 };
        struct world w;
        unsigned serial = 0;

        world_new(&w, 1 + pick(&random, 4), 1 + pick(&random, 3));
        for (unsigned i = 0; i < 150; i++) {
                char text[16];

                if (pick(&random, 6) == 0 && (!world_run(&w) || streq(world_state(&w), "ended"))) {
                        unsigned min = 1 + pick(&random, w.slices),
                                max = min + pick(&random, w.slices - min + 1);

                        snprintf(text, sizeof(text), "r%u", serial++);
                        ASSERT_OK(world_want(&w, world_intent(text, min, max, pick(&random, 5))));
                } else if (pick(&random, 40) == 0)
                        ASSERT_OK(world_want(&w, NULL));
                else
                        host_moves(&w, &random);
                if (pick(&random, 4) == 0)
                        w.now += pick(&random, 40) * USEC_PER_SEC;
                settle_with_time(&w);
                check_slices(&w, &seen);
                check_run(&w);
                if (pick(&random, 10) == 0)
                        take_over(&w);
        }
        gang_free(w.g);
}

static void test_histories(void) {
        unsigned seed = test_seed(), n = getenv("FULL") ? 5000 : 100;

        for (unsigned i = 0; i < n; i++)
                history((uint64_t) seed * 1000003 + i);
}

TEST_MAIN(test_histories)
