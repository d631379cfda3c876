/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>

#include "tally.h"

/* 93: a program's own "do not start me again" (NVIDIA's resiliency extension has the same). */
#define STATUS_FINAL "93"

static bool is_never(const struct gang_host_run *h) {
        return (streq(h->code, "exited") && streq(h->status, STATUS_FINAL)) || startswith(h->cause, "never");
}

bool tally_is_final(const struct gang_run *r, const struct gang_host_run *h) {
        return is_never(h) || (streq(h->cause, PART_NOT_STARTED) && r->step <= 0 && r->restarts == 0 &&
                               json_array_size(r->history) <= 1);
}

/* Others fail when one does: who only lost its peers is blamed last. Where a run began to end is another
 * question (collector/diagnose/last_words.h): a part says no time, and what forbids a restart counts
 * whenever it was. */
static unsigned blame_of(const struct gang_host_run *h) {
        if (is_never(h))
                return 4;
        if (streq(h->cause, PART_NOT_STARTED))
                return 3;
        return startswith(h->cause, "peer") ? 1 : 2;
}

static void count_exit(struct tally *t, const struct slot *s, const struct gang_host_run *h) {
        if (streq(h->cause, "success")) {
                t->success++;
                t->first_success = t->first_success ? t->first_success : s;
                return;
        }
        if (h->state == PART_STOPPED || streq(h->cause, "stopped")) {
                t->stopped = t->stopped ? t->stopped : s;
                return;
        }
        t->failed++;
        if (!t->bad || blame_of(h) > blame_of(t->bad_run)) {
                t->bad = s;
                t->bad_run = h;
        }
}

bool tally_left_early(const struct tally *t) {
        return t->first_success && t->bad_run && t->success < t->failed &&
               startswith(t->bad_run->cause, "peer");
}

static void count_suspicion(struct tally *t, const struct slot *s, const struct gang_host_run *h) {
        if (h->suspected == 0 || h->may_be_pause)
                return;
        t->suspecting++;
        if (t->suspicion && t->suspicion->suspected <= h->suspected)
                return;
        t->suspects = s;
        t->suspicion = h;
}

static void count_part(struct tally *t, const struct slot *s, const struct gang_host_run *h) {
        switch (h->state) {
        case PART_PREPARED:
                t->prepared++;
                break;
        case PART_REFUSED:
                t->refused++;
                if (!t->bad || blame_of(h) > blame_of(t->bad_run)) {
                        t->bad = s;
                        t->bad_run = h;
                }
                break;
        case PART_STARTING:
        case PART_RUNNING:
                t->alive++;
                t->first_alive = t->first_alive ? t->first_alive : s;
                count_suspicion(t, s, h);
                break;
        case PART_EXITED:
        case PART_STOPPED:
                count_exit(t, s, h);
                break;
        case PART_NONE:
        case PART_PREPARING:
        case _PART_STATE_MAX:
                break;
        }
}

static void count_lost(struct tally *t, const struct slot *s) {
        if (!t->first_lost || s->since < t->lost_since) {
                t->first_lost = s;
                t->lost_since = s->since;
        }
        t->lost++;
        t->leaving += s->notice == NOTICE_PREEMPTION || s->shut_down;
}

bool host_run_is_over(const struct gang_run *r, const struct gang_host_run *h) {
        return h && h->generation == r->generation && (h->state == PART_EXITED || h->state == PART_STOPPED);
}

static void count_slot(const struct gang_run *r, struct tally *t, const struct slot *s) {
        const struct gang_host_run *h = slot_run(s, r->intent.spec->name);

        if (!s->live && host_run_is_over(r, h)) {
                t->over++;
                count_part(t, s, h);
                return;
        }
        if (!s->live) {
                count_lost(t, s);
                return;
        }
        t->there++;
        if (s->presumed || s->runs_unknown)
                t->presumed++;
        if (h && h->generation < r->generation && (h->state == PART_STARTING || h->state == PART_RUNNING)) {
                t->alive++; /* of an older generation: it has that to stop first */
                t->first_alive = t->first_alive ? t->first_alive : s;
        }
        if (!h || h->generation != r->generation) {
                if (!s->presumed && !s->runs_unknown) {
                        t->silent++;
                        t->first_silent = t->first_silent ? t->first_silent : s;
                }
                return;
        }
        t->step = MAX(t->step, h->step);
        t->step_time = MAX(t->step_time, h->step_time);
        count_part(t, s, h);
}

static const struct gang_host_run *alive_on(const struct gang_run *r, const struct slot *s) {
        const struct gang_host_run *h = s->live && !s->presumed ? slot_run(s, r->intent.spec->name) : NULL;

        return h && h->generation == r->generation && (h->state == PART_STARTING || h->state == PART_RUNNING)
                       ? h
                       : NULL;
}

/* Those that report steps, or all; until n of them were seen. */
static const struct slot *walk_slots(const struct gang *g, const struct gang_run *r, bool steps, unsigned n,
                                     unsigned *ret_n) {
        unsigned seen = 0;
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0; s && w < s->n_slots && w < json_array_size(json_object_get(v, "hosts"));
                     w++) {
                        const struct gang_host_run *h = alive_on(r, slot_at(s, w));

                        if (h && (!steps || h->step >= 0) && seen++ == n)
                                return slot_at(s, w);
                }
        }
        *ret_n = seen;
        return NULL;
}

const struct slot *tally_pick(const struct gang *g, const struct gang_run *r, unsigned n) {
        for (int steps = 1; steps >= 0; steps--) {
                unsigned all = 0;

                (void) walk_slots(g, r, steps, UINT_MAX, &all);
                if (all > 0)
                        return walk_slots(g, r, steps, n % all, &all);
        }
        return NULL;
}

void tally_count(const struct gang *g, const struct gang_run *r, struct tally *ret) {
        struct tally t = { .step = -1 };
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v) {
                struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));
                size_t n = json_array_size(json_object_get(v, "hosts"));

                t.hosts += (unsigned) n;
                if (!s) {
                        t.lost += (unsigned) n;
                        continue;
                }
                if (s->obstacle && !t.obstacle)
                        t.obstacle = s->obstacle;
                for (size_t w = 0; w < n; w++)
                        if (w < s->n_slots)
                                count_slot(r, &t, slot_at(s, w));
                        else
                                t.lost++;
        }
        *ret = t;
}
