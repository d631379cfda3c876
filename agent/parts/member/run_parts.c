/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "member_state.h"
#include "progress_part.h"
#include "utf8.h"

/* --- Parts --------------------------------------------------------------------------------------------- */

static struct run_part *part_free(struct run_part *p) {
        if (!p)
                return NULL;
        p->preflight = preflight_free(p->preflight);
        p->call = local_call_free(p->call);
        local__run_request__free_unpacked(p->request, NULL);
        json_decref(p->record);
        free(p);
        return NULL;
}

static struct run_part *find_part(const struct member_state *m, const char *name) {
        for (size_t i = 0; i < m->runs.n; i++)
                if (streq(m->runs.parts[i]->name, name))
                        return m->runs.parts[i];
        return NULL;
}

static bool is_over(const struct run_part *p) {
        return !p->preflight && !p->call && p->now.state != PART_STARTING && p->now.state != PART_RUNNING &&
               (!p->record || streq(json_text_of(p->record, "state"), "ended"));
}

/* Room for one more: of what is over, the oldest goes. */
static bool make_room(struct member_state *m) {
        struct run_parts *all = &m->runs;

        for (size_t i = 0; all->n == RUN_PARTS_MAX && i < all->n; i++)
                if (is_over(all->parts[i])) {
                        (void) part_free(all->parts[i]);
                        memmove(&all->parts[i], &all->parts[i + 1], (--all->n - i) * sizeof(all->parts[0]));
                }
        return all->n < RUN_PARTS_MAX;
}

static struct run_part *find_or_add_part(struct member_state *m, const char *name) {
        struct run_part *p = find_part(m, name);

        if (p || !make_room(m))
                return p;
        p = calloc(1, sizeof(*p));
        if (!p)
                return NULL;
        p->owner = m;
        p->step = p->step_said = -1;
        (void) snprintf(p->name, sizeof(p->name), "%s", name);
        assert(m->runs.n < RUN_PARTS_MAX);
        m->runs.parts[m->runs.n++] = p;
        return p;
}

/* --- All of them --------------------------------------------------------------------------------------- */

void run_parts_act(struct member_state *m) {
        for (size_t i = 0; i < m->runs.n; i++)
                run_part_act(m->runs.parts[i]);
}

static bool any_lives(const struct member_state *m) {
        for (size_t i = 0; i < m->runs.n; i++)
                if (m->runs.parts[i]->now.state == PART_STARTING ||
                    m->runs.parts[i]->now.state == PART_RUNNING)
                        return true;
        return false;
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata) {
        struct member_state *m = userdata;

        (void) source, (void) usec;
        bus_tell(m->bus, BUS_ASK_RUNS); /* what became of what was not answered? */
        run_parts_act(m);
        if (!m->bus->runs->known && any_lives(m))
                run_parts_try_again(m);
        return 0;
}

/* --- What tpu-launchd says ----------------------------------------------------------------------------- */

static int64_t part_step(const struct run_part *p) {
        const struct step_line *last = progress_step(p->owner->bus, p->name);

        if ((p->now.state == PART_RUNNING || p->now.state == PART_EXITED || p->now.state == PART_STOPPED) &&
            last)
                return MAX(p->step, (int64_t) MIN(last->step, (uint64_t) INT64_MAX));
        return p->step;
}

static enum part_state listed_state(const struct host_run *run) {
        if (!host_run_lives(run))
                return streq(run->cause, "stopped") ? PART_STOPPED : PART_EXITED;
        return streq(run->state, "starting") ? PART_STARTING : PART_RUNNING;
}

static void copy_text(char *to, size_t size, const char *from) {
        (void) snprintf(to, size, "%s", from);
}

static void take_run(struct member_state *m, const struct host_run *run) {
        struct run_part *p = find_or_add_part(m, run->name);
        enum part_state state = listed_state(run);
        char detail[sizeof(p->detail)];
        bool same;

        if (!p)
                return;
        p->used = true;
        p->absent = 0;
        same = p->now.state != PART_NONE && p->now.generation == run->generation;
        if (p->now.state != PART_NONE && p->now.generation > run->generation)
                return; /* what is prepared now comes after it */
        if (same && (p->now.state == PART_PREPARING || p->now.state == PART_REFUSED))
                return;
        (void) snprintf(detail, sizeof(detail), "%s%s%s", run->why, run->remedy[0] ? "\n" : "", run->remedy);
        if (run->last_step >= 0)
                p->step = run->last_step;
        copy_text(p->serial, sizeof(p->serial), run->intent);
        if (same && p->now.state == state && streq(p->cause, run->cause) && streq(p->detail, detail))
                return;
        run_part_enter(p, run->generation, state, detail);
        p->step_said = part_step(p); /* a planner looks for progress between two ends */
        copy_text(p->cause, sizeof(p->cause), run->cause);
        copy_text(p->code, sizeof(p->code), run->code);
        copy_text(p->status, sizeof(p->status), run->status);
}

/* tpu-launchd knows nothing of what was there: after a boot, or when its record was lost. */
static void take_absence(struct run_part *p, const struct host_runs *l) {
        if (p->now.state != PART_RUNNING && !(p->now.state == PART_STARTING && !p->call))
                return;
        if (p->absent == 0 ||
            l->question <= p->absent) { /* this list may have been made before it started */
                p->absent = MAX(p->absent, p->owner->bus->runs_asked);
                run_parts_try_again(p->owner);
                return;
        }
        run_part_enter(p, p->now.generation, PART_EXITED,
                       "tpu-launchd has no record of it any more\njournalctl -u tpu-launchd");
        copy_text(p->cause, sizeof(p->cause), "unknown");
}

static size_t count_local(const struct host_runs *l) {
        size_t n = 0;

        for (size_t i = 0; i < l->n; i++)
                n += l->runs[i].generation == 0 && streq(l->runs[i].state, "running");
        return n;
}

void run_parts_listed(struct member_state *m) {
        const struct host_runs *l = m->bus->runs;
        bool first = !m->runs.known;

        if (!l->known) { /* what was known stays believed, and is asked for as soon as somebody answers */
                if (any_lives(m))
                        run_parts_try_again(m);
                return;
        }
        for (size_t i = 0; i < m->runs.n; i++)
                m->runs.parts[i]->used = false;
        for (size_t i = 0; i < l->n; i++)
                if (l->runs[i].generation > 0)
                        take_run(m, &l->runs[i]);
        for (size_t i = 0; i < m->runs.n; i++)
                if (!m->runs.parts[i]->used && l->n < HOST_RUNS_MAX) /* a full list may have been cut */
                        take_absence(m->runs.parts[i], l);
        m->runs.known = true;
        if (first || count_local(l) != m->runs.n_local)
                bus_tell(m->bus, BUS_MEMBER);
        m->runs.n_local = count_local(l);
        run_parts_act(m);
}

/* --- What the registry says ---------------------------------------------------------------------------- */

/* The event of a record that has changed. */
static void report_run(const struct member_state *m, const char *name, const json_t *before,
                       const json_t *now) {
        const char *state = json_text_of(now, "state"), *outcome = json_text_of(now, "outcome");
        const json_t *waits = json_object_get(now, "waits_for");
        uint64_t generation = json_number_of(now, "generation");
        bool ended = streq(state, "ended"),
             good = !ended || streq(outcome, "success") || streq(outcome, "stopped");
        char waits_for[200];

        if (before && streq(json_text_of(before, "state"), state) &&
            json_number_of(before, "generation") == generation)
                return;
        (void) snprintf(waits_for, sizeof(waits_for), "%.190s",
                        json_array_size(waits) > 0 && json_is_string(json_array_get(waits, 0)) ?
                                json_string_value(json_array_get(waits, 0)) :
                                "");
        (void) utf8_scrub(waits_for, strlen(waits_for));
        /* The collector itself reports it to the fleet. */
        bus_note(m->bus,
                 EVENT_AS(RUN_CHANGED, good ? SEVERITY_INFO : SEVERITY_WARN, .run = name,
                          .generation = (int64_t) generation, .state = state, .outcome = outcome,
                          .reason = json_text_of(now, "why"), .cause = json_text_of(now, "cause"),
                          .blame = json_text_of(now, "blame"), .waits_for = waits_for,
                          .slices = (int64_t) json_array_size(json_object_get(now, "slices"))));
}

/* While a host of it is missing, the planner asks the others by turns how far the run is. */
static void answer_step(struct run_part *p) {
        const json_t *ask = json_object_get(p->record, "ask");
        uint64_t number = json_number_of(ask, "number");

        if (number == 0 || number == p->asked || !streq(json_text_of(ask, "host"), p->owner->who.host))
                return;
        p->asked = number;
        p->step_said = part_step(p);
        bus_tell(p->owner->bus, BUS_MEMBER);
}

void run_parts_record(struct member_state *m, const char *name, const json_t *record) {
        struct run_part *p;
        json_t *before;

        if (!run_name_is_valid(name))
                return;
        p = record ? find_or_add_part(m, name) : find_part(m, name);
        if (!p) {
                if (record)
                        log_warning("run %s is passed over: this host takes part in %d runs already", name,
                                    RUN_PARTS_MAX);
                return;
        }
        before = p->record;
        p->record = record ? json_incref((json_t *) (uintptr_t) record) : NULL;
        if (record) {
                answer_step(p);
                report_run(m, name, before, record);
        }
        json_decref(before);
        run_part_act(p);
}

const json_t *run_parts_find(const struct member_state *m, const char *name) {
        const struct run_part *p = find_part(m, name);

        return p ? p->record : NULL;
}

void run_parts_forget(struct member_state *m) {
        for (size_t i = 0; i < m->runs.n; i++) {
                json_decref(m->runs.parts[i]->record);
                m->runs.parts[i]->record = NULL;
        }
}

/* --- What is reported ---------------------------------------------------------------------------------- */

void run_parts_freshen(struct member_state *m) {
        for (size_t i = 0; i < m->runs.n; i++) {
                struct run_part *p = m->runs.parts[i];

                p->step_said = part_step(p);
                p->step_time_said = progress_step_time(p->owner->bus, p->name);
        }
}

static json_t *add_suspicion_words(json_t *o, const struct suspicion *s) {
        o = json_member_add(o, "suspected", json_integer((json_int_t) s->at_real));
        o = json_member_add(o, "since",
                            json_integer((json_int_t) (s->at_real - MIN(s->at_real, s->at - s->since))));
        o = json_member_add(o, "suspicion", json_string(s->why));
        return s->counts ? o : json_member_add(o, "may_be_pause", json_true());
}

/* Only what lives is suspected: a suspicion of an earlier generation is none of this one. */
static json_t *add_suspicion(json_t *o, const struct run_part *p) {
        const struct suspicion *s =
                p->now.state == PART_RUNNING ? progress_suspicion(p->owner->bus, p->name) : NULL;

        return s ? add_suspicion_words(o, s) : o;
}

static json_t *part_to_member(const struct run_part *p) {
        json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:s}", "name", p->name,
                              "serial", p->serial, "generation", (json_int_t) p->now.generation, "state",
                              part_state_name(p->now.state), "cause", p->cause, "code", p->code, "status",
                              p->status, "step", (json_int_t) p->step_said, "step_time",
                              (json_int_t) p->step_time_said, "asked", (json_int_t) p->asked, "detail",
                              p->detail);

        if (p->image[0] && p->now.state == PART_PREPARED)
                o = json_member_add(o, "image", json_string(p->image));
        return add_suspicion(o, p);
}

json_t *run_parts_to_member(const struct member_state *m) {
        json_t *list = json_array();
        size_t said = 0;

        /* The newest are last: they are never what is cut. */
        for (size_t i = m->runs.n; list && i > 0 && said < RUN_PARTS_SAID_MAX; i--) {
                if (m->runs.parts[i - 1]->now.state == PART_NONE)
                        continue;
                said++;
                list = json_list_add(list, part_to_member(m->runs.parts[i - 1]));
        }
        return list;
}

/* Its step is no news: it is that of the suspicion, which is. */
json_t *run_parts_local(const struct member_state *m) {
        const struct host_runs *l = m->bus->runs;
        json_t *list = json_array();
        size_t said = 0;

        for (size_t i = 0; list && l->known && i < l->n && said < RUN_PARTS_SAID_MAX; i++) {
                const struct host_run *run = &l->runs[i];
                const struct suspicion *s = progress_suspicion(m->bus, run->name);
                json_t *o;

                if (run->generation > 0 || !streq(run->state, "running"))
                        continue;
                said++;
                o = json_pack("{s:s, s:s, s:b, s:I}", "name", run->name, "state",
                              part_state_name(PART_RUNNING), "adopted", run->adopted, "step",
                              (json_int_t) (s && s->last_step != SUSPICION_STEP_NONE
                                                    ? MIN(s->last_step, (uint64_t) INT64_MAX)
                                                    : UINT64_MAX));
                list = json_list_add(list, s ? add_suspicion_words(o, s) : o);
        }
        return list;
}

json_t *run_parts_records(const struct member_state *m) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < m->runs.n; i++)
                if (m->runs.parts[i]->record)
                        list = json_list_add(list, json_incref(m->runs.parts[i]->record));
        return list;
}

json_t *run_parts_to_json(const struct member_state *m) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < m->runs.n; i++) {
                const struct run_part *p = m->runs.parts[i];
                json_t *waits = json_object_get(p->record, "waits_for");
                json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:o}", "name", p->name,
                                      "state", p->record ? json_text_of(p->record, "state") : "unknown",
                                      "generation", (json_int_t) json_number_of(p->record, "generation"),
                                      "part", part_state_name(p->now.state), "part_generation",
                                      (json_int_t) p->now.generation, "detail", p->detail, "why",
                                      json_text_of(p->record, "why"), "outcome",
                                      json_text_of(p->record, "outcome"), "waits_for",
                                      json_is_array(waits) ? json_incref(waits) : json_array());

                list = json_list_add(list, o);
        }
        return list;
}

void run_parts_judge(const struct member_state *m) {
        for (size_t i = 0; i < m->runs.n; i++) {
                const struct run_part *p = m->runs.parts[i];
                const char *state = json_text_of(p->record, "state");
                size_t line = strcspn(p->detail, "\n");
                struct finding f;

                if (p->now.state != PART_REFUSED || (!streq(state, "waiting") && !streq(state, "preparing")))
                        continue;
                finding_init(&f, "preflight.run", p->name);
                f.verdict = VERDICT_WARN; /* FAIL would keep other runs away, and this one's next try */
                finding_set(f.found, "refused");
                finding_set(f.reason, "%.*s", (int) line, p->detail);
                finding_set(f.remedy, "%s", p->detail + line + (p->detail[line] == '\n'));
                bus_take_finding(m->bus, m->source, m->round, &f);
        }
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int run_parts_start(struct member_state *m) {
        int r;

        m->runs.known = !bus_launchd_socket(m->bus); /* nobody to ask: there are none */
        r = loop_timer_new(m->bus->event, CLOCK_BOOTTIME, 100 * USEC_PER_MSEC, "parts-again", on_again, m,
                           &m->runs.again);
        if (r < 0)
                return r;
        r = run_parts_keep_start(m);
        if (r < 0) /* what is prepared is prepared again after a restart */
                (void) log_warning_errno(r, "what is prepared for runs is not kept: %m");
        return 0;
}

void run_parts_stop(struct member_state *m) {
        while (m->runs.n > 0)
                (void) part_free(m->runs.parts[--m->runs.n]);
        m->runs.again = sd_event_source_disable_unref(m->runs.again);
        m->runs.writer = file_writer_free(m->runs.writer);
        json_decref(m->runs.kept);
        m->runs.kept = NULL;
}
