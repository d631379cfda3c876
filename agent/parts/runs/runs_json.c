/* SPDX-License-Identifier: Apache-2.0 */
#include "runs_json.h"

#include <math.h>

#include "calls.h"
#include "json_text.h"

/* null for what is not known. */
static json_t *number_json(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}

static json_t *count_json(int64_t n) {
        return n >= 0 ? json_integer((json_int_t) n) : json_null();
}

/* {cause: seconds}; null: nothing is counted. */
static json_t *spent_json(const struct goodput *g) {
        json_t *v;

        if (!g || goodput_total(g) == 0)
                return json_null();
        v = json_object();
        for (enum goodput_cause c = 0; v && c < _GOODPUT_MAX; c++)
                (void) json_object_set_new(v, goodput_cause_name(c),
                                           json_real((double) g->spent[c] / USEC_PER_SEC));
        return v;
}

/* {at, step, path, took_seconds, steps_since}; null: none was seen, and in it what is not known. */
static json_t *checkpoint_json(const struct checkpoint *c, int64_t steps_since) {
        if (!c)
                return json_null();
        return json_pack("{s:o, s:o, s:s?, s:o, s:o}", "at", answer_instant(c->at_real), "step",
                         count_json(c->step), "path", c->path[0] ? c->path : NULL, "took_seconds",
                         number_json(c->took > 0 ? (double) c->took / USEC_PER_SEC : NAN), "steps_since",
                         count_json(steps_since));
}

static json_t *run_json(const struct host_run *run, const struct run_seen *seen) {
        return json_pack(
                "{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:o, "
                "s:o, s:s?, s:s?, s:I, s:I, s:I, s:s, s:s, s:b, s:s, s:s, s:s}",
                "name", run->name, "unit", run->unit, "state", run->state, "cause", run->cause, "code",
                run->code, "status", run->status, "framework", run->framework, "malloc", run->malloc, "user",
                run->user, "command", run->command, "started", answer_instant(run->started_real), "ended",
                answer_instant(run->ended_real), "main_pid", (int) run->main_pid, "processes",
                (int) run->processes, "step",
                seen->step ? json_integer((json_int_t) seen->step->step) : json_null(), "step_seconds",
                number_json(seen->step ? seen->step->seconds : NAN), "goodput",
                number_json(seen->goodput ? goodput_share(seen->goodput) : NAN), "spent_seconds",
                spent_json(seen->goodput), "checkpoint",
                checkpoint_json(seen->checkpoint, seen->steps_since), "suspicion", seen->suspicion,
                "killed_by", seen->killed_by[0] ? seen->killed_by : NULL, "generation",
                (json_int_t) run->generation, "restarts", (json_int_t) run->restarts, "restarts_max",
                (json_int_t) run->restarts_max, "why", run->why, "remedy", run->remedy, "adopted",
                run->adopted, "container", run->container, "devices", run->devices, "image", run->image);
}

json_t *runs_to_json(const struct host_runs *l, struct run_seen (*lookup)(const char *run, void *userdata),
                     void *userdata) {
        json_t *list = l->known ? json_array() : json_null();

        for (size_t i = 0; list && l->known && i < l->n; i++) {
                struct run_seen seen = lookup(l->runs[i].name, userdata);

                list = json_list_add(list, run_json(&l->runs[i], &seen));
        }
        return list;
}
