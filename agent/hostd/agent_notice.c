/* SPDX-License-Identifier: Apache-2.0 */
#include "agent.h"
#include "local_call.h"
#include "local.pb-c.h"
#include "paths.h"
#include "utf8.h"

/* The runs of this host are told that it is about to go: each by what its own spec names, through tpu-launchd. */

#define SIGNAL_TIME (10 * USEC_PER_SEC)

struct run_signal {
        struct run_signal *next;
        struct bus *bus;
        struct local_call *call;
        char name[64], reason[32];
        uint64_t generation;
};

static void drop(struct run_signal *s) {
        for (struct run_signal **at = &agent_of(s->bus)->signals; *at; at = &(*at)->next)
                if (*at == s) {
                        *at = s->next;
                        break;
                }
        s->call = local_call_free(s->call);
        free(s);
}

static void tell_result(const struct run_signal *s, bool good, const char *result) {
        (void) bus_emit(s->bus,
                          EVENT_AS(RUN_NOTIFIED, good ? SEVERITY_INFO : SEVERITY_WARN, .run = s->name,
                                   .generation = (int64_t) s->generation, .notice = s->reason,
                                   .result = result),
                          NULL);
}

static void on_signalled(const struct local_answer *a, void *userdata) {
        struct run_signal *s = userdata;
        Local__SignalReply *reply = a->error < 0 ? NULL : local__signal_reply__unpack(NULL, a->len, a->data);
        char done[200];

        if (a->error < 0)
                (void) snprintf(done, sizeof(done), "not told: %.180s", a->text);
        else
                utf8_copy(done, sizeof(done), reply ? reply->done : "done");
        tell_result(s, a->error == 0, done);
        if (reply)
                local__signal_reply__free_unpacked(reply, NULL);
        drop(s);
}

static void signal_run(struct bus *b, const struct host_run *run, const char *reason) {
        Local__SignalRequest m = LOCAL__SIGNAL_REQUEST__INIT;
        struct run_signal *s = calloc(1, sizeof(*s));
        int r = s ? 0 : -ENOMEM;

        if (s) {
                *s = (struct run_signal){ .next = agent_of(b)->signals, .bus = b, .generation = run->generation };
                agent_of(b)->signals = s;
                (void) snprintf(s->name, sizeof(s->name), "%s", run->name);
                (void) snprintf(s->reason, sizeof(s->reason), "%s", reason);
                m.name = s->name;
                m.generation = run->generation;
                m.reason = s->reason;
                r = local_call_new(b->event,
                                   &(struct local_question){ "tpu-launchd", bus_launchd_socket(b),
                                                             LOCAL__KIND__KIND_SIGNAL_REQUEST,
                                                             LOCAL__KIND__KIND_SIGNAL_REPLY, &m.base,
                                                             SIGNAL_TIME },
                                   on_signalled, s, &s->call);
        }
        if (r < 0 && s) {
                tell_result(s, false, "not told: out of memory");
                drop(s);
        }
}

/* reason: "preemption" or "maintenance". */
static void agent_signal_runs(struct bus *b, const char *reason) {
        const struct host_runs *l = b->runs;

        for (size_t i = 0; i < l->n; i++)
                if (host_run_lives(&l->runs[i]))
                        signal_run(b, &l->runs[i], reason);
}

void agent_signal_stop(struct bus *b) {
        while (agent_of(b)->signals)
                drop(agent_of(b)->signals);
}

/* A preemption or a maintenance that is ahead: the event, and what the runs of this host are told. */

static void tell(struct bus *b, enum metadata_notice kind, const char *text, bool ahead) {
        static const enum event_id events[] = {
                [METADATA_PREEMPTION] = EVENT_PREEMPTION_NOTICE,
                [METADATA_MAINTENANCE] = EVENT_MAINTENANCE_NOTICE,
                [METADATA_UPCOMING] = EVENT_MAINTENANCE_UPCOMING,
        };

        agent_of(b)->notice_ahead[kind] = ahead;
        (void) bus_emit(b,
                          EVENT_LIKE(PREEMPTION_NOTICE, events[kind], ahead ? SEVERITY_WARN : SEVERITY_INFO,
                                     .notice = metadata_notice_name(kind),
                                     .state = !ahead                      ? "over"
                                              : kind == METADATA_UPCOMING ? "planned"
                                                                          : "ahead",
                                     .text = text, .runs = (int64_t) host_runs_living(b->runs)),
                          NULL);
        bus_tell(b, BUS_MEMBER);
}

void agent_preempted(struct bus *b, enum metadata_notice kind, const char *text) {
        tell(b, kind, text, true);
        if (kind == METADATA_UPCOMING) /* days ahead: maintenance-event says when it begins */
                return;
        agent_signal_runs(b, metadata_notice_name(kind));
}

void agent_preemption_over(struct bus *b, enum metadata_notice kind, const char *text) {
        tell(b, kind, text, false);
}

const char *agent_notice(const struct bus *b) {
        for (enum metadata_notice n = 0; n < _METADATA_NOTICE_MAX; n++)
                if (agent_of(b)->notice_ahead[n] && n != METADATA_UPCOMING)
                        return metadata_notice_name(n);
        return "";
}
