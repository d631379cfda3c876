/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "api_json.h"
#include "clock.h"
#include "report.h"

json_t *api_json_append(json_t *list, json_t *item) {
        if (list && json_array_append_new(list, item) >= 0) /* refuses a NULL item */
                return list;
        json_decref(list);
        return NULL;
}

json_t *api_json_time(usec_t real) {
        char text[CLOCK_TEXT_MAX];

        return real > 0 ? json_string(clock_text(real, text)) : json_null();
}

/* When something of the boot clock was on the real clock. */
static usec_t boot_to_real(usec_t at, usec_t now, usec_t now_real) {
        return at == 0 || at > now || now - at > now_real ? 0 : now_real - (now - at);
}

/* The check's own reason, else what was found beside what was wanted. */
static json_t *reason_json(const struct kept_finding *f) {
        char text[sizeof(((struct finding *) NULL)->found) + sizeof(((struct finding *) NULL)->wanted) + 32];

        if (f->reason[0])
                return json_string(f->reason);
        if (f->wanted[0])
                (void) snprintf(text, sizeof(text), "found %s, wanted %s", f->found, f->wanted);
        else
                (void) snprintf(text, sizeof(text), "found %s", f->found);
        return json_string(text);
}

/* Adds since when a check counts as it does, how often it got worse, and when it was last good. */
static json_t *add_history(json_t *o, const struct check_health *h, usec_t now, usec_t now_real) {
        json_t *history =
                json_pack("{s:o, s:I, s:o, s:b}", "since", api_json_time(boot_to_real(h->since, now, now_real)),
                          "worsened", (json_int_t) h->worsened, "last_good",
                          api_json_time(boot_to_real(h->last_good, now, now_real)), "flapping", h->flapping);

        if (o && history && json_object_update(o, history) >= 0) {
                json_decref(history);
                return o;
        }
        json_decref(history);
        json_decref(o);
        return NULL;
}

json_t *api_json_reasons(const struct check_table *t, usec_t now, usec_t now_real) {
        json_t *list = json_array(), *o;

        for (size_t i = 0; list && i < t->n; i++) {
                const struct kept_finding *f = t->entries[i].settled;

                if (t->health[i].settled == VERDICT_OK || !check_health_counts(&t->health[i]))
                        continue;
                o = json_pack("{s:s, s:s, s:s, s:o, s:s}", "check", f->check, "subject", f->subject,
                              "verdict", verdict_name(t->health[i].settled), "reason", reason_json(f),
                              "remedy", f->remedy);
                list = api_json_append(list, add_history(o, &t->health[i], now, now_real));
        }
        return list;
}

static json_t *check_json(const struct check_entry *e, const struct check_health *h, usec_t now,
                          usec_t now_real) {
        struct finding latest;
        json_t *o;

        kept_finding_unpack(e->latest, &latest);
        o = finding_to_json(&latest);

        if (o && json_object_set_new(o, "settled", json_string(verdict_name(h->settled))) >= 0 &&
            json_object_set_new(o, "silenced", json_boolean(h->silenced)) >= 0)
                return add_history(o, h, now, now_real);
        json_decref(o);
        return NULL;
}

json_t *api_json_checks(const struct check_table *t, usec_t now, usec_t now_real) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < t->n; i++)
                list = api_json_append(list, check_json(&t->entries[i], &t->health[i], now, now_real));
        return list ? json_pack("{s:o}", "checks", list) : NULL;
}

static json_t *jobs_count(const struct job_list *l) {
        json_int_t running = 0;

        if (!l->known)
                return json_null();
        for (size_t i = 0; i < l->n; i++)
                running += !streq(l->jobs[i].state, "exited");
        return json_integer(running);
}

json_t *api_json_status(const struct api_status *s) {
        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:s?, s:s?, s:s?}, s:o, s:o, s:o}", "host", s->host,
                         "boot_id", s->boot_id, "version", TPU_HOSTD_VERSION, "state",
                         host_state_name(check_table_state(s->checks)), "reasons",
                         api_json_reasons(s->checks, s->now, s->now_real), "identity", "slice",
                         identity_get(s->identity, IDENTITY_SLICE_NAME), "worker_id",
                         identity_get(s->identity, IDENTITY_WORKER_ID), "accelerator_type",
                         identity_get(s->identity, IDENTITY_ACCELERATOR_TYPE), "jobs", jobs_count(s->jobs),
                         "uplink", api_json_uplink(s->uplink, s->endpoint, s->now, s->now_real), "started",
                         api_json_time(s->started_real));
}

/* null for what is not known. */
static json_t *number_json(double d) {
        return isfinite(d) ? json_real(d) : json_null();
}

static json_t *job_json(const struct job *j, const struct job_seen *seen) {
        const struct run_progress *p = seen->log;
        bool steps = p && p->progress.lines > 0;

        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:i, s:i, s:o, s:o, s:o, s:s?, s:s?, s:I, s:I, s:I, s:s, s:s}",
                         "name", j->name, "unit", j->unit, "state", j->state, "cause", j->cause, "code",
                         j->code, "status", j->status, "framework", j->framework, "malloc", j->malloc,
                         "user", j->user, "command", j->command, "started", api_json_time(j->started_real),
                         "ended", api_json_time(j->ended_real), "main_pid", (int) j->main_pid, "processes",
                         (int) j->processes, "step",
                         steps ? json_integer((json_int_t) p->progress.last_step) : json_null(),
                         "step_seconds",
                         number_json(steps ? p->progress.last.seconds : NAN), "goodput", number_json(seen->goodput),
                         "suspicion", seen->suspicion, "killed_by", seen->killed_by[0] ? seen->killed_by : NULL, "generation",
                         (json_int_t) j->generation, "restarts", (json_int_t) j->restarts, "restarts_max",
                         (json_int_t) j->restarts_max, "why", j->why, "remedy", j->remedy);
}

json_t *api_json_jobs(const struct job_list *l,
                      struct job_seen (*lookup)(const char *job, void *userdata), void *userdata) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < l->n; i++) {
                struct job_seen seen = lookup(l->jobs[i].name, userdata);

                list = api_json_append(list, job_json(&l->jobs[i], &seen));
        }
        return list ? json_pack("{s:o}", "jobs", list) : NULL;
}
