/* SPDX-License-Identifier: Apache-2.0 */
/* What tpu-launchd is asked for. */
#include "agent_part.h"
#include "log.h"

#define START_TIME                                                                                          \
        (120 * USEC_PER_SEC) /* starting a unit waits for its exec, and for the end of an older one */
#define STOP_MARGIN (30 * USEC_PER_SEC) /* beyond the grace */

/* What could not be asked is asked again: the same generation is never started twice. */
static void on_started(const struct local_answer *a, void *userdata) {
        struct run_part *p = userdata;
        char text[sizeof(p->detail)];

        p->call = local_call_free(p->call);
        if (a->no_answer) {
                part_enter(p, p->now.generation, PART_PREPARED, a->text);
                parts_try_again(p->owner);
        } else if (a->error < 0) {
                (void) snprintf(text, sizeof(text), "%.300s\n%.200s", a->text, a->remedy);
                part_refuse(p, text);
        }
        jobs_ask(part_agent(p)->jobs); /* its list says how far it is */
}

void part_start(struct run_part *p) {
        struct agent *a = part_agent(p);
        int r;

        part_enter(p, p->now.generation, PART_STARTING, p->detail);
        log_info("run %s, generation %" PRIu64 " is started", p->name, p->now.generation);
        r = local_call_new(a->event,
                           &(struct local_question){ "tpu-launchd", part_launchd_socket(a),
                                                     LOCAL__KIND__KIND_RUN_REQUEST,
                                                     LOCAL__KIND__KIND_RUN_REPLY, &p->request.message.base, START_TIME },
                           on_started, p, &p->call);
        if (r < 0) {
                part_enter(p, p->now.generation, PART_PREPARED, strerror(-r));
                parts_try_again(p->owner);
        }
}

static void on_stopped(const struct local_answer *a, void *userdata) {
        struct run_part *p = userdata;

        if (a->error < 0) {
                log_warning("run %s, generation %" PRIu64 " cannot be stopped: %s", p->name, p->stop_asked,
                            a->text);
                parts_try_again(p->owner);
        }
        p->call = local_call_free(p->call);
        p->stopping = false;
        jobs_ask(part_agent(p)->jobs);
}

void part_stop(struct run_part *p) {
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        struct agent *a = part_agent(p);
        usec_t grace = run_number(json_object_get(p->record, "intent"), "grace");
        int r;

        if (p->call && p->stopping)
                return;
        p->call = local_call_free(p->call); /* a start at work: it is stopped as soon as it is there */
        m.name = p->name;
        m.grace_usec = grace;
        m.generation = p->now.generation;
        p->stop_asked = p->now.generation;
        p->stopping = true;
        log_info("run %s, generation %" PRIu64 " is stopped: %s", p->name, p->now.generation,
                 run_text(p->record, "why"));
        r = local_call_new(a->event,
                           &(struct local_question){ "tpu-launchd", part_launchd_socket(a),
                                                     LOCAL__KIND__KIND_STOP_REQUEST,
                                                     LOCAL__KIND__KIND_STOP_REPLY, &m.base, grace + STOP_MARGIN },
                           on_stopped, p, &p->call);
        if (r < 0) {
                p->stopping = false;
                parts_try_again(p->owner);
        }
}
