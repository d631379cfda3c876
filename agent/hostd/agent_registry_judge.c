/* SPDX-License-Identifier: Apache-2.0 */
/* The checks enroll.registry and enroll.identity. */
#include "check_words.h"
#include "agent_registry.h"
#include "clock.h"

static void judge_registry(struct agent_registry *g) {
        const struct registry_status *s = &g->status;
        char since[CLOCK_TEXT_MAX];
        usec_t now = host_now(g->bus->host), real = host_now_real(g->bus->host);
        struct finding f;

        finding_init(&f, "enroll.registry", "");
        f.verdict = VERDICT_OK;
        finding_set(f.source, "[Registry] of hostd.conf");
        if (!g->registry) {
                finding_set(f.found, "%s", g->why_not);
                if (!g->by_itself)
                        check_say(&f, WORDS_REGISTRY_NONE, g->why_not);
                bus_take_finding(g->bus, SOURCE_ENROLL, g->run, &f);
                return;
        }
        finding_set(f.found, "%s since %s", registry_state_name(s->state),
                    clock_text(real - MIN(real, now - MIN(now, s->since)), since));
        switch (s->state) {
        case REGISTRY_MEMBER:
        case REGISTRY_CONFLICT: /* enroll.identity says it */
                break;
        case REGISTRY_JOINING:
        case REGISTRY_AWAY:
                if (s->why[0]) /* else it has just begun, and nothing has failed */
                        check_say(&f, WORDS_REGISTRY_AWAY, s->why, g->endpoint);
                break;
        case REGISTRY_REFUSED:
        case _REGISTRY_STATE_MAX:
                finding_set(f.reason, "%s", s->why[0] ? s->why : "it refuses this host");
                if (!g->by_itself)
                        check_say(&f, WORDS_REGISTRY_REFUSES, f.reason);
                break;
        }
        bus_take_finding(g->bus, SOURCE_ENROLL, g->run, &f);
}

static void judge_identity(struct agent_registry *g) {
        char worker[16];
        struct finding f;

        if (!g->registry)
                return;
        finding_init(&f, "enroll.identity", "");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "worker %u of slice %s", g->worker, g->slice);
        if (g->status.state == REGISTRY_CONFLICT) {
                (void) snprintf(worker, sizeof(worker), "%u", g->worker);
                check_say(&f, WORDS_IDENTITY_TWICE, g->status.why, agent_registry_id(g->bus), g->slice,
                          worker);
        }
        bus_take_finding(g->bus, SOURCE_ENROLL, g->run, &f);
}

void agent_registry_judge(struct agent_registry *g) {
        g->run++;
        if (g->registry || g->why_not[0]) {
                judge_registry(g);
                judge_identity(g);
        }
        bus_settle(g->bus, SOURCE_ENROLL, g->run);
}
