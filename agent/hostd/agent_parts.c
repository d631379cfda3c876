/* SPDX-License-Identifier: Apache-2.0 */
#include "agent_parts.h"

#include "log.h"
#include "paths.h"
#include "utf8.h"

#define START_TIME (120 * USEC_PER_SEC) /* starting a unit waits for its exec, and for the end of an older one */
#define STOP_MARGIN (30 * USEC_PER_SEC) /* beyond the grace */
#define AGAIN (1 * USEC_PER_SEC)

static void act(struct run_part *p);

/* --- Parts --------------------------------------------------------------------------------------------- */

static const char *launchd_socket(const struct agent *a) {
        return a->settings.launchd_socket[0] ? a->settings.launchd_socket :
               a->host->real_root            ? PATH_LAUNCHD_SOCKET :
                                               NULL;
}

static struct run_part *part_free(struct run_part *p) {
        if (!p)
                return NULL;
        p->preflight = preflight_free(p->preflight);
        p->call = launchd_call_free(p->call);
        run_request_clear(&p->request);
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

static struct agent *agent_of(const struct run_part *p) {
        return p->owner->registry->agent;
}

static void enter(struct run_part *p, uint64_t generation, enum part_state state, const char *detail) {
        char text[sizeof(p->detail)];

        (void) snprintf(text, sizeof(text), "%s", detail);
        p->now = (struct part){ .generation = generation, .state = state };
        memcpy(p->detail, text, sizeof(text));
        p->step_said = p->step;
        p->absent = 0;
        if (state != PART_EXITED && state != PART_STOPPED)
                p->cause[0] = p->code[0] = p->status[0] = '\0';
        agent_registry_news(agent_of(p));
}

static void try_again(struct agent_parts *all) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(all->again, AGAIN);
        (void) sd_event_source_set_enabled(all->again, SD_EVENT_ONESHOT);
}

/* --- The preflight ------------------------------------------------------------------------------------- */

static void tell_refused(struct run_part *p) {
        size_t line = strcspn(p->detail, "\n");
        char reason[300], message[500];
        const struct otlp_attribute body[] = {
                { .key = "run", .text = p->name },
                { .key = "generation", .number = (int64_t) p->now.generation },
                { .key = "reason", .text = reason },
                { .key = "remedy", .text = p->detail + line + (p->detail[line] == '\n') },
        };

        (void) snprintf(reason, sizeof(reason), "%.*s", (int) MIN(line, sizeof(reason) - 1), p->detail);
        (void) snprintf(message, sizeof(message), "%s %s, generation %" PRIu64 ": %s", event_def(EVENT_RUN_REFUSED)->summary,
                        p->name, p->now.generation, reason);
        (void) agent_emit(agent_of(p), EVENT_RUN_REFUSED, event_def(EVENT_RUN_REFUSED)->severity, message, body,
                          ELEMENTSOF(body), NULL);
}

static void refuse(struct run_part *p, const char *detail) {
        enter(p, p->now.generation, PART_REFUSED, detail);
        tell_refused(p);
}

static void on_preflight(const struct preflight_result *r, void *userdata) {
        struct run_part *p = userdata;

        if (r->refused)
                refuse(p, r->text);
        else
                enter(p, p->now.generation, PART_PREPARED, r->text);
        if (!r->refused && r->text[0])
                log_notice("run %s, generation %" PRIu64 ": %s", p->name, p->now.generation, r->text);
        p->preflight = preflight_free(p->preflight);
        act(p);
}

/* What this host is like among its slice's: "libtpu 0.0.39, others 0.0.41". False: as the others. */
static bool is_unlike(const struct agent_registry *g, char *buf, size_t size) {
        const json_t *list = json_object_get(g->slice_record, "unlike"), *u;
        size_t i;

        json_array_foreach(list, i, u)
                if (run_number(u, "worker") == g->worker && json_is_integer(json_object_get(u, "worker"))) {
                        (void) snprintf(buf, size, "%.63s is unlike the other hosts of slice %.63s: %.60s %.60s, others %.60s\n"
                                        "bring it to the version of the others: tpuctl identity --json on both",
                                        g->host, g->slice, run_text(u, "part"), run_text(u, "found"), run_text(u, "others"));
                        return true;
                }
        return false;
}

/* What this host itself knows against it; empty: nothing. */
static void own_objection(const struct agent_registry *g, char *buf, size_t size) {
        struct agent *a = g->agent;
        const struct order *cordon = orders_find(&a->order_list, ORDER_CORDON),
                           *drain = orders_find(&a->order_list, ORDER_DRAIN);
        char reasons[200];

        buf[0] = '\0';
        if (a->state == HOST_UNFIT)
                (void) snprintf(buf, size, "%s is unfit: %s\ntpuctl check, on %s", g->host,
                                check_table_reasons(&a->checks, reasons, sizeof(reasons)), g->host);
        else if (cordon || drain)
                (void) snprintf(buf, size, "%s is %s: %s\ntpuctl uncordon, on %s", g->host, drain ? "draining" : "cordoned",
                                drain ? drain->reason : cordon->reason, g->host);
        else if (agent_observes(a))
                (void) snprintf(buf, size, "the agents of %s only observe\ntpuctl mode repair, on %s", g->host, g->host);
        else
                (void) is_unlike(g, buf, size);
        (void) utf8_scrub(buf, strlen(buf));
}

static int start_preflight(struct run_part *p) {
        struct agent_registry *g = p->owner->registry;
        struct agent *a = g->agent;
        const struct preflight_options o = { .host = a->host,
                                             .intent = &a->intent,
                                             .launchd_socket = launchd_socket(a),
                                             .run = p->record,
                                             .name = g->host,
                                             .slice = g->slice,
                                             .worker = g->worker,
                                             .request = &p->request.message };

        return preflight_new(a->event, &o, on_preflight, p, &p->preflight);
}

static void data_nics(const struct agent *a, char nics[static INTENT_NICS_TEXT_MAX]) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;

        nics[0] = '\0';
        if (links_read(a->host, &links) >= 0)
                intent_data_nics(&a->intent, &links, nics);
}

static void prepare(struct run_part *p) {
        const struct agent_registry *g = p->owner->registry;
        char why[sizeof(p->detail)] = "", nics[INTENT_NICS_TEXT_MAX];
        int r;

        p->preflight = preflight_free(p->preflight);
        (void) snprintf(p->serial, sizeof(p->serial), "%s", run_text(p->record, "serial"));
        p->step = -1;
        enter(p, run_number(p->record, "generation"), PART_PREPARING, "");
        own_objection(g, why, sizeof(why));
        if (why[0]) {
                refuse(p, why);
                return;
        }
        data_nics(g->agent, nics);
        r = run_request_make(p->record, g->slice, g->worker, &g->agent->identity, nics, &p->request, why);
        if (r == 0) {
                if (p->request.conflicts[0])
                        log_notice("run %s: %s", p->name, p->request.conflicts);
                (void) snprintf(why, sizeof(why), "out of memory");
                r = start_preflight(p);
        }
        if (r < 0)
                refuse(p, why);
}

/* --- Start and stop ------------------------------------------------------------------------------------ */

/* What could not be asked is asked again: the same generation is never started twice. */
static void on_started(const struct launchd_answer *a, void *userdata) {
        struct run_part *p = userdata;
        char text[sizeof(p->detail)];

        p->call = launchd_call_free(p->call);
        if (a->no_answer) {
                enter(p, p->now.generation, PART_PREPARED, a->text);
                try_again(p->owner);
        } else if (a->error < 0) {
                (void) snprintf(text, sizeof(text), "%.300s\n%.200s", a->text, a->remedy);
                refuse(p, text);
        }
        jobs_ask(agent_of(p)->jobs); /* its list says how far it is */
}

static void start(struct run_part *p) {
        struct agent *a = agent_of(p);
        int r;

        enter(p, p->now.generation, PART_STARTING, p->detail);
        log_info("run %s, generation %" PRIu64 " is started", p->name, p->now.generation);
        r = launchd_call_new(a->event, launchd_socket(a), LOCAL__KIND__KIND_RUN_REQUEST, &p->request.message.base,
                             LOCAL__KIND__KIND_RUN_REPLY, START_TIME, on_started, p, &p->call);
        if (r < 0) {
                enter(p, p->now.generation, PART_PREPARED, strerror(-r));
                try_again(p->owner);
        }
}

static void on_stopped(const struct launchd_answer *a, void *userdata) {
        struct run_part *p = userdata;

        if (a->error < 0) {
                log_warning("run %s, generation %" PRIu64 " cannot be stopped: %s", p->name, p->stop_asked, a->text);
                try_again(p->owner);
        }
        p->call = launchd_call_free(p->call);
        p->stopping = false;
        jobs_ask(agent_of(p)->jobs);
}

static void stop(struct run_part *p) {
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        struct agent *a = agent_of(p);
        usec_t grace = run_number(json_object_get(p->record, "intent"), "grace");
        int r;

        if (p->call && p->stopping)
                return;
        p->call = launchd_call_free(p->call); /* a start at work: it is stopped as soon as it is there */
        m.name = p->name;
        m.grace_usec = grace;
        m.generation = p->now.generation;
        p->stop_asked = p->now.generation;
        p->stopping = true;
        log_info("run %s, generation %" PRIu64 " is stopped: %s", p->name, p->now.generation, run_text(p->record, "why"));
        r = launchd_call_new(a->event, launchd_socket(a), LOCAL__KIND__KIND_STOP_REQUEST, &m.base,
                             LOCAL__KIND__KIND_STOP_REPLY, grace + STOP_MARGIN, on_stopped, p, &p->call);
        if (r < 0) {
                p->stopping = false;
                try_again(p->owner);
        }
}

/* --- What to do ---------------------------------------------------------------------------------------- */

/* A preflight for what is not wanted any more. */
static void drop_preflight(struct run_part *p) {
        bool wanted = p->record && streq(run_text(p->record, "state"), "preparing") &&
                      run_number(p->record, "generation") == p->now.generation;

        if (!p->preflight || wanted)
                return;
        p->preflight = preflight_free(p->preflight);
        enter(p, p->now.generation, PART_NONE, "");
}

static void act(struct run_part *p) {
        const struct agent_registry *g = p->owner->registry;
        enum part_action action;
        int r;

        /* Nothing is begun or ended on the word of a registry that is not there. */
        if (!p->owner->known || !g->complete || g->status.state != REGISTRY_MEMBER)
                return;
        drop_preflight(p);
        r = part_decide(p->record, g->slice, g->worker, &p->now, &action);
        if (r < 0) {
                log_warning("run %s: its record cannot be understood and is passed over", p->name);
                return;
        }
        switch (action) {
        case PART_PREPARE:
                prepare(p);
                break;
        case PART_START:
                if (!p->call)
                        start(p);
                break;
        case PART_STOP:
                stop(p);
                break;
        case PART_NOTHING:
        case _PART_ACTION_MAX:
                break;
        }
}

void agent_parts_look(struct agent_parts *all) {
        for (size_t i = 0; i < all->n; i++)
                act(all->parts[i]);
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
        jobs_ask(all->registry->agent->jobs); /* what became of what was not answered? */
        agent_parts_look(all);
        if (!jobs_get(all->registry->agent->jobs)->known && any_lives(all))
                try_again(all);
        return 0;
}

/* --- What tpu-launchd says ----------------------------------------------------------------------------- */

static int64_t step_of(const struct run_part *p) {
        const struct agent *a = agent_of(p);
        const struct run_progress *log = a->run_log ? run_log_find(a->run_log, p->name) : NULL;

        if ((p->now.state == PART_RUNNING || p->now.state == PART_EXITED || p->now.state == PART_STOPPED) && log &&
            log->progress.lines > 0)
                return MAX(p->step, (int64_t) MIN(log->progress.last_step, (uint64_t) INT64_MAX));
        return p->step;
}

static enum part_state state_of(const struct job *j) {
        if (streq(j->state, "exited"))
                return streq(j->cause, "stopped") ? PART_STOPPED : PART_EXITED;
        return streq(j->state, "starting") ? PART_STARTING : PART_RUNNING;
}

static void copy(char *to, size_t size, const char *from) {
        (void) snprintf(to, size, "%s", from);
}

static void take_job(struct agent_parts *all, const struct job *j) {
        struct run_part *p = find_or_add(all, j->name);
        enum part_state state = state_of(j);
        char detail[sizeof(p->detail)];
        bool same;

        if (!p)
                return;
        p->used = true;
        p->absent = 0;
        same = p->now.state != PART_NONE && p->now.generation == j->generation;
        if (p->now.state != PART_NONE && p->now.generation > j->generation)
                return; /* what is prepared now comes after it */
        if (same && (p->now.state == PART_PREPARING || p->now.state == PART_REFUSED))
                return;
        (void) snprintf(detail, sizeof(detail), "%s%s%s", j->why, j->remedy[0] ? "\n" : "", j->remedy);
        if (j->last_step >= 0)
                p->step = j->last_step;
        copy(p->serial, sizeof(p->serial), j->intent);
        if (same && p->now.state == state && streq(p->cause, j->cause) && streq(p->detail, detail))
                return;
        enter(p, j->generation, state, detail);
        p->step_said = step_of(p); /* a planner looks for progress between two ends */
        copy(p->cause, sizeof(p->cause), j->cause);
        copy(p->code, sizeof(p->code), j->code);
        copy(p->status, sizeof(p->status), j->status);
}

/* tpu-launchd knows nothing of what was there: after a boot, or when its record was lost. */
static void take_absence(struct run_part *p, const struct job_list *l) {
        struct jobs *jobs = agent_of(p)->jobs;

        if (p->now.state != PART_RUNNING && !(p->now.state == PART_STARTING && !p->call))
                return;
        if (p->absent == 0 || l->question <= p->absent) { /* this list may have been made before it started */
                p->absent = MAX(p->absent, jobs_asked(jobs));
                try_again(p->owner);
                return;
        }
        enter(p, p->now.generation, PART_EXITED, "tpu-launchd has no record of it any more\njournalctl -u tpu-launchd");
        copy(p->cause, sizeof(p->cause), "unknown");
}

void agent_parts_listed(struct agent_parts *all) {
        const struct job_list *l = jobs_get(all->registry->agent->jobs);
        bool first = !all->known;

        if (!l->known) { /* what was known of them stays believed, and is asked for as soon as somebody answers */
                if (any_lives(all))
                        try_again(all);
                return;
        }
        for (size_t i = 0; i < all->n; i++)
                all->parts[i]->used = false;
        for (size_t i = 0; i < l->n; i++)
                if (l->jobs[i].generation > 0)
                        take_job(all, &l->jobs[i]);
        for (size_t i = 0; i < all->n; i++)
                if (!all->parts[i]->used && l->n < JOBS_MAX) /* a full list may have been cut */
                        take_absence(all->parts[i], l);
        all->known = true;
        if (first)
                agent_registry_news(all->registry->agent);
        agent_parts_look(all);
}

/* --- What the registry says ---------------------------------------------------------------------------- */

static void tell_run(const struct agent_registry *g, const char *name, const json_t *before, const json_t *now) {
        const char *state = run_text(now, "state"), *outcome = run_text(now, "outcome");
        const json_t *waits = json_object_get(now, "waits_for");
        uint64_t generation = run_number(now, "generation");
        bool ended = streq(state, "ended"), good = !ended || streq(outcome, "success") || streq(outcome, "stopped");
        char message[700], waits_for[200];
        const struct otlp_attribute body[] = {
                { .key = "run", .text = name },
                { .key = "generation", .number = (int64_t) generation },
                { .key = "state", .text = state },
                { .key = "outcome", .text = outcome },
                { .key = "reason", .text = run_text(now, "why") },
                { .key = "cause", .text = run_text(now, "cause") },
                { .key = "blame", .text = run_text(now, "blame") },
                { .key = "waits_for", .text = waits_for },
                { .key = "slices", .number = (int64_t) json_array_size(json_object_get(now, "slices")) },
        };

        if (before && streq(run_text(before, "state"), state) && run_number(before, "generation") == generation)
                return;
        (void) snprintf(waits_for, sizeof(waits_for), "%.190s",
                        json_array_size(waits) > 0 && json_is_string(json_array_get(waits, 0)) ?
                                json_string_value(json_array_get(waits, 0)) :
                                "");
        (void) utf8_scrub(waits_for, strlen(waits_for));
        (void) snprintf(message, sizeof(message), "run %s is %s%s%s (generation %" PRIu64 ")%s%.300s%s%s", name, state,
                        ended ? ": " : "", ended ? outcome : "", generation, run_text(now, "why")[0] ? ": " : "",
                        run_text(now, "why"), waits_for[0] ? "; waits for " : "", waits_for);
        (void) utf8_scrub(message, strlen(message));
        (void) agent_emit(g->agent, EVENT_RUN_CHANGED, good ? OTLP_INFO : OTLP_WARN, message, body, ELEMENTSOF(body),
                          NULL);
}

void agent_parts_record(struct agent_parts *all, const char *name, const json_t *record) {
        struct run_part *p;
        json_t *before;

        if (!job_name_valid(name))
                return;
        p = record ? find_or_add(all, name) : find(all, name);
        if (!p) {
                if (record)
                        log_warning("run %s is passed over: this host takes part in %d runs already", name, PARTS_MAX);
                return;
        }
        before = p->record;
        p->record = record ? json_incref((json_t *) (uintptr_t) record) : NULL;
        if (record)
                tell_run(all->registry, name, before, record);
        json_decref(before);
        act(p);
}

const json_t *agent_parts_find(const struct agent_parts *all, const char *name) {
        const struct run_part *p = find(all, name);

        return p ? p->record : NULL;
}

json_t *agent_parts_records(const struct agent_parts *all) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < all->n; i++)
                if (all->parts[i]->record && json_array_append(list, all->parts[i]->record) < 0) {
                        json_decref(list);
                        return NULL;
                }
        return list;
}

/* --- What is said -------------------------------------------------------------------------------------- */

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
        for (size_t i = 0; i < all->n; i++)
                all->parts[i]->step_said = step_of(all->parts[i]);
}

json_t *agent_parts_to_member(const struct agent_parts *all) {
        json_t *list = json_array();
        size_t said = 0;

        /* The newest are last: they are never what is cut. */
        for (size_t i = all->n; list && i > 0 && said < PARTS_SAID_MAX; i--) {
                const struct run_part *p = all->parts[i - 1];

                if (p->now.state == PART_NONE)
                        continue;
                said++;
                if (json_array_append_new(
                            list, json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:s}", "name", p->name, "serial",
                                            p->serial, "generation", (json_int_t) p->now.generation, "state",
                                            part_state_name(p->now.state), "cause", p->cause, "code", p->code, "status",
                                            p->status, "step", (json_int_t) p->step_said, "detail", p->detail)) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

json_t *agent_parts_to_json(const struct agent_parts *all) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < all->n; i++) {
                const struct run_part *p = all->parts[i];
                json_t *waits = json_object_get(p->record, "waits_for");
                json_t *o = json_pack("{s:s, s:s, s:I, s:s, s:I, s:s, s:s, s:s, s:o}", "name", p->name, "state",
                                      p->record ? run_text(p->record, "state") : "unknown", "generation",
                                      (json_int_t) run_number(p->record, "generation"), "part",
                                      part_state_name(p->now.state), "part_generation", (json_int_t) p->now.generation,
                                      "detail", p->detail, "why", run_text(p->record, "why"), "outcome",
                                      run_text(p->record, "outcome"), "waits_for",
                                      json_is_array(waits) ? json_incref(waits) : json_array());

                if (json_array_append_new(list, o) < 0) {
                        json_decref(list);
                        return NULL;
                }
        }
        return list;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_parts_new(struct agent_registry *g, struct agent_parts **ret) {
        struct agent_parts *all = calloc(1, sizeof(*all));
        int r;

        if (!all)
                return -ENOMEM;
        all->registry = g;
        all->known = !launchd_socket(g->agent); /* nobody to ask: there are none */
        r = sd_event_add_time(g->agent->event, &all->again, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_again, all);
        if (r >= 0)
                r = sd_event_source_set_enabled(all->again, SD_EVENT_OFF);
        if (r < 0) {
                (void) agent_parts_free(all);
                return r;
        }
        (void) sd_event_source_set_description(all->again, "parts-again");
        *ret = all;
        return 0;
}

struct agent_parts *agent_parts_free(struct agent_parts *all) {
        if (!all)
                return NULL;
        for (size_t i = 0; i < all->n; i++)
                (void) part_free(all->parts[i]);
        all->again = sd_event_source_disable_unref(all->again);
        free(all);
        return NULL;
}
