/* SPDX-License-Identifier: Apache-2.0 */
#include "missing.h"

#include "state.h"

/* --- Whether it goes on ---------------------------------------------------------------------------- */

/*
 * Whether a run goes on though hosts of it are missing. A host that is not heard may have lost its agent
 * alone: training goes on without that. In synchronous training no step can be completed without every host,
 * so a step of the others that rises is the proof. It is asked for: one host at a time, by the run's record
 * ("ask"); it answers with its step ("asked" in its own record).
 */

#define GAP_MIN USEC_PER_SEC
#define GAP_MAX (60 * USEC_PER_SEC) /* between questions, when it has gone on for long */

static void stop_asking(struct gang_run *r) {
        r->dirty = r->dirty || r->watch.host[0];
        r->watch.host[0] = '\0';
        r->watch.open = false;
}

static void set_quiet(struct gang_run *r, usec_t since) {
        r->dirty = r->dirty || r->watch.quiet != since;
        r->watch.quiet = since;
}

static void ask_next_host(struct gang *g, struct gang_run *r) {
        struct gang_watch *w = &r->watch;
        const struct slot *s = tally_pick(g, r, w->number);

        if (!s) { /* nobody can be asked any more: from the last answer on no step is seen */
                stop_asking(r);
                if (w->quiet == 0)
                        set_quiet(r, MAX(w->answered, w->began));
                return;
        }
        w->number = w->number < UINT32_MAX - 1 ? w->number + 1 : 1;
        w->asked = g->now;
        w->open = true;
        (void) snprintf(w->host, sizeof(w->host), "%s", json_string_value(s->host));
        r->dirty = true;
}

/*
 * What was known before counts no more: the step of now is the one to rise from. A planner that took over
 * waits for the answer to the question of the one before it.
 */
static void begin_watch(struct gang *g, struct gang_run *r, const struct tally *t) {
        struct gang_watch *w = &r->watch;
        bool first = w->began == 0, taken_over = first && (w->host[0] || w->quiet > 0);

        w->began = first ? MAX(t->lost_since, g->loaded) : g->now;
        w->asked = g->now;
        w->answered = 0;
        w->step = -1;
        w->open = taken_over && w->host[0];
        if (taken_over)
                return;
        set_quiet(r, w->began);
        ask_next_host(g, r);
}

static bool has_answered(const struct gang *g, const struct gang_run *r) {
        size_t i;
        json_t *v;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0; s && w < s->n_slots; w++) {
                        const struct gang_host_run *h =
                                slot_at(s, w)->live ? slot_run(slot_at(s, w), r->intent.spec->name) : NULL;

                        if (h && h->asked == r->watch.number &&
                            streq(json_string_value(slot_at(s, w)->host), r->watch.host))
                                return true;
                }
        }
        return false;
}

static void take_answer(const struct gang *g, struct gang_run *r, const struct tally *t) {
        struct gang_watch *w = &r->watch;

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

/* Asks when it is time. Returns when the run is started without them; USEC_INFINITY: not as things are. */
static usec_t evidence_until(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next) {
        struct gang_watch *w = &r->watch;
        usec_t shrink_after = run_shrink_after(g, r), patience = MAX(shrink_after, t->step_time * 5 / 2),
               gap;

        if (w->began == 0 || t->lost > w->lost)
                begin_watch(g, r, t);
        w->lost = t->lost;
        take_answer(g, r, t);
        gap = MAX(MAX(MIN((g->now - w->began) / 4, GAP_MAX), shrink_after / 3), GAP_MIN);
        if (g->now >= w->asked + gap) {
                if (w->open && w->quiet == 0) /* who was asked last is silent: so is the step */
                        set_quiet(r, MAX(w->answered, w->began));
                ask_next_host(g, r);
        }
        if (w->host[0])
                *ret_next = MIN(*ret_next, w->asked + gap);
        return w->quiet > 0 ? MAX(w->quiet, w->began) + patience : USEC_INFINITY;
}

/* --- What follows ---------------------------------------------------------------------------------- */

/* Nobody can say how it is: so long only agents are taken to be away. */
#define UNHEARD_MAX (600 * USEC_PER_SEC)

int run_succeed(struct gang_run *r, usec_t now) {
        why_set(r->why, "all of its hosts ended it with success");
        (void) snprintf(r->cause, sizeof(r->cause), "success");
        r->blame[0] = '\0';
        return run_end(r, OUTCOME_SUCCESS, now);
}

static void blame_left(struct gang_run *r, const struct tally *t) {
        char who[160];

        why_set(r->why,
                "%s left it first, with success, while the others still trained: they lost the connection "
                "to it",
                slot_text(t->first_success, who));
        (void) snprintf(r->blame, sizeof(r->blame), "%s", json_string_value(t->first_success->host));
        (void) snprintf(r->cause, sizeof(r->cause), "left");
        r->dirty = true;
}

static void blame_bad(struct gang_run *r, const struct tally *t) {
        const struct gang_host_run *h = t->bad_run;
        const char *word = h->state == PART_REFUSED ? "did not start it" : "ended it",
                   *detail = h->detail ? h->detail : "";
        char who[160];

        (void) snprintf(r->blame, sizeof(r->blame), "%s", json_string_value(t->bad->host));
        (void) snprintf(r->cause, sizeof(r->cause), "%s",
                        h->state == PART_REFUSED && !h->cause[0] ? "refused" : h->cause);
        if (*detail) /* it says the status in words */
                why_set(r->why, "%s %s (%s): %.*s", slot_text(t->bad, who), word, r->cause,
                        h->state == PART_REFUSED ? (int) strlen(detail) : (int) strcspn(detail, "\n"),
                        detail);
        else
                why_set(r->why, "%s %s: %s%s%s", slot_text(t->bad, who), word, r->cause,
                        *h->status ? " " : "", h->status);
        r->dirty = true;
}

void run_blame(struct gang_run *r, const struct tally *t) {
        if (tally_left_early(t))
                blame_left(r, t);
        else
                blame_bad(r, t);
}

void run_blame_lost(struct gang_run *r, const struct tally *t) {
        char who[160];

        why_set(r->why, "%s was lost: %s", slot_text(t->first_lost, who),
                t->first_lost->why ? t->first_lost->why : "its lease ended");
        (void) snprintf(r->blame, sizeof(r->blame), "%s", json_string_value(t->first_lost->host));
        (void) snprintf(r->cause, sizeof(r->cause), "%s",
                        t->leaving > 0 && t->first_lost->notice == NOTICE_PREEMPTION ? "preempted"
                                                                                     : CAUSE_HOST_LOST);
        r->dirty = true;
}

/* Where nobody can be asked, or who could be has nothing to report any more. */
static int wait_for_word(struct gang_run *r, const struct tally *t) {
        json_t *waits = json_array();
        char who[160], when[32];

        if (t->success > 0)
                (void) waits_add(waits,
                                 "%s missing since %s: %u of %u hosts ended it with success, how it ended "
                                 "there is not known",
                                 slot_text(t->first_lost, who), time_text(t->lost_since, when), t->success,
                                 t->hosts);
        else
                (void) waits_add(
                        waits,
                        "none of its %u host%s is heard, the first since %s: whether it goes on is not "
                        "known",
                        t->hosts, t->hosts == 1 ? "" : "s", time_text(t->lost_since, when));
        return run_set_waits(r, waits);
}

/* What ended with success somewhere is not started again because another host is not heard; nor is that a
 * success. */
static int be_unsure(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next) {
        char who[160];

        if (r->unsure_since == 0)
                r->unsure_since = g->now;
        if (g->now < r->unsure_since + UNHEARD_MAX) {
                *ret_next = MIN(*ret_next, r->unsure_since + UNHEARD_MAX);
                return wait_for_word(r, t);
        }
        why_set(r->why, "%u of %u hosts ended it with success; how it ended on %s is not known", t->success,
                t->hosts, slot_text(t->first_lost, who));
        (void) snprintf(r->blame, sizeof(r->blame), "%s", json_string_value(t->first_lost->host));
        (void) snprintf(r->cause, sizeof(r->cause), "%s", CAUSE_UNKNOWN);
        return gang_run_stop(r, THEN_FAILED, g->now);
}

static int begin_without(struct gang *g, struct gang_run *r, const struct tally *t) {
        if (t->first_lost)
                run_blame_lost(r, t);
        else {
                why_set(r->why, "a slice of it is gone");
                r->blame[0] = '\0';
                (void) snprintf(r->cause, sizeof(r->cause), CAUSE_HOST_LOST);
        }
        return gang_run_stop(r, THEN_AGAIN, g->now);
}

int run_lose(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next) {
        bool unheard = t->there == 0 && t->leaving == 0;
        json_t *waits;
        char who[160], when[32];
        usec_t until;

        if (!t->first_lost)
                return begin_without(g, r, t);
        if (t->success > 0)
                return be_unsure(g, r, t, ret_next);
        until = t->leaving > 0 ? 0
                : unheard      ? t->lost_since + UNHEARD_MAX
                               : evidence_until(g, r, t, ret_next);
        if (g->now >= until)
                return begin_without(g, r, t);
        *ret_next = MIN(*ret_next, until);
        if (unheard)
                return wait_for_word(r, t);
        waits = json_array();
        (void) waits_add(waits,
                         until == USEC_INFINITY
                                 ? "%s missing since %s: the steps of the others go on, and so does the run"
                                 : "%s missing since %s: the others are asked for their steps",
                         slot_text(t->first_lost, who), time_text(t->lost_since, when));
        return run_set_waits(r, waits);
}

/* How it ended on missing hosts is in the record. */
void run_note_over(struct gang_run *r, const struct tally *t) {
        r->dirty = r->dirty || r->n_over != t->over;
        r->n_over = t->over;
}

/* An end that comes of the stop, or of the loss, itself; tpu-launchd's words. */
static bool next_state(const char *cause) {
        static const char *const causes[] = { "timeout", "unkillable", "host-down", CAUSE_UNKNOWN };

        for (size_t i = 0; i < ELEMENTSOF(causes); i++)
                if (streq(cause, causes[i]))
                        return true;
        return startswith(cause, "peer");
}

/* Its program failed there, and that is why the others lost it: not because its host was gone. */
static int hear_failure(struct gang *g, struct gang_run *r, const struct tally *t, bool *ret_ended) {
        run_blame(r, t);
        *ret_ended = tally_is_final(r, t->bad_run);
        return *ret_ended ? run_end(r, OUTCOME_FAILED, g->now) : 0;
}

/* It was stopped because a host was not heard, and that one comes back and says how it ended there. */
int run_hear_late(struct gang *g, struct gang_run *r, bool *ret_ended) {
        struct tally t;
        char who[160];

        *ret_ended = false;
        if (r->generation == 0 || !streq(r->cause, CAUSE_HOST_LOST))
                return 0;
        tally_count(g, r, &t);
        if (t.bad && !next_state(t.bad_run->cause))
                return hear_failure(g, r, &t, ret_ended);
        if (t.success == 0)
                return 0;
        *ret_ended = true;
        if (t.success == t.hosts)
                return run_succeed(r, g->now);
        why_set(r->why,
                "%s ended it with success while it was not heard, and the others were stopped for that: see "
                "the last "
                "steps of both, and start it again if they are not the end",
                slot_text(t.first_success, who));
        (void) snprintf(r->cause, sizeof(r->cause), CAUSE_UNKNOWN);
        return run_end(r, OUTCOME_FAILED, g->now);
}

/* Who was missing at the end is back, and ended it well, too. */
int run_step_ended(struct gang *g, struct gang_run *r) {
        struct tally t;

        if (r->outcome != OUTCOME_FAILED || !streq(r->cause, CAUSE_UNKNOWN))
                return 0;
        tally_count(g, r, &t);
        return t.hosts > 0 && t.success == t.hosts ? run_succeed(r, g->now) : 0;
}
