/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_parts.h"

#include "agent_part.h"
#include "log.h"
#include "paths.h"
#include "utf8.h"

#define AGAIN (1 * USEC_PER_SEC)

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

static struct run_part *find(const struct agent_parts *all, const char *name) {
        for (size_t i = 0; i < all->n; i++)
                if (streq(all->parts[i]->name, name))
                        return all->parts[i];
        return NULL;
}

static bool is_over(const struct run_part *p) {
        return !p->preflight && !p->call && p->now.state != PART_STARTING && p->now.state != PART_RUNNING &&
               (!p->record || streq(run_text(p->record, "state"), "ended"));
}

/* Room for one more: of what is over, the oldest goes. */
static bool make_room(struct agent_parts *all) {
        for (size_t i = 0; all->n == PARTS_MAX && i < all->n; i++)
                if (is_over(all->parts[i])) {
                        (void) part_free(all->parts[i]);
                        memmove(&all->parts[i], &all->parts[i + 1], (--all->n - i) * sizeof(all->parts[0]));
                }
        return all->n < PARTS_MAX;
}

static struct run_part *find_or_add(struct agent_parts *all, const char *name) {
        struct run_part *p = find(all, name);

        if (p || !make_room(all))
                return p;
        p = calloc(1, sizeof(*p));
        if (!p)
                return NULL;
        p->owner = all;
        p->step = p->step_said = -1;
        (void) snprintf(p->name, sizeof(p->name), "%s", name);
        all->parts[all->n++] = p;
        return p;
}

struct bus *part_bus(const struct run_part *p) {
        return p->owner->registry->bus;
}

void part_enter(struct run_part *p, uint64_t generation, enum part_state state, const char *detail) {
        char text[sizeof(p->detail)];

        utf8_copy(text, sizeof(text), detail); /* it goes into the member report, and may be cut anywhere */
        p->now = (struct member_part){ .generation = generation, .state = state };
        memcpy(p->detail, text, sizeof(text));
        p->step_said = p->step;
        p->absent = 0;
        if (state != PART_EXITED && state != PART_STOPPED)
                p->cause[0] = p->code[0] = p->status[0] = '\0';
        bus_tell(part_bus(p), BUS_MEMBER);
        if (state == PART_PREPARED)
                parts_keep(p->owner);
}

void parts_try_again(struct agent_parts *all) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(all->again, AGAIN);
        (void) sd_event_source_set_enabled(all->again, SD_EVENT_ONESHOT);
}

/* --- What to do ---------------------------------------------------------------------------------------- */

/* A preflight for what is not wanted any more. */
static void drop_preflight(struct run_part *p) {
        bool wanted = p->record && streq(run_text(p->record, "state"), "preparing") &&
                      run_number(p->record, "generation") == p->now.generation;

        if (!p->preflight || wanted)
                return;
        p->preflight = preflight_free(p->preflight);
        part_enter(p, p->now.generation, PART_NONE, "");
}

/* The agent was killed between its word that it is prepared and the beginning. */
static void believe_kept(struct run_part *p) {
        const char *state = run_text(p->record, "state");
        bool older = p->now.state == PART_NONE || p->now.generation < run_number(p->record, "generation"),
             runs = p->now.state == PART_STARTING || p->now.state == PART_RUNNING;

        if (older && !runs && !p->preflight && (streq(state, "preparing") || streq(state, "running")) &&
            part_was_prepared(p))
                part_prepared_before(p);
}

void part_act(struct run_part *p) {
        const struct agent_registry *g = p->owner->registry;
        enum part_action action;
        int r;

        /* Nothing is begun or ended on the word of a registry that is not there. */
        if (!p->owner->known || !g->complete || g->status.state != REGISTRY_MEMBER)
                return;
        drop_preflight(p);
        believe_kept(p);
        r = part_decide(p->record, g->slice, g->worker, &p->now, &action);
        if (r < 0) {
                log_warning("run %s: its record cannot be understood and is passed over", p->name);
                return;
        }
        switch (action) {
        case PART_PREPARE:
                part_prepare(p);
                break;
        case PART_START:
                if (!p->call)
                        part_start(p);
                break;
        case PART_STOP:
                part_stop(p);
                break;
        case PART_NOTHING:
        case _PART_ACTION_MAX:
                break;
        }
}

void agent_parts_look(struct agent_parts *all) {
        for (size_t i = 0; i < all->n; i++)
                part_act(all->parts[i]);
}

static bool any_lives(const struct agent_parts *all) {
        for (size_t i = 0; i < all->n; i++)
                if (all->parts[i]->now.state == PART_STARTING || all->parts[i]->now.state == PART_RUNNING)
                        return true;
        return false;
}

static int on_again(sd_event_source *source, uint64_t usec, void *userdata) {
        struct agent_parts *all = userdata;

        (void) source, (void) usec;
        launchd_runs_ask(agent_of(all->registry->bus)->runs); /* what became of what was not answered? */
        agent_parts_look(all);
        if (!all->registry->bus->runs->known && any_lives(all))
                parts_try_again(all);
        return 0;
}

/* --- What tpu-launchd says ----------------------------------------------------------------------------- */

int64_t part_step(const struct run_part *p) {
        const struct bus *b = part_bus(p);
        const struct run_progress *log = agent_of(b)->run_log ? run_log_find(agent_of(b)->run_log, p->name) : NULL;

        if ((p->now.state == PART_RUNNING || p->now.state == PART_EXITED || p->now.state == PART_STOPPED) &&
            log && log->progress.lines > 0)
                return MAX(p->step, (int64_t) MIN(log->progress.last_step, (uint64_t) INT64_MAX));
        return p->step;
}

static enum part_state state_of(const struct host_run *run) {
        if (!host_run_lives(run))
                return streq(run->cause, "stopped") ? PART_STOPPED : PART_EXITED;
        return streq(run->state, "starting") ? PART_STARTING : PART_RUNNING;
}

static void copy(char *to, size_t size, const char *from) {
        (void) snprintf(to, size, "%s", from);
}

static void take_run(struct agent_parts *all, const struct host_run *run) {
        struct run_part *p = find_or_add(all, run->name);
        enum part_state state = state_of(run);
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
        copy(p->serial, sizeof(p->serial), run->intent);
        if (same && p->now.state == state && streq(p->cause, run->cause) && streq(p->detail, detail))
                return;
        part_enter(p, run->generation, state, detail);
        p->step_said = part_step(p); /* a planner looks for progress between two ends */
        copy(p->cause, sizeof(p->cause), run->cause);
        copy(p->code, sizeof(p->code), run->code);
        copy(p->status, sizeof(p->status), run->status);
}

/* tpu-launchd knows nothing of what was there: after a boot, or when its record was lost. */
static void take_absence(struct run_part *p, const struct host_runs *l) {
        struct launchd_runs *runs = agent_of(part_bus(p))->runs;

        if (p->now.state != PART_RUNNING && !(p->now.state == PART_STARTING && !p->call))
                return;
        if (p->absent == 0 ||
            l->question <= p->absent) { /* this list may have been made before it started */
                p->absent = MAX(p->absent, launchd_runs_asked(runs));
                parts_try_again(p->owner);
                return;
        }
        part_enter(p, p->now.generation, PART_EXITED,
                   "tpu-launchd has no record of it any more\njournalctl -u tpu-launchd");
        copy(p->cause, sizeof(p->cause), "unknown");
}

void agent_parts_listed(struct agent_parts *all) {
        const struct host_runs *l = all->registry->bus->runs;
        bool first = !all->known;

        if (!l->known) { /* what was known stays believed, and is asked for as soon as somebody answers */
                if (any_lives(all))
                        parts_try_again(all);
                return;
        }
        for (size_t i = 0; i < all->n; i++)
                all->parts[i]->used = false;
        for (size_t i = 0; i < l->n; i++)
                if (l->runs[i].generation > 0)
                        take_run(all, &l->runs[i]);
        for (size_t i = 0; i < all->n; i++)
                if (!all->parts[i]->used && l->n < HOST_RUNS_MAX) /* a full list may have been cut */
                        take_absence(all->parts[i], l);
        all->known = true;
        if (first)
                bus_tell(all->registry->bus, BUS_MEMBER);
        agent_parts_look(all);
}

/* --- What the registry says ---------------------------------------------------------------------------- */

/* While a host of it is missing, the planner asks the others by turns how far the run is. */
static void answer(struct run_part *p) {
        const json_t *ask = json_object_get(p->record, "ask");
        uint64_t number = run_number(ask, "number");

        if (number == 0 || number == p->asked || !streq(run_text(ask, "host"), p->owner->registry->host))
                return;
        p->asked = number;
        p->step_said = part_step(p);
        bus_tell(part_bus(p), BUS_MEMBER);
}

void agent_parts_record(struct agent_parts *all, const char *name, const json_t *record) {
        struct run_part *p;
        json_t *before;

        if (!run_name_is_valid(name))
                return;
        p = record ? find_or_add(all, name) : find(all, name);
        if (!p) {
                if (record)
                        log_warning("run %s is passed over: this host takes part in %d runs already", name,
                                    PARTS_MAX);
                return;
        }
        before = p->record;
        p->record = record ? json_incref((json_t *) (uintptr_t) record) : NULL;
        if (record)
                answer(p);
        if (record)
                part_tell_run(all->registry, name, before, record);
        json_decref(before);
        part_act(p);
}

const json_t *agent_parts_find(const struct agent_parts *all, const char *name) {
        const struct run_part *p = find(all, name);

        return p ? p->record : NULL;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_parts_new(struct agent_registry *g, struct agent_parts **ret) {
        struct agent_parts *all = calloc(1, sizeof(*all));
        int r;

        if (!all)
                return -ENOMEM;
        all->registry = g;
        all->known = !bus_launchd_socket(g->bus); /* nobody to ask: there are none */
        r = sd_event_add_time(g->bus->event, &all->again, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_again,
                              all);
        if (r >= 0)
                r = sd_event_source_set_enabled(all->again, SD_EVENT_OFF);
        if (r < 0) {
                (void) agent_parts_free(all);
                return r;
        }
        (void) sd_event_source_set_description(all->again, "parts-again");
        r = parts_keep_start(all);
        if (r < 0) /* what is prepared is prepared again after a restart */
                (void) log_warning_errno(r, "what is prepared for runs is not kept: %m");
        *ret = all;
        return 0;
}

struct agent_parts *agent_parts_free(struct agent_parts *all) {
        if (!all)
                return NULL;
        for (size_t i = 0; i < all->n; i++)
                (void) part_free(all->parts[i]);
        all->again = sd_event_source_disable_unref(all->again);
        all->writer = file_writer_free(all->writer);
        json_decref(all->kept);
        free(all);
        return NULL;
}
