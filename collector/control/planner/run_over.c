/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A host that said how its part ended and is missing since then: its word is kept in the run's record, because
 * the planner that takes over hears it from nobody.
 */
#include "said.h"

static bool has_ended(const struct run *r, const struct host_run *h) {
        return h && h->generation == r->generation && (h->state == PART_EXITED || h->state == PART_STOPPED);
}

json_t *run_over(const struct gang *g, const struct run *r) {
        json_t *over = json_object(), *v;
        size_t i;

        if (r->state != RUN_RUNNING && r->state != RUN_STOPPING)
                return over; /* it follows from nothing any more */
        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0; s && w < s->n_seats && w < json_array_size(json_object_get(v, "hosts"));
                     w++) {
                        const struct host_run *h =
                                s->seats[w].live ? NULL : seat_run(&s->seats[w], r->intent.spec->name);
                        char key[NAME_MAX_HOST + 16];

                        if (!has_ended(r, h))
                                continue;
                        (void) snprintf(key, sizeof(key), "%s/%u", s->name, w);
                        if (json_object_set_new(over, key,
                                                json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:I}", "name",
                                                          h->name, "generation", (json_int_t) h->generation,
                                                          "state", part_state_name(h->state), "cause",
                                                          h->cause, "code", h->code, "status", h->status,
                                                          "step", (json_int_t) h->step)) < 0) {
                                json_decref(over);
                                return NULL;
                        }
                }
        }
        return over;
}

static int add_word(struct seat *s, const json_t *word) {
        char why[GANG_WHY_MAX];
        struct host_run *more, h;
        int x = host_run_parse(word, &h, why);

        if (x < 0)
                return x == -ENOMEM ? x : 0; /* none of ours */
        more = reallocarray(s->runs, s->n_runs + 1, sizeof(s->runs[0]));
        if (!more) {
                free(h.detail), free(h.suspicion);
                return -ENOMEM;
        }
        s->runs = more;
        s->runs[s->n_runs++] = h;
        return 0;
}

int run_restore_over(struct gang *g, struct run *r) {
        const char *key;
        json_t *v;
        int x = 0;

        json_object_foreach (r->over, key, v) {
                const char *slash = strchr(key, '/');
                char name[NAME_MAX_HOST];
                const struct slice *s;
                unsigned long w;

                if (!slash || slash - key >= NAME_MAX_HOST)
                        continue;
                (void) snprintf(name, sizeof(name), "%.*s", (int) (slash - key), key);
                s = slice_find(g, name);
                w = strtoul(slash + 1, NULL, 10);
                if (s && w < s->n_seats && !s->seats[w].live &&
                    !seat_run(&s->seats[w], r->intent.spec->name))
                        x = worse(x, add_word(&s->seats[w], v));
        }
        json_decref(r->over);
        r->over = NULL;
        return x;
}
