/* SPDX-License-Identifier: Apache-2.0 */
/* What is said of runs: to the registry, to people, as events. */
#include "agent_part.h"
#include "json_text.h"
#include "utf8.h"

void part_tell_run(const struct agent_registry *g, const char *name, const json_t *before,
                   const json_t *now) {
        const char *state = run_text(now, "state"), *outcome = run_text(now, "outcome");
        const json_t *waits = json_object_get(now, "waits_for");
        uint64_t generation = run_number(now, "generation");
        bool ended = streq(state, "ended"),
             good = !ended || streq(outcome, "success") || streq(outcome, "stopped");
        char waits_for[200];

        if (before && streq(run_text(before, "state"), state) &&
            run_number(before, "generation") == generation)
                return;
        (void) snprintf(waits_for, sizeof(waits_for), "%.190s",
                        json_array_size(waits) > 0 && json_is_string(json_array_get(waits, 0)) ?
                                json_string_value(json_array_get(waits, 0)) :
                                "");
        (void) utf8_scrub(waits_for, strlen(waits_for));
        /* The fleet hears it of the collector itself. */
        bus_note(g->bus,
                   EVENT_AS(RUN_CHANGED, good ? SEVERITY_INFO : SEVERITY_WARN, .run = name,
                            .generation = (int64_t) generation, .state = state, .outcome = outcome,
                            .reason = run_text(now, "why"), .cause = run_text(now, "cause"),
                            .blame = run_text(now, "blame"), .waits_for = waits_for,
                            .slices = (int64_t) json_array_size(json_object_get(now, "slices"))));
}

json_t *agent_parts_records(const struct agent_parts *all) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < all->n; i++)
                if (all->parts[i]->record)
                        list = json_list_add(list, json_incref(all->parts[i]->record));
        return list;
}

bool agent_parts_known(const struct agent_parts *all) {
        return all->known;
}

void agent_parts_forget(struct agent_parts *all) {
        for (size_t i = 0; i < all->n; i++) {
                json_decref(all->parts[i]->record);
                all->parts[i]->record = NULL;
        }
}

void agent_parts_freshen(struct agent_parts *all) {
        for (size_t i = 0; i < all->n; i++) {
                struct run_part *p = all->parts[i];

                p->step_said = part_step(p);
                p->step_time_said = agent_step_time(part_bus(p), p->name);
        }
}

/* What lives alone is suspected: a suspicion of an earlier generation is none of this one's. */
static json_t *add_suspicion(json_t *o, const struct run_part *p) {
        const struct suspicion *s =
                p->now.state == PART_RUNNING ? agent_suspicion(part_bus(p), p->name) : NULL;

        if (!o || !s ||
            (json_object_set_new(o, "suspected", json_integer((json_int_t) s->at_real)) >= 0 &&
             json_object_set_new(o, "suspicion", json_string(s->why)) >= 0 &&
             (s->counts || json_object_set_new(o, "may_be_pause", json_true()) >= 0)))
                return o;
        json_decref(o);
        return NULL;
}

static json_t *part_to_member(const struct run_part *p) {
        return add_suspicion(json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "name",
                                       p->name, "serial", p->serial, "generation",
                                       (json_int_t) p->now.generation, "state",
                                       part_state_name(p->now.state), "cause", p->cause, "code", p->code,
                                       "status", p->status, "step", (json_int_t) p->step_said, "step_time",
                                       (json_int_t) p->step_time_said, "asked", (json_int_t) p->asked,
                                       "detail", p->detail),
                             p);
}

json_t *agent_parts_to_member(const struct agent_parts *all) {
        json_t *list = json_array();
        size_t said = 0;

        /* The newest are last: they are never what is cut. */
        for (size_t i = all->n; list && i > 0 && said < PARTS_SAID_MAX; i--) {
                if (all->parts[i - 1]->now.state == PART_NONE)
                        continue;
                said++;
                list = json_list_add(list, part_to_member(all->parts[i - 1]));
        }
        return list;
}

json_t *agent_parts_to_json(const struct agent_parts *all) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < all->n; i++) {
                const struct run_part *p = all->parts[i];
                json_t *waits = json_object_get(p->record, "waits_for");
                json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:o}", "name", p->name,
                                      "state", p->record ? run_text(p->record, "state") : "unknown",
                                      "generation", (json_int_t) run_number(p->record, "generation"), "part",
                                      part_state_name(p->now.state), "part_generation",
                                      (json_int_t) p->now.generation, "detail", p->detail, "why",
                                      run_text(p->record, "why"), "outcome", run_text(p->record, "outcome"),
                                      "waits_for", json_is_array(waits) ? json_incref(waits) : json_array());

                list = json_list_add(list, o);
        }
        return list;
}
