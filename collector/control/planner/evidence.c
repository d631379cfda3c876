/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#define GAP_MIN USEC_PER_SEC
#define GAP_MAX (60 * USEC_PER_SEC) /* between questions, when it has gone on for long */

static void stop_asking(struct run *r) {
        r->dirty = r->dirty || r->watch.host[0];
        r->watch.host[0] = '\0';
        r->watch.open = false;
}

static void ask(struct gang *g, struct run *r) {
        struct watch *w = &r->watch;
        const struct seat *s = tally_pick(g, r, w->number);

        if (!s) {
                stop_asking(r);
                return;
        }
        w->number = w->number < UINT32_MAX - 1 ? w->number + 1 : 1;
        w->asked = g->now;
        w->open = true;
        (void) snprintf(w->host, sizeof(w->host), "%s", json_string_value(s->host));
        r->dirty = true;
}

static void set_quiet(struct run *r, usec_t since) {
        r->dirty = r->dirty || r->watch.quiet != since;
        r->watch.quiet = since;
}

/*
 * What was known before counts no more: the step of now is the one to rise from. A planner that took over
 * waits for the answer to the question of the one before it.
 */
static void begin(struct gang *g, struct run *r, const struct tally *t) {
        struct watch *w = &r->watch;
        bool first = w->began == 0, taken_over = first && (w->host[0] || w->quiet > 0);

        w->began = first ? MAX(t->lost_since, g->loaded) : g->now;
        w->asked = g->now;
        w->answered = 0;
        w->step = -1;
        w->open = taken_over && w->host[0];
        if (taken_over)
                return;
        set_quiet(r, w->began);
        ask(g, r);
}

static bool has_answered(const struct gang *g, const struct run *r) {
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0; s && w < s->n_seats; w++) {
                        const struct host_run *h =
                                s->seats[w].live ? seat_run(&s->seats[w], r->intent.spec->name) : NULL;

                        if (h && h->asked == r->watch.number &&
                            streq(json_string_value(s->seats[w].host), r->watch.host))
                                return true;
                }
        }
        return false;
}

static void take_answer(const struct gang *g, struct run *r, const struct tally *t) {
        struct watch *w = &r->watch;

        if (!w->open || !has_answered(g, r))
                return;
        w->open = false;
        if (w->answered > 0 && t->step > w->step)
                set_quiet(r, 0);
        else if (w->answered > 0 && w->quiet == 0)
                set_quiet(r, w->answered); /* from then on no step was seen */
        w->step = t->step;
        w->answered = g->now;
}

usec_t evidence_until(struct gang *g, struct run *r, const struct tally *t, usec_t *ret_next) {
        struct watch *w = &r->watch;
        usec_t shrink_after = run_shrink_after(g, r), patience = MAX(shrink_after, t->step_time * 5 / 2),
               gap;

        if (w->began == 0 || t->lost > w->lost)
                begin(g, r, t);
        w->lost = t->lost;
        take_answer(g, r, t);
        gap = MAX(MAX(MIN((g->now - w->began) / 4, GAP_MAX), shrink_after / 3), GAP_MIN);
        if (g->now >= w->asked + gap) {
                if (w->open && w->quiet == 0) /* who was asked last is silent: so is the step */
                        set_quiet(r, MAX(w->answered, w->began));
                ask(g, r);
        }
        if (w->host[0])
                *ret_next = MIN(*ret_next, w->asked + gap);
        return w->quiet > 0 ? MAX(w->quiet, w->began) + patience : USEC_INFINITY;
}

void run_evidence_clear(struct run *r) {
        unsigned number = r->watch.number;

        if (r->watch.began == 0 && !r->watch.host[0] && r->watch.quiet == 0)
                return;
        set_quiet(r, 0);
        stop_asking(r);
        r->watch = (struct watch){ .number = number };
}
