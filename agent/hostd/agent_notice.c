/* SPDX-License-Identifier: Apache-2.0 */
/* A preemption or a maintenance that is ahead: the event, and what the runs of this host are told. */
#include "agent.h"

static int64_t count_runs(const struct agent *a) {
        const struct job_list *l = jobs_get(a->jobs);
        int64_t n = 0;

        for (size_t i = 0; i < l->n; i++)
                n += !streq(l->jobs[i].state, "exited");
        return n;
}

static void tell(struct agent *a, enum metadata_notice kind, const char *text, bool ahead) {
        static const enum event_id events[] = {
                [METADATA_PREEMPTION] = EVENT_PREEMPTION_NOTICE,
                [METADATA_MAINTENANCE] = EVENT_MAINTENANCE_NOTICE,
                [METADATA_UPCOMING] = EVENT_MAINTENANCE_UPCOMING,
        };
        const struct otlp_attribute body[] = {
                { .key = "notice", .text = metadata_notice_name(kind) },
                { .key = "state", .text = !ahead ? "over" : kind == METADATA_UPCOMING ? "planned" : "ahead" },
                { .key = "text", .text = text },
                { .key = "runs", .number = count_runs(a) },
        };
        char message[512];

        a->notice_ahead[kind] = ahead;
        (void) snprintf(message, sizeof(message), "%s notice %s: the metadata server says '%.256s'",
                        metadata_notice_name(kind), ahead ? "for this host" : "taken back", text);
        (void) agent_emit(a, events[kind], ahead ? OTLP_WARN : OTLP_INFO, message, body, ELEMENTSOF(body),
                          NULL);
        agent_registry_news(a);
}

void agent_preempted(struct agent *a, enum metadata_notice kind, const char *text) {
        tell(a, kind, text, true);
        if (kind == METADATA_UPCOMING) /* days ahead: maintenance-event says when it begins */
                return;
        agent_signal_runs(a, metadata_notice_name(kind));
}

void agent_preemption_over(struct agent *a, enum metadata_notice kind, const char *text) {
        tell(a, kind, text, false);
}

const char *agent_notice(const struct agent *a) {
        for (enum metadata_notice n = 0; n < _METADATA_NOTICE_MAX; n++)
                if (a->notice_ahead[n] && n != METADATA_UPCOMING)
                        return metadata_notice_name(n);
        return "";
}
