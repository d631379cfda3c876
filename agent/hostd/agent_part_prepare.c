/* SPDX-License-Identifier: Apache-2.0 */
/* Whether this host may begin a generation, before it is begun. */
#include "agent_part.h"
#include "log.h"
#include "utf8.h"

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
        (void) snprintf(message, sizeof(message), "%s %s, generation %" PRIu64 ": %s",
                        event_def(EVENT_RUN_REFUSED)->summary, p->name, p->now.generation, reason);
        (void) agent_emit(part_agent(p), EVENT_RUN_REFUSED, event_def(EVENT_RUN_REFUSED)->severity, message,
                          body, ELEMENTSOF(body), NULL);
}

void part_refuse(struct run_part *p, const char *detail) {
        part_enter(p, p->now.generation, PART_REFUSED, detail);
        tell_refused(p);
}

static void on_preflight(const struct preflight_result *r, void *userdata) {
        struct run_part *p = userdata;

        if (r->refused)
                part_refuse(p, r->text);
        else
                part_enter(p, p->now.generation, PART_PREPARED, r->text);
        if (!r->refused && r->text[0])
                log_notice("run %s, generation %" PRIu64 ": %s", p->name, p->now.generation, r->text);
        p->preflight = preflight_free(p->preflight);
        part_act(p);
}

/* What this host is like among its slice's: "libtpu 0.0.39, others 0.0.41". False: as the others. */
static bool is_unlike(const struct agent_registry *g, char *buf, size_t size) {
        const json_t *list = json_object_get(g->slice_record, "unlike"), *u;
        size_t i;

        json_array_foreach(list, i, u)
                if (run_number(u, "worker") == g->worker && json_is_integer(json_object_get(u, "worker"))) {
                        (void) snprintf(
                                buf, size,
                                "%.63s is unlike the other hosts of slice %.63s: %.60s %.60s, others %.60s\n"
                                "bring it to the version of the others: tpuctl identity --json on both",
                                g->host, g->slice, run_text(u, "part"), run_text(u, "found"),
                                run_text(u, "others"));
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
                (void) snprintf(buf, size, "%s is %s: %s\ntpuctl uncordon, on %s", g->host,
                                drain ? "draining" : "cordoned", drain ? drain->reason : cordon->reason,
                                g->host);
        else if (agent_observes(a))
                (void) snprintf(buf, size, "the agents of %s only observe\ntpuctl mode repair, on %s",
                                g->host, g->host);
        else
                (void) is_unlike(g, buf, size);
        (void) utf8_scrub(buf, strlen(buf));
}

static int start_preflight(struct run_part *p) {
        struct agent_registry *g = p->owner->registry;
        struct agent *a = g->agent;
        const struct preflight_options o = { .host = a->host,
                                             .intent = &a->intent,
                                             .launchd_socket = part_launchd_socket(a),
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

/* What tpu-launchd will be asked for. why: as run_request_make(). */
static int make_request(struct run_part *p, char why[static RUN_WHY_MAX]) {
        const struct agent_registry *g = p->owner->registry;
        char nics[INTENT_NICS_TEXT_MAX];
        int r;

        (void) snprintf(p->serial, sizeof(p->serial), "%s", run_text(p->record, "serial"));
        p->step = -1;
        data_nics(g->agent, nics);
        r = run_request_make(p->record, g->slice, g->worker, &g->agent->identity, nics, &p->request, why);
        if (r == 0 && p->request.conflicts[0])
                log_notice("run %s: %s", p->name, p->request.conflicts);
        return r;
}

void part_prepare(struct run_part *p) {
        char why[sizeof(p->detail)] = "";
        int r;

        p->preflight = preflight_free(p->preflight);
        part_enter(p, run_number(p->record, "generation"), PART_PREPARING, "");
        own_objection(p->owner->registry, why, sizeof(why));
        if (why[0]) {
                part_refuse(p, why);
                return;
        }
        r = make_request(p, why);
        if (r == 0) {
                (void) snprintf(why, sizeof(why), "out of memory");
                r = start_preflight(p);
        }
        if (r < 0)
                part_refuse(p, why);
}

void part_prepared_before(struct run_part *p) {
        char why[sizeof(p->detail)] = "";

        if (make_request(p, why) < 0)
                return; /* it is prepared anew, and refused with that reason */
        log_info("run %s, generation %" PRIu64 " was prepared before tpu-hostd was started", p->name,
                 run_number(p->record, "generation"));
        part_enter(p, run_number(p->record, "generation"), PART_PREPARED, "");
}
