/* SPDX-License-Identifier: Apache-2.0 */
#include "captures.h"
#include "json_text.h"

#define EPISODE_MAX 64
#define BY_MAX      256

/* Whose stacks: a run, or whatever runs on one slice. */
struct target {
        const char *run, *serial; /* run "": whatever runs there */
        uint64_t generation;
        const json_t *slices; /* as in the run's record */
};

static const json_t *request_of(const struct gang *g, const char *slice) {
        char key[GANG_KEY_MAX];

        (void) snprintf(key, sizeof(key), "capture/%.63s", slice);
        return json_object_get(g->records, key);
}

/* When the last round of this was, and which; 0: there was none. The records themselves show it, so that a
 * planner that takes over knows it, too. */
static usec_t last_round(const struct gang *g, const struct target *t, const char **ret_episode,
                         unsigned *ret_again) {
        usec_t last = 0;
        size_t i;
        json_t *v;

        *ret_episode = "";
        *ret_again = 0;
        json_array_foreach (t->slices, i, v) {
                const json_t *q = request_of(g, json_text_of(v, "slice"));
                usec_t at = json_number_of(q, "at");

                if (!q || !*json_text_of(q, "episode") || at <= last || at > g->now + CAPTURES_APART ||
                    /* of no clock of ours */ !streq(json_text_of(q, "run"), t->run) ||
                    !streq(json_text_of(q, "serial"), t->serial) ||
                    (uint64_t) json_integer_value(json_object_get(q, "generation")) != t->generation)
                        continue;
                last = at;
                *ret_episode = json_text_of(q, "episode");
                *ret_again = (unsigned) MIN(json_number_of(q, "again"), (uint64_t) CAPTURES_AGAIN);
        }
        return last;
}

struct round {
        const char *by, *why;
        usec_t ahead, second; /* second 0: one capture alone */
        unsigned again;       /* rounds of this stall before */
        bool suspected;
        usec_t since, step_time; /* of who suspects: its last step, and how long one takes; 0: not known */
};

/*
 * An episode is known by the run, its generation and the time. Of several that are asked for at once, as
 * when a whole site stalls, the first two may be alike: names that are cut, and local runs, which have none.
 * Each has a microsecond of its own.
 */
static usec_t time_of_round(struct gang *g, usec_t ahead) {
        g->rounds = g->rounds_at == g->now ? g->rounds + 1 : 0;
        g->rounds_at = g->now;
        return g->now + ahead + g->rounds;
}

static int put_round(struct gang *g, const struct target *t, const struct round *o) {
        usec_t at = time_of_round(g, o->ahead);
        char episode[EPISODE_MAX];
        int x = 0;
        size_t i;
        json_t *v;

        (void) snprintf(episode, sizeof(episode), "%.24s-%" PRIu64 "-%" PRIu64, *t->run ? t->run : "slice",
                        t->generation, at);
        json_array_foreach (t->slices, i, v) {
                json_t *q = json_pack("{s:i, s:s, s:I, s:I, s:s, s:s, s:I, s:I, s:I, s:i, s:b, s:s, s:s, "
                                      "s:I, s:I}",
                                      "v", 1, "episode", episode, "at", (json_int_t) at, "second",
                                      (json_int_t) o->second, "run", t->run, "serial", t->serial,
                                      "generation", (json_int_t) t->generation, "hosts",
                                      (json_int_t) json_sizes_sum(t->slices, "hosts"), "slice_hosts",
                                      (json_int_t) json_array_size(json_object_get(v, "hosts")), "again",
                                      (int) o->again, "suspected", o->suspected, "by", o->by, "why", o->why,
                                      "since", (json_int_t) o->since, "step_time",
                                      (json_int_t) o->step_time);

                x = worse(x, q ? record_putf(g, q, "capture/%.63s", json_text_of(v, "slice")) : -ENOMEM);
        }
        return x;
}

/* --- Suspected ------------------------------------------------------------------------------------- */

static void not_stalled(struct gang_run *r) {
        r->dirty = r->dirty || r->stalled > 0;
        r->stalled = 0;
}

/* A round of a stall that hosts suspect since stalled, unless it had its rounds. */
static int suspected_round(struct gang *g, const struct target *t, const struct slot *suspects,
                           const struct gang_host_run *suspicion, usec_t stalled, usec_t *ret_next) {
        const char *episode;
        unsigned again;
        usec_t last = last_round(g, t, &episode, &again), due;
        char who[160];

        if (last >= stalled && again >= CAPTURES_AGAIN) /* this stall has its rounds */
                return 0;
        again = last >= stalled ? again + 1 : 0;
        due = last > 0 ? last + CAPTURES_APART : 0;
        if (g->now < due) {
                *ret_next = MIN(*ret_next, due);
                return 0;
        }
        return put_round(g, t,
                         &(struct round){ .by = slot_text(suspects, who),
                                          .why = suspicion->suspicion ? suspicion->suspicion : "",
                                          .ahead = CAPTURES_AHEAD,
                                          .second = CAPTURES_SECOND,
                                          .again = again,
                                          .suspected = true,
                                          .since = suspicion->since,
                                          .step_time = suspicion->step_time });
}

int captures_step(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next) {
        const struct target target = { .run = r->intent.spec->name,
                                       .serial = r->intent.serial,
                                       .generation = r->generation,
                                       .slices = r->slices };

        if (t->suspecting == 0) {
                if (t->presumed == 0 && t->lost == 0) /* else who does might not have been heard */
                        not_stalled(r);
                return 0;
        }
        if (r->stalled == 0) {
                r->stalled = g->now;
                r->dirty = true;
        }
        return suspected_round(g, &target, t->suspects, t->suspicion, r->stalled, ret_next);
}

/* --- Local runs ------------------------------------------------------------------------------------- */

/* The slice alone, as a run's record would have it. */
static json_t *slice_alone(struct gang *g, const char *slice) {
        struct slice *s = slice_find(g, slice);
        json_t *hosts = s ? json_array() : NULL;

        for (unsigned w = 0; hosts && w < s->n_slots; w++)
                if (slot_at(s, w)->live)
                        hosts = json_list_add(hosts, json_incref(slot_place(slot_at(s, w))));
        return hosts ? json_pack("[{s:s, s:o}]", "slice", slice, "hosts", hosts) : NULL;
}

/* Whether each host that is there has one local run, so that together they are one; and the host that first
 * suspects that it stalls, or NULL. */
static bool local_runs_are_one(const struct slice *s, const struct slot **ret_suspects) {
        bool one = s->live > 0;

        *ret_suspects = NULL;
        for (unsigned w = 0; w < s->n_slots && one; w++) {
                const struct slot *slot = slot_at(s, w);

                if (!slot->live)
                        continue;
                one = slot->n_local == 1;
                if (one && slot->local[0].suspected > 0 && !slot->local[0].may_be_pause &&
                    (!*ret_suspects || slot->local[0].suspected < (*ret_suspects)->local[0].suspected))
                        *ret_suspects = slot;
        }
        return one;
}

static int local_step(struct gang *g, struct slice *s, usec_t *ret_next) {
        struct target target = { .run = "", .serial = "" };
        const struct slot *suspects;
        json_auto_t *alone = NULL;

        if (!s->local_said && s->local_stalled == 0)
                return 0;
        s->local_said = false;
        if (s->run || !local_runs_are_one(s, &suspects) || !suspects) {
                s->local_stalled = 0;
                return 0;
        }
        if (s->local_stalled == 0)
                s->local_stalled = g->now;
        alone = slice_alone(g, s->name);
        if (!alone)
                return -ENOMEM;
        target.slices = alone;
        return suspected_round(g, &target, suspects, &suspects->local[0], s->local_stalled, ret_next);
}

int captures_ended(struct gang *g, struct gang_run *r, const struct tally *t) {
        const struct target target = { .run = r->intent.spec->name,
                                       .serial = r->intent.serial,
                                       .generation = r->generation,
                                       .slices = r->slices };
        const char *episode;
        unsigned again;
        usec_t last = last_round(g, &target, &episode, &again);
        char who[160];

        if (t->hosts < 2 || (last > 0 && g->now < last + CAPTURES_APART))
                return 0;
        return put_round(g, &target,
                         &(struct round){
                                 .by = slot_text(t->bad, who), .why = r->why, .ahead = CAPTURES_END });
}

int captures_local(struct gang *g, usec_t *ret_next) {
        int r = 0;

        for (size_t i = 0; i < g->n_slices; i++)
                r = worse(r, local_step(g, g->slices[i], ret_next));
        return r;
}

/* --- Wanted ---------------------------------------------------------------------------------------- */

static struct gang_run *run_on(const struct gang *g, const char *slice, const char *name) {
        for (size_t i = 0; i < g->n_runs; i++)
                if ((g->runs[i]->state == RUN_RUNNING || g->runs[i]->state == RUN_STOPPING) &&
                    run_has_slice(g->runs[i], slice) &&
                    (!*name || streq(g->runs[i]->intent.spec->name, name)))
                        return g->runs[i];
        return NULL;
}

static int order_round(struct gang *g, const struct target *t, const json_t *value,
                       char why[static GANG_WHY_MAX]) {
        const char *episode;
        unsigned again;
        usec_t last = last_round(g, t, &episode, &again);
        char when[32];

        if (last == 0 || g->now >= last + CAPTURES_APART)
                return put_round(g, t,
                                 &(struct round){ .by = json_text_of(value, "by"),
                                                  .why = json_text_of(value, "why"),
                                                  .ahead = CAPTURES_AHEAD,
                                                  .second = CAPTURES_SECOND });
        return why_fail(why, -EBUSY,
                        "there was a round of captures at %s (episode %s), and one in %u s is taken: see "
                        "its diagnosis",
                        time_text(last, when), episode, (unsigned) (CAPTURES_APART / USEC_PER_SEC));
}

static int complete_order(struct gang *g, const char *slice, const json_t *value,
                          char why[static GANG_WHY_MAX]) {
        struct target t = { .run = json_text_of(value, "run"), .serial = "" };
        const struct gang_run *r = run_on(g, slice, t.run);
        json_auto_t *alone = NULL;

        if (r) {
                t = (struct target){ .run = r->intent.spec->name,
                                     .serial = r->intent.serial,
                                     .generation = r->generation,
                                     .slices = r->slices };
                return order_round(g, &t, value, why);
        }
        if (!slice_find(g, slice))
                return why_fail(why, -ENOENT, "the registry has no slice %.63s", slice);
        alone = slice_alone(g, slice);
        t.slices = alone;
        return alone ? order_round(g, &t, value, why) : -ENOMEM;
}

int captures_want(struct gang *g, const char *slice, const json_t *value, char why[static GANG_WHY_MAX]) {
        const char *episode, *run, *serial, *by, *because;
        int64_t at, generation;
        json_t *copy;

        if (get_text(value, "episode", EPISODE_MAX, &episode, why) < 0 ||
            get_text(value, "run", NAME_MAX_RUN, &run, why) < 0 ||
            get_text(value, "serial", TEXT_MAX, &serial, why) < 0 ||
            get_text(value, "by", BY_MAX, &by, why) < 0 ||
            get_text(value, "why", GANG_WHY_MAX, &because, why) < 0 ||
            get_number(value, "at", 0, INT64_MAX, 0, &at, why) < 0 ||
            get_number(value, "generation", 0, INT64_MAX, 0, &generation, why) < 0)
                return -EBADMSG;
        if ((*run && !run_name_is_valid(run)) || (*episode && !name_is_host(episode)))
                return why_fail(why, -EBADMSG, "\"run\" or \"episode\" is no name");
        if (!*episode)
                return complete_order(g, slice, value, why);
        copy = json_deep_copy(value);
        return copy ? record_putf(g, copy, "capture/%.63s", slice) : -ENOMEM;
}
