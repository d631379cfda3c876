/* SPDX-License-Identifier: Apache-2.0 */
/* The checks of the part "member": the registry, this host's place in it, its machine id, its clock. */
#include "check_words.h"
#include "clock.h"
#include "json_text.h"
#include "member_state.h"

#define SLICE_WAITS (60 * USEC_PER_SEC)
#define CLOCK_APART (5 * (int64_t) USEC_PER_SEC / 2) /* 2 s, and half of the second that an answer has */

static void judge_registry(struct member_state *m) {
        const struct registry_status *s = &m->status;
        char since[CLOCK_TEXT_MAX];
        usec_t now = host_now(m->bus->host), real = host_now_real(m->bus->host);
        struct finding f;

        finding_init(&f, "enroll.registry", "");
        f.verdict = VERDICT_OK;
        finding_set(f.source, "[Registry] of hostd.conf");
        if (!m->registry) {
                finding_set(f.found, "%s",
                            m->who.in_the_clear || !m->who.by_itself ? "none" : m->who.why_not);
                if (m->who.in_the_clear)
                        check_say(&f, WORDS_REGISTRY_CLEAR, m->who.why_not);
                else if (!m->who.by_itself)
                        check_say(&f, WORDS_REGISTRY_NONE, m->who.why_not);
                bus_take_finding(m->bus, m->source, m->round, &f);
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
                        check_say(&f, WORDS_REGISTRY_AWAY, s->why, m->who.endpoint);
                break;
        case REGISTRY_REFUSED:
        case _REGISTRY_STATE_MAX:
                finding_set(f.reason, "%s", s->why[0] ? s->why : "it refuses this host");
                if (!m->who.by_itself)
                        check_say(&f, WORDS_REGISTRY_REFUSES, f.reason);
                break;
        }
        bus_take_finding(m->bus, m->source, m->round, &f);
}

static void judge_slot(struct member_state *m) {
        char worker[16];
        struct finding f;

        if (!m->registry)
                return;
        finding_init(&f, "enroll.identity", "");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "worker %u of slice %s", m->who.worker, m->who.slice);
        if (m->status.state == REGISTRY_CONFLICT) {
                (void) snprintf(worker, sizeof(worker), "%u", m->who.worker);
                check_say(&f, WORDS_IDENTITY_TWICE, m->status.why, member_machine(m->bus), m->who.slice,
                          worker);
        }
        bus_take_finding(m->bus, m->source, m->round, &f);
}

static void judge_machine(struct member_state *m) {
        const json_t *twin = slice_entry(m->slice_record, "twins", m->who.worker);
        struct finding f;
        char other[160];

        if (!m->registry || !m->slice_record)
                return;
        finding_init(&f, "enroll.machine", "");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "%s", m->bus->machine_id);
        (void) snprintf(other, sizeof(other), "%.63s (%.63s)", json_text_of(twin, "other"),
                        json_text_of(twin, "address"));
        if (twin)
                check_say(&f, WORDS_MACHINE_TWICE, other, m->bus->machine_id);
        bus_take_finding(m->bus, m->source, m->round, &f);
}

#define NEVER_HEARD "never heard" /* as the registry's records have it */

/* A slice of which a worker never came: one of its hosts says who it is otherwise, and perhaps this one. */
static void judge_slice(struct member_state *m) {
        usec_t real = host_now_real(m->bus->host);
        const json_t *o;
        struct finding f;
        char who[160];
        size_t i;

        json_array_foreach(json_object_get(m->slice_record, "missing"), i, o) {
                json_int_t since = json_integer_value(json_object_get(o, "since"));

                if (since <= 0 || (usec_t) since + SLICE_WAITS > real ||
                    !streq(json_text_of(o, "why"), NEVER_HEARD))
                        continue;
                (void) snprintf(who, sizeof(who), "worker %lld%s%.63s%s",
                                (long long) json_integer_value(json_object_get(o, "worker")),
                                *json_text_of(o, "host") ? " (" : "", json_text_of(o, "host"),
                                *json_text_of(o, "host") ? ")" : "");
                check_tell(&f, WORDS_SLICE_WAITS, "", who, m->who.slice);
                finding_set(f.found, "%s is missing", who);
                bus_take_finding(m->bus, m->source, m->round, &f);
                return;
        }
}

static void judge_clock(struct member_state *m) {
        char ahead[24];
        struct finding f;

        if (!m->clock_known)
                return;
        finding_init(&f, "enroll.clock", "");
        f.verdict = VERDICT_OK;
        (void) snprintf(ahead, sizeof(ahead), "%+.1f s", (double) m->clock_ahead / USEC_PER_SEC);
        finding_set(f.found, "within 2 s");
        if (m->clock_ahead > CLOCK_APART || m->clock_ahead < -CLOCK_APART) {
                finding_set(f.found, "%s", ahead);
                check_say(&f, WORDS_CLOCK_APART, ahead, m->who.endpoint);
        }
        bus_take_finding(m->bus, m->source, m->round, &f);
}

static void judge_likeness(struct member_state *m) {
        const json_t *u = slice_entry(m->slice_record, "unlike", m->who.worker);
        struct finding f;

        if (u) {
                check_tell(&f, WORDS_HOST_UNLIKE, "", json_text_of(u, "part"), json_text_of(u, "found"),
                           json_text_of(u, "others"), m->who.slice);
                bus_take_finding(m->bus, m->source, m->round, &f);
        }
        if (m->names.check[0])
                bus_take_finding(m->bus, m->source, m->round, &m->names);
}

void member_judge(struct member_state *m) {
        m->round++;
        if (m->registry || m->who.why_not[0]) {
                judge_registry(m);
                judge_slot(m);
                judge_machine(m);
                judge_slice(m);
                judge_likeness(m);
                judge_clock(m);
                run_parts_judge(m);
        }
        bus_settle(m->bus, m->source, m->round);
}
