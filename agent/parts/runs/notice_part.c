/* SPDX-License-Identifier: Apache-2.0 */
#include "notice_part.h"

#include <assert.h>

#include "json_text.h"
#include "local_call.h"
#include "local.pb-c.h"
#include "utf8.h"

#define SIGNAL_TIME (10 * USEC_PER_SEC)

struct notice_state {
        struct bus *bus;
        bool ahead[_METADATA_NOTICE_MAX];
        char text[_METADATA_NOTICE_MAX][METADATA_UPCOMING_MAX]; /* the server's word */
        struct run_signal *signals; /* runs that are being warned */
};

struct run_signal {
        struct run_signal *next;
        struct notice_state *part;
        struct local_call *call;
        char name[64], reason[32];
        uint64_t generation;
};

static void forget_signal(struct run_signal *s) {
        for (struct run_signal **at = &s->part->signals; *at; at = &(*at)->next)
                if (*at == s) {
                        *at = s->next;
                        break;
                }
        s->call = local_call_free(s->call);
        free(s);
}

static void report_signal(const struct run_signal *s, bool good, const char *result) {
        (void) bus_emit(s->part->bus,
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
                (void) snprintf(done, sizeof(done), "not sent: %.180s", a->text);
        else
                utf8_copy(done, sizeof(done), reply ? reply->done : "done");
        report_signal(s, a->error == 0, done);
        if (reply)
                local__signal_reply__free_unpacked(reply, NULL);
        forget_signal(s);
}

static void signal_run(struct notice_state *p, const struct host_run *run, const char *reason) {
        Local__SignalRequest m = LOCAL__SIGNAL_REQUEST__INIT;
        struct run_signal *s = calloc(1, sizeof(*s));
        int r = s ? 0 : -ENOMEM;

        if (s) {
                *s = (struct run_signal){ .next = p->signals, .part = p, .generation = run->generation };
                p->signals = s;
                (void) snprintf(s->name, sizeof(s->name), "%s", run->name);
                (void) snprintf(s->reason, sizeof(s->reason), "%s", reason);
                m.name = s->name;
                m.generation = run->generation;
                m.reason = s->reason;
                r = local_call_new(p->bus->event,
                                   &(struct local_question){ "tpu-launchd", bus_launchd_socket(p->bus),
                                                             LOCAL__KIND__KIND_SIGNAL_REQUEST,
                                                             LOCAL__KIND__KIND_SIGNAL_REPLY, &m.base,
                                                             SIGNAL_TIME },
                                   on_signalled, s, &s->call);
        }
        if (r < 0 && s) {
                report_signal(s, false, "not sent: out of memory");
                forget_signal(s);
        }
}

static void hear_notice(void *self, const struct bus_news *n) {
        static const enum event_id events[] = {
                [METADATA_PREEMPTION] = EVENT_PREEMPTION_NOTICE,
                [METADATA_MAINTENANCE] = EVENT_MAINTENANCE_NOTICE,
                [METADATA_UPCOMING] = EVENT_MAINTENANCE_UPCOMING,
        };
        struct notice_state *p = self;
        const struct host_runs *l = p->bus->runs;
        enum metadata_notice kind;
        bool ahead;

        if (n->topic != BUS_NOTICE)
                return;
        kind = n->notice.kind;
        ahead = n->notice.ahead;
        assert(kind < _METADATA_NOTICE_MAX);
        p->ahead[kind] = ahead;
        utf8_copy(p->text[kind], sizeof(p->text[kind]), n->notice.text);
        (void) bus_emit(p->bus,
                        EVENT_LIKE(PREEMPTION_NOTICE, events[kind], ahead ? SEVERITY_WARN : SEVERITY_INFO,
                                   .notice = metadata_notice_name(kind),
                                   .state = !ahead                      ? "over"
                                            : kind == METADATA_UPCOMING ? "planned"
                                                                        : "ahead",
                                   .text = n->notice.text, .runs = (int64_t) host_runs_living(l)),
                        NULL);
        bus_tell(p->bus, BUS_MEMBER);
        if (!ahead || kind == METADATA_UPCOMING) /* days ahead: maintenance-event says when it begins */
                return;
        for (size_t i = 0; i < l->n; i++)
                if (host_run_lives(&l->runs[i]))
                        signal_run(p, &l->runs[i], metadata_notice_name(kind));
}

static int status_notice(void *self, json_t *status) {
        const struct notice_state *p = self;
        json_t *list = json_array();

        for (enum metadata_notice n = 0; n < _METADATA_NOTICE_MAX; n++)
                if (p->ahead[n])
                        list = json_list_add(list, json_pack("{s:s, s:s}", "notice", metadata_notice_name(n),
                                                             "text", p->text[n]));
        return json_object_set_new(status, "notices", list) < 0 ? -ENOMEM : 0;
}

static void stop_notice(void *self) {
        struct notice_state *p = self;

        while (p->signals)
                forget_signal(p->signals);
}

const char *notice_ahead(const struct bus *b) {
        const struct notice_state *p = bus_part(b, &notice_part);

        for (enum metadata_notice n = 0; n < _METADATA_NOTICE_MAX; n++)
                if (p->ahead[n] && n != METADATA_UPCOMING)
                        return metadata_notice_name(n);
        return "";
}

const struct part notice_part = {
        .name = "notice",
        .size = sizeof(struct notice_state),
        .hear = hear_notice,
        .status = status_notice,
        .stop = stop_notice,
};
