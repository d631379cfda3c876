/* SPDX-License-Identifier: Apache-2.0 */
/* What every step of a run is made of, and how a generation begins. */
#include <assert.h>

#include "json_text.h"
#include "state.h"

#define HISTORY_MAX 32

/* --- Transitions ----------------------------------------------------------------------------------- */

void run_evidence_clear(struct gang_run *r) {
        r->dirty = r->dirty || r->watch.host[0] || r->watch.quiet > 0;
        r->watch = (struct gang_watch){ .number = r->watch.number };
}

void run_enter(struct gang_run *r, enum run_state state, usec_t now) {
        r->state = state;
        r->since = now;
        r->silent_since = r->unsure_since = r->stalled = 0;
        run_evidence_clear(r);
        r->step_shown = r->step;
        r->dirty = true;
}

int run_set_waits(struct gang_run *r, json_t *waits) {
        if (!waits)
                return -ENOMEM;
        if (json_equal(r->waits_for, waits)) {
                json_decref(waits);
                return 0;
        }
        r->dirty = true;
        return replace_value(&r->waits_for, waits);
}

/* The last entry of the history ends now. */
static int run_close_history(struct gang_run *r, usec_t now) {
        size_t n = json_array_size(r->history);
        json_t *last = n > 0 ? json_array_get(r->history, n - 1) : NULL;
        json_auto_t *history = NULL, *entry = NULL;

        if (!last || json_integer_value(json_object_get(last, "to")) != 0)
                return 0;
        history = json_copy(r->history);
        entry = json_copy(last);
        if (!history || !entry || json_object_set_new(entry, "to", json_integer((json_int_t) now)) < 0 ||
            json_array_set(history, n - 1, entry) < 0)
                return -ENOMEM;
        return replace_value(&r->history, TAKE_PTR(history));
}

int run_end(struct gang_run *r, enum run_outcome outcome, usec_t now) {
        r->outcome = outcome;
        r->deadline = r->not_before = r->last_call = 0;
        r->then = THEN_NOTHING;
        run_enter(r, RUN_ENDED, now);
        return worse(run_close_history(r, now), run_set_waits(r, json_array()));
}

int run_wait_again(struct gang_run *r, usec_t now) {
        r->deadline = r->intent.spec->wait > 0 ? now + r->intent.spec->wait : 0;
        r->then = THEN_NOTHING;
        run_enter(r, RUN_WAITING, now);
        return worse(run_close_history(r, now), run_set_waits(r, json_array()));
}

int gang_run_stop(struct gang_run *r, enum run_then then, usec_t now) {
        r->then = then;
        r->deadline = 0;
        run_enter(r, RUN_STOPPING, now);
        return run_set_waits(r, json_array());
}

usec_t run_backoff(const struct gang *g, unsigned n) {
        usec_t wait = g->o.backoff_base;

        if (n == 0)
                return 0;
        while (--n > 0 && wait < g->o.backoff_max)
                wait *= 2;
        return MIN(wait, g->o.backoff_max);
}

/* --- A generation begins --------------------------------------------------------------------------- */

/*
 * What hosts say raises it up to here alone: none of them brings it to its end, and behind this there is
 * room for more than the planner ever counts.
 */
#define GENERATION_HEARD (UINT64_C(1) << 53)

/* Above all that any host says it knows of this name: hosts refuse a smaller one. */
static uint64_t next_generation(const struct gang *g, const struct gang_run *r, const struct choice *c) {
        uint64_t highest = r->generation;

        (void) g;
        for (size_t i = 0; i < c->n; i++)
                for (unsigned w = 0; w < c->slices[i]->n_slots; w++) {
                        const struct gang_host_run *h =
                                slot_run(slot_at(c->slices[i], w), r->intent.spec->name);

                        if (h && h->generation <= GENERATION_HEARD)
                                highest = MAX(highest, h->generation);
                }
        return highest + 1;
}

static json_t *slice_part(struct slice *s) {
        json_t *hosts = json_array();

        for (unsigned w = 0; w < s->hosts; w++)
                hosts = json_list_add(hosts, json_incref(slot_place(slot_at(s, w))));
        return hosts ? json_pack("{s:s, s:I, s:o}", "slice", s->name, "generation",
                                 (json_int_t) s->generation, "hosts", hosts)
                     : NULL;
}

static json_t *coordinator_of(const struct gang_run *r, const struct slice *s) {
        const char *address = json_string_value(json_array_get(slot_at(s, 0)->address, 0));

        return json_pack("{s:O, s:s, s:I}", "host", slot_at(s, 0)->host, "address", address ? address : "",
                         "port", (json_int_t) r->intent.spec->port);
}

static int add_history(struct gang_run *r, json_t *names, usec_t now) {
        json_t *history;
        int x = run_close_history(r, now);

        if (x < 0)
                return x;
        history = json_list_add(json_copy(r->history),
                                json_pack("{s:I, s:I, s:i, s:O, s:s}", "generation",
                                          (json_int_t) r->generation, "from", (json_int_t) now, "to", 0,
                                          "slices", names, "why", r->why));
        if (!history)
                return -ENOMEM;
        if (json_array_size(history) > HISTORY_MAX)
                (void) json_array_remove(history, 0);
        return replace_value(&r->history, history);
}

static int take_slices(struct gang *g, struct gang_run *r, const struct choice *c, json_t *names) {
        json_auto_t *slices = json_array();

        for (size_t i = 0; i < c->n; i++)
                slices = json_list_add(slices, slice_part(c->slices[i]));
        for (size_t i = 0; slices && i < c->n; i++)
                if (json_array_append_new(names, json_string(c->slices[i]->name)) < 0)
                        return -ENOMEM;
        if (!slices)
                return -ENOMEM;
        for (size_t i = 0; i < g->n_slices; i++)
                if (g->slices[i]->run == r)
                        g->slices[i]->run = NULL;
        for (size_t i = 0; i < c->n; i++)
                c->slices[i]->run = r;
        (void) replace_value(&r->slices, TAKE_PTR(slices)); /* they are there */
        json_decref(r->coordinator);
        r->coordinator = coordinator_of(r, c->slices[0]);
        return r->coordinator ? 0 : -ENOMEM;
}

int run_begin(struct gang *g, struct gang_run *r, const struct choice *c) {
        uint64_t before = r->generation;
        json_auto_t *names = json_array();
        int x;

        if (!names)
                return -ENOMEM;
        r->generation = next_generation(g, r, c);
        assert(c->n > 0 && r->generation > before);
        r->last_call = 0;
        r->from_step = r->step;
        r->cause[0] = r->blame[0] = '\0';
        x = take_slices(g, r, c, names);
        if (x >= 0)
                x = add_history(r, names, g->now);
        run_enter(r, RUN_PREPARING, g->now);
        return x;
}
