/* SPDX-License-Identifier: Apache-2.0 */
/* The checks enroll.registry and enroll.identity. */
#include "agent_registry.h"
#include "clock.h"

/* Where to look when it does not answer. */
static void set_away(const struct agent_registry *g, struct finding *f) {
        f->verdict = VERDICT_WARN;
        finding_set(f->reason, "%s; runs go on as they are, new ones do not reach this host",
                    g->status.why[0] ? g->status.why : "it has not answered yet");
        if (g->kind == REGISTRY_COLLECTOR)
                finding_set(f->remedy, "systemctl status tpu-collectord, on the machine of %.120s",
                            g->endpoint);
        else
                finding_set(f->remedy, "tpu-hostd --show-config; [Registry] of hostd.conf");
}

static void judge_registry(struct agent_registry *g) {
        const struct registry_status *s = &g->status;
        char since[CLOCK_TEXT_MAX];
        usec_t now = host_now(g->agent->host), real = host_now_real(g->agent->host);
        struct finding f;

        finding_init(&f, "enroll.registry", "");
        f.verdict = VERDICT_OK;
        finding_set(f.source, "[Registry] of hostd.conf");
        if (!g->registry) {
                f.verdict = g->by_itself ? VERDICT_OK : VERDICT_WARN;
                finding_set(f.found, "%s", g->why_not);
                finding_set(f.reason, "%s", f.verdict == VERDICT_OK ? "" : g->why_not);
                finding_set(f.remedy, "%s",
                            f.verdict == VERDICT_OK ? "" : "tpuctl identity; tpu-hostd --show-config");
                agent_take_finding(g->agent, SOURCE_ENROLL, g->run, &f);
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
                if (!s->why[0]) /* it has just begun, and nothing has failed */
                        break;
                set_away(g, &f);
                break;
        case REGISTRY_REFUSED:
        case _REGISTRY_STATE_MAX:
                f.verdict = g->by_itself ? VERDICT_OK : VERDICT_WARN;
                finding_set(f.reason, "%s", s->why[0] ? s->why : "it refuses this host");
                finding_set(f.remedy, "%s",
                            g->by_itself ? "" : "tpu-hostd --show-config; [Registry] of hostd.conf");
                break;
        }
        agent_take_finding(g->agent, SOURCE_ENROLL, g->run, &f);
}

static void judge_identity(struct agent_registry *g) {
        struct finding f;

        if (!g->registry)
                return;
        finding_init(&f, "enroll.identity", "");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "worker %u of slice %s", g->worker, g->slice);
        if (g->status.state == REGISTRY_CONFLICT) {
                f.verdict = VERDICT_FAIL;
                finding_set(f.reason, "%s; this host (machine %s) takes part in no run", g->status.why,
                            agent_registry_id(g->agent));
                finding_set(f.remedy,
                            "one of both has a wrong identity: tpuctl identity on each; if the other machine is gone for "
                            "good: tpuctl fleet release %s %u",
                            g->slice, g->worker);
        }
        agent_take_finding(g->agent, SOURCE_ENROLL, g->run, &f);
}

void agent_registry_judge(struct agent_registry *g) {
        g->run++;
        if (g->registry || g->why_not[0]) {
                judge_registry(g);
                judge_identity(g);
        }
        agent_settle(g->agent, SOURCE_ENROLL, g->run);
}
