/* SPDX-License-Identifier: Apache-2.0 */
#include "api_json.h"

#include "calls.h"
#include "json_text.h"
#include "report.h"

/* --- Checks -------------------------------------------------------------------------------------------- */

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
        json_t *history = json_pack("{s:o, s:I, s:o, s:b}", "since",
                                    answer_boot_instant(h->since, now, now_real), "worsened",
                                    (json_int_t) h->worsened, "last_good",
                                    answer_boot_instant(h->last_good, now, now_real), "flapping",
                                    h->flapping);

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
                list = json_list_add(list, add_history(o, &t->health[i], now, now_real));
        }
        return list;
}

static json_t *check_json(const struct check_entry *e, const struct check_health *h, usec_t now,
                          usec_t now_real) {
        struct finding latest;
        json_t *o;

        kept_finding_unpack(e->latest, &latest);
        o = json_member_add(finding_to_json(&latest), "settled", json_string(verdict_name(h->settled)));
        o = json_member_add(o, "silenced", json_boolean(h->silenced));
        return add_history(o, h, now, now_real);
}

json_t *api_json_checks(const struct check_table *t, usec_t now, usec_t now_real) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < t->n; i++)
                list = json_list_add(list, check_json(&t->entries[i], &t->health[i], now, now_real));
        return list ? json_pack("{s:o}", "checks", list) : NULL;
}

/* --- The host ------------------------------------------------------------------------------------------ */

static json_t *count_live_runs(const struct host_runs *l) {
        json_int_t running = 0;

        if (!l->known)
                return json_null();
        for (size_t i = 0; i < l->n; i++)
                running += !streq(l->runs[i].state, "exited");
        return json_integer(running);
}

json_t *api_json_status(const struct bus *b, usec_t now, usec_t now_real) {
        return json_pack("{s:s, s:s, s:s, s:s, s:o, s:{s:s?, s:s?, s:s?}, s:o, s:o}", "host", b->name,
                         "boot_id", b->boot_id, "version", TPU_HOSTD_VERSION, "state",
                         host_state_name(check_table_state(&b->checks)), "reasons",
                         api_json_reasons(&b->checks, now, now_real), "identity", "slice",
                         identity_get(&b->identity, IDENTITY_SLICE_NAME), "worker_id",
                         identity_get(&b->identity, IDENTITY_WORKER_ID), "accelerator_type",
                         identity_get(&b->identity, IDENTITY_ACCELERATOR_TYPE), "live_runs",
                         count_live_runs(b->runs), "started", answer_instant(b->started_real));
}
