/* SPDX-License-Identifier: Apache-2.0 */
/* Runs, from intent to end. */
#include "captures.h"
#include "missing.h"
#include "state.h"

#define ENDED_MAX 64
/* A preflight proves paths and ports: a minute and a half at worst. */
#define PREPARE_MAX (180 * USEC_PER_SEC)
#define START_MAX   (120 * USEC_PER_SEC)
#define STOP_MARGIN (60 * USEC_PER_SEC) /* beyond the grace: then who has not stopped keeps its slice out */
#define WAITS_AFTER (5 * USEC_PER_SEC)  /* beyond the grace: then they are named */

/* --- Waiting --------------------------------------------------------------------------------------- */

static int be_late(struct gang_run *r, usec_t now) {
        const char *first = json_string_value(json_array_get(r->waits_for, 0));
        char why[GANG_WHY_MAX];

        why_set(why, "%s within %" PRIu64 " s: %s",
                r->refused ? "the hosts did not agree to start" : "it could not begin",
                r->intent.spec->wait / USEC_PER_SEC, first ? first : "nothing held it up at the end");
        memcpy(r->why, why, sizeof(why));
        return run_end(r, r->refused ? OUTCOME_REFUSED : OUTCOME_LATE, now);
}

static int wait_observing(struct gang_run *r, const struct gang *g) {
        const json_t *site = json_object_get(g->records, "site/mode");
        const char *by = json_string_value(json_object_get(site, "by"));
        json_t *waits = json_array();

        (void) waits_add(waits, "the whole fleet is in mode observe, ordered by %s: nothing is started",
                         by ? by : "somebody");
        return run_set_waits(r, waits);
}

static int step_waiting(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        bool late = r->deadline > 0 && g->now >= r->deadline && !streq(r->intent.spec->late, "min");
        struct choice c = { 0 };
        bool ended;
        int x;

        if (r->intent.stop || r->taken_back) {
                why_set(r->why, "%s",
                        r->taken_back ? "its intent was taken back" : "somebody stopped it");
                return run_end(r, OUTCOME_STOPPED, g->now);
        }
        x = run_hear_late(g, r, &ended);
        if (ended)
                return x;
        if (r->deadline > 0 && g->now < r->deadline)
                *ret_next = MIN(*ret_next, r->deadline);
        if (site_observes(g))
                return late ? be_late(r, g->now) : wait_observing(r, g);
        if (g->now < r->not_before) {
                *ret_next = MIN(*ret_next, r->not_before);
                return late ? be_late(r, g->now) : 0;
        }
        x = run_choose(g, r, ret_next, &c);
        if (x > 0)
                x = run_begin(g, r, &c);
        else if (x == 0 && late)
                x = be_late(r, g->now);
        free(c.slices);
        return x;
}

/* --- Preparing ------------------------------------------------------------------------------------- */

/*
 * What the hosts say of this generation. warned: those that may start and warn of something, else those that
 * refused, or did not answer.
 */
static json_t *list_words(const struct gang *g, const struct gang_run *r, bool warned) {
        json_t *waits = warned ? json_copy(r->notes) : json_array(), *v; /* notes: of the choice */
        char buf[160];
        size_t i;

        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0;
                     s && waits && w < s->n_slots && w < json_array_size(json_object_get(v, "hosts")); w++) {
                        const struct gang_host_run *h = slot_run(slot_at(s, w), r->intent.spec->name);
                        bool ours = h && h->generation == r->generation;

                        if (warned && ours && h->state == PART_PREPARED && h->detail)
                                (void) waits_add(waits, "%s: %s: %s", s->name, slot_text(slot_at(s, w), buf),
                                                  h->detail);
                        else if (warned)
                                continue;
                        else if (ours && h->state == PART_REFUSED)
                                (void) waits_add(waits, "%s: %s: %s", s->name, slot_text(slot_at(s, w), buf),
                                                 h->detail ? h->detail : "it does not say why");
                        else if (!ours || h->state != PART_PREPARED)
                                (void) waits_add(waits, "%s: %s has not finished its checks", s->name,
                                                 slot_text(slot_at(s, w), buf));
                }
        }
        return waits;
}

/* It is tried again as a new generation, until its deadline; waits is taken over. */
static int prepare_again(const struct gang *g, struct gang_run *r, json_t *waits) {
        usec_t deadline = r->deadline;
        int x = run_wait_again(r, g->now);

        r->deadline = deadline;
        r->refused = true;
        r->refusals++;
        r->not_before = g->now + MAX(run_backoff(g, r->refusals), g->o.backoff_base);
        return worse(x, run_set_waits(r, waits));
}

static int refuse_run(struct gang *g, struct gang_run *r, const struct tally *t) {
        json_t *waits = list_words(g, r, false);
        char who[160];

        if (!waits)
                return -ENOMEM;
        if (t->refused > 0)
                why_set(r->why, "%s refused: %s", slot_text(t->bad, who),
                        t->bad_run->detail ? t->bad_run->detail : "");
        else
                why_set(r->why, "%u of %u hosts did not finish their checks in time", t->hosts - t->prepared,
                        t->hosts);
        return prepare_again(g, r, waits);
}

/* Hosts that mean different images by one name would train different programs. */
static int refuse_images(const struct gang *g, struct gang_run *r, json_t *unlike) {
        why_set(r->why, "image %s is not the same on all hosts: %s", r->intent.spec->image,
                json_string_value(json_array_get(unlike, 0)));
        return prepare_again(g, r, unlike);
}

/* What came up after the choice: it is made again. */
static int choose_again(struct gang *g, struct gang_run *r, const struct tally *t) {
        usec_t deadline = r->deadline;
        char who[160];
        int x;

        if (t->first_lost)
                why_set(r->why, "%s was lost: %s", slot_text(t->first_lost, who),
                        t->first_lost->why ? t->first_lost->why : "");
        else if (t->obstacle)
                why_set(r->why, "%s", t->obstacle);
        else
                why_set(r->why, "%s",
                        t->lost > 0 ? "a slice of it is gone" : "the fleet is in mode observe");
        x = run_wait_again(r, g->now);
        r->deadline = deadline;
        return x;
}

static int step_preparing(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        struct tally t;

        tally_count(g, r, &t);
        if (r->intent.stop || r->taken_back)
                return gang_run_stop(r, THEN_STOPPED, g->now);
        if (t.lost > 0 || t.obstacle || site_observes(g))
                return choose_again(g, r, &t);
        if (t.prepared == t.hosts) {
                json_t *unlike = NULL, *notes;
                int x = run_compare_images(g, r, &unlike);

                if (x < 0 || unlike)
                        return x < 0 ? x : refuse_images(g, r, unlike);
                notes = list_words(g, r, true);
                if (replace_value(&r->notes, notes) < 0)
                        return -ENOMEM;
                r->refused = false;
                r->refusals = 0;
                r->deadline = 0;
                run_enter(r, RUN_RUNNING, g->now);
                return 0;
        }
        if (t.refused > 0 && tally_is_final(r, t.bad_run)) {
                run_blame(r, &t);
                return run_end(r, OUTCOME_REFUSED, g->now);
        }
        if ((t.refused > 0 && t.prepared + t.refused == t.hosts) || g->now >= r->since + PREPARE_MAX)
                return refuse_run(g, r, &t);
        *ret_next = MIN(*ret_next, r->since + PREPARE_MAX);
        return 0;
}

/* --- Running --------------------------------------------------------------------------------------- */

/* Silent: there, but it says nothing of this generation, as after it was switched off and on. */
static bool is_silent(struct gang *g, struct gang_run *r, const struct tally *t, usec_t *ret_next) {
        usec_t until;

        if (t->silent == 0 && t->prepared == 0) {
                r->silent_since = 0;
                return false;
        }
        if (r->silent_since == 0)
                r->silent_since = g->now;
        until = t->silent > 0 ? r->silent_since + g->o.lease : MAX(r->silent_since, r->since) + START_MAX;
        if (g->now >= until)
                return true;
        *ret_next = MIN(*ret_next, until);
        return false;
}

static int fail_run(struct gang *g, struct gang_run *r, const struct tally *t) {
        run_blame(r, t);
        if (t->bad->notice == NOTICE_PREEMPTION)
                return gang_run_stop(r, THEN_AGAIN, g->now);
        return worse(t->bad_run->state == PART_EXITED ? captures_ended(g, r, t) : 0,
                     gang_run_stop(r, tally_is_final(r, t->bad_run) ? THEN_FAILED : THEN_RESTART, g->now));
}

static int step_running(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        struct slice *more;
        struct tally t;
        char who[160];

        tally_count(g, r, &t);
        r->step = MAX(r->step, t.step);
        run_note_over(r, &t);
        if (r->intent.stop || r->taken_back) {
                why_set(r->why, "%s",
                        r->taken_back ? "its intent was taken back" : "somebody stopped it");
                return gang_run_stop(r, THEN_STOPPED, g->now);
        }
        if (t.bad)
                return fail_run(g, r, &t);
        if (t.stopped) {
                why_set(r->why, "it was stopped on %s", slot_text(t.stopped, who));
                (void) snprintf(r->blame, sizeof(r->blame), "%s", json_string_value(t.stopped->host));
                return gang_run_stop(r, t.stopped->notice == NOTICE_NONE ? THEN_STOPPED : THEN_AGAIN,
                                     g->now);
        }
        if (t.lost > 0)
                return worse(captures_step(g, r, &t, ret_next), run_lose(g, r, &t, ret_next));
        run_evidence_clear(r);
        r->unsure_since = 0;
        if (t.success == t.hosts)
                return run_succeed(r, g->now);
        if (is_silent(g, r, &t, ret_next)) {
                const struct slot *s = t.first_silent;

                why_set(r->why, "%s does not report it any more: it restarted",
                        s ? slot_text(s, who) : "a host");
                (void) snprintf(r->cause, sizeof(r->cause), CAUSE_HOST_LOST);
                (void) snprintf(r->blame, sizeof(r->blame), "%s", s ? json_string_value(s->host) : "");
                return gang_run_stop(r, THEN_AGAIN, g->now);
        }
        more = t.presumed == 0 && t.success == 0 ? run_grows(g, r, ret_next) : NULL;
        if (more) {
                why_set(r->why, "slice %s is ready: it grows from %zu to %zu slices", more->name,
                        json_array_size(r->slices), json_array_size(r->slices) + 1);
                return gang_run_stop(r, THEN_AGAIN, g->now);
        }
        return worse(captures_step(g, r, &t, ret_next), run_set_waits(r, json_array()));
}

/* --- Stopping -------------------------------------------------------------------------------------- */

static int name_alive(struct gang_run *r, const struct tally *t) {
        json_t *waits = json_array();
        char who[160];

        (void) waits_add(waits, "%s has not stopped generation %" PRIu64 " yet (hosts that have it: %u)",
                         slot_text(t->first_alive, who), r->generation, t->alive);
        return run_set_waits(r, waits);
}

static int restart_run(struct gang *g, struct gang_run *r) {
        bool knows_steps = r->step > 0;

        r->idle = r->step > r->from_step ? 0 : r->idle + 1;
        if (knows_steps && r->idle >= g->o.no_progress) {
                char why[GANG_WHY_MAX];

                why_set(why, "%u restarts in a row without progress, step %" PRIi64 "; the last: %.300s",
                        r->idle, r->step, r->why);
                memcpy(r->why, why, sizeof(why));
                return run_end(r, OUTCOME_FAILED, g->now);
        }
        if (r->restarts >= r->intent.spec->restarts) {
                char why[GANG_WHY_MAX];

                why_set(why, "no restart is left of %u; the last: %.400s", r->intent.spec->restarts, r->why);
                if (r->intent.spec->restarts > 0)
                        memcpy(r->why, why, sizeof(why));
                return run_end(r, OUTCOME_FAILED, g->now);
        }
        r->restarts++;
        r->not_before = g->now + run_backoff(g, r->idle);
        return run_wait_again(r, g->now);
}

static int step_stopping(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        usec_t named = r->since + r->intent.spec->grace + WAITS_AFTER,
               most = r->since + r->intent.spec->grace + STOP_MARGIN;
        struct tally t;

        tally_count(g, r, &t);
        r->step = MAX(r->step, t.step);
        run_note_over(r, &t);
        if ((r->then == THEN_RESTART || r->then == THEN_FAILED) && t.bad && startswith(r->cause, "peer") &&
            (!startswith(t.bad_run->cause, "peer") || tally_left_early(&t)))
                run_blame(r, &t); /* who failed, or left, first is heard last now and then */
        if (r->then == THEN_RESTART && t.first_lost && streq(r->cause, "peer-lost"))
                run_blame_lost(r, &t); /* and a host without power is not heard at all */
        if (r->then == THEN_RESTART && t.bad && tally_is_final(r, t.bad_run)) {
                run_blame(r, &t);
                r->then = THEN_FAILED;
        }
        if (r->intent.stop && r->then != THEN_FAILED && r->then != THEN_STOPPED) {
                why_set(r->why, "somebody stopped it");
                r->then = THEN_STOPPED;
                r->dirty = true;
        }
        if ((t.alive > 0 || t.presumed > 0) && g->now < most) {
                *ret_next = MIN(*ret_next, g->now < named ? named : most);
                return t.alive > 0 && g->now >= named ? name_alive(r, &t) : 0;
        }
        r->step_shown = r->step;
        switch (r->then) {
        case THEN_STOPPED:
                return run_end(r, OUTCOME_STOPPED, g->now);
        case THEN_FAILED:
                return run_end(r, OUTCOME_FAILED, g->now);
        case THEN_RESTART:
                return t.lost > 0 ? run_wait_again(r, g->now)
                                  : restart_run(g, r); /* no fault of the program when a host was lost */
        case THEN_AGAIN:
        case THEN_NOTHING:
        case _THEN_MAX:
                break;
        }
        return run_wait_again(r, g->now);
}

/* --- All ------------------------------------------------------------------------------------------- */

static int step_run(struct gang *g, struct gang_run *r, usec_t *ret_next) {
        switch (r->state) {
        case RUN_WAITING:
                return step_waiting(g, r, ret_next);
        case RUN_PREPARING:
                return step_preparing(g, r, ret_next);
        case RUN_RUNNING:
                return step_running(g, r, ret_next);
        case RUN_STOPPING:
                return step_stopping(g, r, ret_next);
        case RUN_ENDED:
                return run_step_ended(g, r);
        case _RUN_STATE_MAX:
                break;
        }
        return 0;
}

static void claim_slices(struct gang *g) {
        for (size_t i = 0; i < g->n_slices; i++)
                g->slices[i]->run = NULL;
        for (size_t i = 0; i < g->n_runs; i++) {
                size_t k;
                json_t *v;

                if (g->runs[i]->state == RUN_ENDED)
                        continue;
                json_array_foreach (g->runs[i]->slices, k, v) {
                        struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                        if (s && !s->run)
                                s->run = g->runs[i];
                }
        }
}

static int put_changed(struct gang *g) {
        int x = 0;

        for (size_t i = 0; i < g->n_runs && x >= 0; i++) {
                json_t *v;

                if (!g->runs[i]->dirty)
                        continue;
                v = run_record(g, g->runs[i]);
                x = v ? record_putf(g, v, "run/%s", g->runs[i]->intent.spec->name) : -ENOMEM;
                g->runs[i]->dirty = x < 0;
        }
        return x;
}

/* Of those that have ended the oldest. */
static int forget_ended(struct gang *g) {
        for (;;) {
                size_t n = 0, oldest = 0;
                int x;

                for (size_t i = 0; i < g->n_runs; i++)
                        if (g->runs[i]->state == RUN_ENDED &&
                            (n++ == 0 || g->runs[i]->since < g->runs[oldest]->since))
                                oldest = i;
                if (n <= ENDED_MAX)
                        return 0;
                x = worse(record_putf(g, NULL, "run/%s", g->runs[oldest]->intent.spec->name),
                          record_putf(g, NULL, "intent/%s", g->runs[oldest]->intent.spec->name));
                gang_run_free(g->runs[oldest]);
                g->n_runs--;
                memmove(&g->runs[oldest], &g->runs[oldest + 1], (g->n_runs - oldest) * sizeof(g->runs[0]));
                if (x < 0)
                        return x;
        }
}

int runs_step(struct gang *g, usec_t *ret_next) {
        bool moved = true;
        int x = 0;

        for (size_t i = 0; i < g->n_runs && x >= 0; i++)
                if (g->runs[i]->over)
                        x = run_restore_over(g, g->runs[i]);
        /* One run's end is another's beginning; each moves a few times at most. */
        for (unsigned round = 0; moved && round < 8 && x >= 0; round++) {
                moved = false;
                claim_slices(g);
                for (size_t i = 0; i < g->n_runs && x >= 0; i++) {
                        enum run_state before = g->runs[i]->state;

                        x = step_run(g, g->runs[i], ret_next);
                        moved = moved || g->runs[i]->state != before;
                }
        }
        if (moved)
                *ret_next = g->now; /* again at once */
        if (x >= 0)
                x = forget_ended(g);
        return x < 0 ? x : put_changed(g);
}
