/* SPDX-License-Identifier: Apache-2.0 */
#include "grow.h"
#include "state.h"
#include "tally.h"

static const char *const state_names[_RUN_STATE_MAX] = {
        [RUN_WAITING] = "waiting",   [RUN_PREPARING] = "preparing", [RUN_RUNNING] = "running",
        [RUN_STOPPING] = "stopping", [RUN_ENDED] = "ended",
};
static const char *const outcome_names[_OUTCOME_MAX] = {
        [OUTCOME_NONE] = "",           [OUTCOME_SUCCESS] = "success", [OUTCOME_FAILED] = "failed",
        [OUTCOME_STOPPED] = "stopped", [OUTCOME_REFUSED] = "refused", [OUTCOME_LATE] = "late",
};
static const char *const then_names[_THEN_MAX] = {
        [THEN_NOTHING] = "",        [THEN_AGAIN] = "again",   [THEN_RESTART] = "restart",
        [THEN_STOPPED] = "stopped", [THEN_FAILED] = "failed",
};

static int index_of(const char *const names[], int n, const char *name) {
        for (int i = 0; i < n; i++)
                if (streq(names[i], name))
                        return i;
        return -EBADMSG;
}

static json_t *planner_part(const struct gang *g, const struct gang_run *r) {
        return json_pack("{s:s, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "then",
                         then_names[r->then], "refused", r->refused, "idle", (json_int_t) r->idle,
                         "refusals", (json_int_t) r->refusals, "asked", (json_int_t) r->watch.number,
                         "quiet", (json_int_t) r->watch.quiet, "from_step", (json_int_t) r->from_step,
                         "not_before", (json_int_t) r->not_before, "last_call", (json_int_t) r->last_call,
                         "stalled", (json_int_t) r->stalled, "over", run_over(g, r));
}

static json_t *ask_part(const struct gang_watch *w) {
        return w->host[0] ? json_pack("{s:s, s:I}", "host", w->host, "number", (json_int_t) w->number)
                          : json_null();
}

json_t *run_record(const struct gang *g, const struct gang_run *r) {
        json_t *coordinator = r->coordinator ? json_incref(r->coordinator) : json_null();

        return json_pack("{s:i, s:s, s:s, s:I, s:s, s:I, s:o, s:O, s:O, s:o, s:I, s:O, s:I, s:s, s:s, s:s, "
                         "s:I, s:O, s:o, s:o, s:O}",
                         "v", 1, "name", r->intent.spec->name, "serial", r->intent.serial, "generation",
                         (json_int_t) r->generation, "state", state_names[r->state], "since",
                         (json_int_t) r->since, "why", cut_text_json(r->why), "intent", r->intent.value,
                         "slices", r->slices, "coordinator", coordinator, "restarts",
                         (json_int_t) r->restarts, "waits_for", r->waits_for, "deadline",
                         (json_int_t) r->deadline, "outcome",
                         outcome_names[r->outcome], "cause", r->cause, "blame", r->blame, "step",
                         (json_int_t) r->step_shown, "history", r->history, "ask", ask_part(&r->watch),
                         "planner", planner_part(g, r), "notes", r->notes);
}

/* --- Back ------------------------------------------------------------------------------------------ */

static int check_slices(const json_t *list, char why[static GANG_WHY_MAX]) {
        size_t i;
        json_t *v;

        json_array_foreach (list, i, v) {
                const char *name = json_string_value(json_object_get(v, "slice"));
                const json_t *hosts = json_object_get(v, "hosts");

                if (name && name_is_host(name) && json_is_array(hosts) &&
                    json_array_size(hosts) <= GANG_HOSTS_MAX)
                        continue;
                return why_fail(why, -EBADMSG, "\"slices\" has an entry without slice or hosts");
        }
        if (json_is_array(list) && json_array_size(list) <= GANG_SLICES_MAX)
                return 0;
        return why_fail(why, -EBADMSG, "\"slices\" is no list");
}

static int check_lists(const json_t *v, char why[static GANG_WHY_MAX]) {
        const json_t *waits = json_object_get(v, "waits_for"), *history = json_object_get(v, "history"),
                     *notes = json_object_get(v, "notes");
        size_t i;
        json_t *entry;

        if (!json_is_array(waits) || json_array_size(waits) > LIST_MAX || !json_is_array(history) ||
            json_array_size(history) > 64)
                return why_fail(why, -EBADMSG, "\"waits_for\" or \"history\" is no list, or too long");
        json_array_foreach (waits, i, entry)
                if (!json_is_string(entry))
                        return -EBADMSG;
        if (notes && (!json_is_array(notes) || json_array_size(notes) > LIST_MAX))
                return -EBADMSG;
        json_array_foreach (notes, i, entry)
                if (!json_is_string(entry))
                        return -EBADMSG;
        json_array_foreach (history, i, entry)
                if (!json_is_object(entry))
                        return -EBADMSG;
        return check_slices(json_object_get(v, "slices"), why);
}

static int load_words(struct gang_run *r, const json_t *v, char why[static GANG_WHY_MAX]) {
        const char *state, *outcome, *text, *cause, *blame;
        int s, o;

        if (get_text(v, "state", 16, &state, why) < 0 || get_text(v, "outcome", 16, &outcome, why) < 0 ||
            get_text(v, "why", sizeof(r->why), &text, why) < 0 ||
            get_text(v, "cause", sizeof(r->cause), &cause, why) < 0 ||
            get_text(v, "blame", sizeof(r->blame), &blame, why) < 0)
                return -EBADMSG;
        s = index_of(state_names, _RUN_STATE_MAX, state);
        o = index_of(outcome_names, _OUTCOME_MAX, outcome);
        if (s < 0 || o < 0)
                return why_fail(why, -EBADMSG, "state \"%.20s\" or outcome \"%.20s\" does not exist", state,
                                outcome);
        r->state = (enum run_state) s;
        r->outcome = (enum run_outcome) o;
        (void) snprintf(r->why, sizeof(r->why), "%s", text);
        (void) snprintf(r->cause, sizeof(r->cause), "%s", cause);
        (void) snprintf(r->blame, sizeof(r->blame), "%s", blame);
        return 0;
}

static int load_numbers(struct gang_run *r, const json_t *v, char why[static GANG_WHY_MAX]) {
        const json_t *p = json_object_get(v, "planner");
        int64_t generation, since, deadline, restarts, step, idle, refusals, from, before, call, asked,
                quiet, stalled;
        const char *then;
        int t;

        if (get_number(v, "generation", 0, INT64_MAX, 0, &generation, why) < 0 ||
            get_number(v, "since", 0, INT64_MAX, 0, &since, why) < 0 ||
            get_number(v, "deadline", 0, INT64_MAX, 0, &deadline, why) < 0 ||
            get_number(v, "restarts", 0, UINT32_MAX, 0, &restarts, why) < 0 ||
            get_number(v, "step", -1, INT64_MAX, -1, &step, why) < 0 ||
            get_number(p, "idle", 0, UINT32_MAX, 0, &idle, why) < 0 ||
            get_number(p, "refusals", 0, UINT32_MAX, 0, &refusals, why) < 0 ||
            get_number(p, "from_step", -1, INT64_MAX, -1, &from, why) < 0 ||
            get_number(p, "not_before", 0, INT64_MAX, 0, &before, why) < 0 ||
            get_number(p, "asked", 0, UINT32_MAX, 0, &asked, why) < 0 ||
            get_number(p, "quiet", 0, INT64_MAX, 0, &quiet, why) < 0 ||
            get_number(p, "last_call", 0, INT64_MAX, 0, &call, why) < 0 ||
            get_number(p, "stalled", 0, INT64_MAX, 0, &stalled, why) < 0 ||
            get_text(p, "then", 16, &then, why) < 0)
                return -EBADMSG;
        t = index_of(then_names, _THEN_MAX, then);
        r->then = t < 0 ? THEN_AGAIN : (enum run_then) t;
        r->generation = (uint64_t) generation;
        r->since = (usec_t) since;
        r->deadline = (usec_t) deadline;
        r->restarts = (unsigned) restarts;
        r->step = r->step_shown = step;
        r->idle = (unsigned) idle;
        r->refusals = (unsigned) refusals;
        r->watch.number = (unsigned) asked;
        r->watch.quiet = (usec_t) quiet;
        r->from_step = from;
        r->not_before = (usec_t) before;
        r->last_call = (usec_t) call;
        r->stalled = (usec_t) stalled;
        r->refused = json_is_true(json_object_get(p, "refused"));
        return 0;
}

/* The leader before may have had a clock that is ahead: nothing is waited for longer than from now on. */
static void clamp_times(const struct gang *g, struct gang_run *r) {
        usec_t wait = r->intent.spec->wait;

        r->since = MIN(r->since, g->now);
        r->watch.quiet = MIN(r->watch.quiet, g->now);
        r->stalled = MIN(r->stalled, g->now);
        r->not_before = MIN(r->not_before, g->now + g->o.backoff_max);
        r->last_call = MIN(r->last_call, g->now + run_last_call(g, r));
        r->deadline = wait > 0 ? MIN(r->deadline, g->now + wait) : 0;
}

int run_load(struct gang *g, const char *name, const json_t *v, char why[static GANG_WHY_MAX]) {
        const json_t *coordinator = json_object_get(v, "coordinator"),
                     *over = json_object_get(json_object_get(v, "planner"), "over"),
                     *notes = json_object_get(v, "notes");
        struct gang_run *r = gang_run_find(g, name), checked = { 0 };
        const char *serial, *asked;

        if (get_text(v, "serial", TEXT_MAX, &serial, why) < 0 ||
            get_text(json_object_get(v, "ask"), "host", NAME_MAX_HOST, &asked, why) < 0 ||
            check_lists(v, why) < 0 || load_words(&checked, v, why) < 0 ||
            load_numbers(&checked, v, why) < 0)
                return -EBADMSG;
        if (r && !streq(r->intent.serial, serial)) {
                r->generation = MAX(r->generation, checked.generation); /* of the one that was before it */
                return 0;
        }
        if (!r) {
                int x = intent_restore(g, name, json_object_get(v, "intent"), why);

                if (x < 0)
                        return x;
                r = gang_run_find(g, name);
        }
        (void) load_words(r, v, why);
        (void) load_numbers(r, v, why);
        clamp_times(g, r);
        (void) snprintf(r->watch.host, sizeof(r->watch.host), "%s", asked);
        r->n_over = (unsigned) json_object_size(over);
        r->dirty = true;
        if (replace_value(&r->slices, json_deep_copy(json_object_get(v, "slices"))) < 0 ||
            replace_value(&r->waits_for, json_deep_copy(json_object_get(v, "waits_for"))) < 0 ||
            replace_value(&r->history, json_deep_copy(json_object_get(v, "history"))) < 0 ||
            (json_is_object(over) && replace_value(&r->over, json_deep_copy(over)) < 0) ||
            (json_is_array(notes) && replace_value(&r->notes, json_deep_copy(notes)) < 0) ||
            (json_is_object(coordinator) && replace_value(&r->coordinator, json_deep_copy(coordinator)) < 0))
                return -ENOMEM;
        return 0;
}

/* --- Who shall know it ----------------------------------------------------------------------------- */

static bool names_slice(const json_t *list, const char *slice) {
        size_t i;
        json_t *v;

        json_array_foreach (list, i, v) {
                const char *name = json_string_value(json_is_object(v) ? json_object_get(v, "slice") : v);

                if (name && streq(name, slice))
                        return true;
        }
        return false;
}

bool run_knows_slice(const json_t *run, const char *slice) {
        size_t i;
        json_t *v;

        if (names_slice(json_object_get(run, "slices"), slice) ||
            names_slice(json_object_get(json_object_get(run, "intent"), "slices"), slice))
                return true;
        json_array_foreach (json_object_get(run, "history"), i, v)
                if (names_slice(json_object_get(v, "slices"), slice))
                        return true;
        return false;
}

/* --- Ends on missing hosts ------------------------------------------------------------------------- */

json_t *run_over(const struct gang *g, const struct gang_run *r) {
        json_auto_t *over = json_object();
        json_t *v;
        size_t i;

        if (r->state != RUN_RUNNING && r->state != RUN_STOPPING)
                return TAKE_PTR(over); /* it follows from nothing any more */
        json_array_foreach (r->slices, i, v) {
                const struct slice *s = slice_find(g, json_string_value(json_object_get(v, "slice")));

                for (unsigned w = 0; s && w < s->n_slots && w < json_array_size(json_object_get(v, "hosts"));
                     w++) {
                        const struct gang_host_run *h =
                                slot_at(s, w)->live ? NULL : slot_run(slot_at(s, w), r->intent.spec->name);
                        char key[NAME_MAX_HOST + 16];

                        if (!host_run_is_over(r, h))
                                continue;
                        (void) snprintf(key, sizeof(key), "%s/%u", s->name, w);
                        if (json_object_set_new(over, key,
                                                json_pack("{s:s, s:I, s:s, s:s, s:s, s:s, s:I}", "name",
                                                          h->name, "generation", (json_int_t) h->generation,
                                                          "state", part_state_name(h->state), "cause",
                                                          h->cause, "code", h->code, "status", h->status,
                                                          "step", (json_int_t) h->step)) < 0)
                                return NULL;
                }
        }
        return TAKE_PTR(over);
}

static int add_word(struct slot *s, const json_t *word) {
        char why[GANG_WHY_MAX];
        struct gang_host_run h;
        int x = host_run_parse(word, &h, why);

        if (x < 0)
                return x == -ENOMEM ? x : 0; /* none of ours */
        if (grow_by_one(&s->runs, s->n_runs, sizeof(s->runs[0])) < 0) {
                free(h.detail), free(h.suspicion);
                return -ENOMEM;
        }
        s->runs[s->n_runs++] = h;
        return 0;
}

int run_restore_over(struct gang *g, struct gang_run *r) {
        const char *key;
        json_t *v;
        int x = 0;

        json_object_foreach (r->over, key, v) {
                char name[NAME_MAX_HOST];
                const struct slice *s;
                unsigned w;

                if (gang_slot_parse(key, name, &w) < 0)
                        continue;
                s = slice_find(g, name);
                if (s && w < s->n_slots && !slot_at(s, w)->live &&
                    !slot_run(slot_at(s, w), r->intent.spec->name))
                        x = worse(x, add_word(slot_at(s, w), v));
        }
        json_decref(TAKE_PTR(r->over));
        return x;
}
