/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether this collector leads, and what becomes of the registry when it leads no more: that is seen before
 * each answer and each write.
 */
#include "inside.h"
#include "log.h"
#include "loop_timer.h"

#define DOCUMENT "/usr/share/doc/tpu-collector/on-call.md#collector-away"

unsigned registry_elsewhere(struct registry *r, struct registry_body **ret_body) {
        const char *leader = r->control->agents_url;

        r->counters.elsewhere++;
        *ret_body = *leader ? body_elsewhere(leader)
                            : body_error("no collector leads", "try again; see " DOCUMENT);
        return *ret_body && *leader ? 421 : 503;
}

const struct control_store *registry_control(const struct registry *r) {
        return r->control;
}

/* --- When something is due -------------------------------------------------------------------------- */

void registry_arm(struct registry *r) {
        usec_t next = MIN(r->gang_at, sessions_next(&r->sessions));
        int x;

        if (r->undecided)
                next = MIN(next, r->decide_at);
        x = loop_timer_at(r->timer, next);
        if (x < 0)
                (void) log_warning_errno(x, "registry: timer: %m");
}

usec_t registry_now(struct registry *r) {
        return clock_steady(&r->time, r->o.clock);
}

/* --- It leads no more ------------------------------------------------------------------------------ */

void registry_call_waiters(struct registry *r, int error) {
        struct waiter **at = &r->waiters;

        while (*at) {
                struct waiter *w = *at;

                if (error == 0 && w->decision > r->stored) {
                        at = &w->next;
                        continue;
                }
                *at = w->next;
                w->done(error, w->userdata);
                free(w);
        }
}

void registry_answer_all(struct registry *r, const char *why) {
        while (r->sessions.first) {
                void *call = sessions_take_call(&r->sessions, r->sessions.first);
                struct registry_body *b = NULL;
                unsigned status = 503;

                if (call && why)
                        b = body_error(why, "try again");
                else if (call)
                        status = registry_elsewhere(r, &b);
                if (call)
                        r->o.answer(call, status, b, r->o.userdata);
                sessions_drop(&r->sessions, r->sessions.first);
        }
}

void registry_forget_all(struct registry *r) {
        registry_call_waiters(r, -EAGAIN);
        answers_clear(&r->answers);
        records_clear(&r->records);
        r->records = (struct records){ 0 };
        json_decref(TAKE_PTR(r->kept));
        json_decref(TAKE_PTR(r->pending));
        json_decref(TAKE_PTR(r->sending));
        r->gang = gang_free(r->gang);
        r->undecided = r->failing = false;
        r->gang_at = USEC_INFINITY;
}

void registry_lose_lead(struct registry *r, const char *why) {
        if (!r->gang)
                return;
        log_warning("registry: this collector leads no more (term %" PRIu64 "): %s", r->control->term, why);
        registry_answer_all(r, NULL);
        registry_forget_all(r);
        registry_arm(r);
        if (r->o.leads)
                r->o.leads(false, r->o.userdata);
}

bool registry_leads(struct registry *r) {
        if (r->gang && !r->control->ops->leads(r->control))
                registry_lose_lead(r, "its time has run out");
        return r->gang;
}
