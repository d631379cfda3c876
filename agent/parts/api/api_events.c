/* SPDX-License-Identifier: Apache-2.0 */
#include "api_state.h"
#include "calls.h"
#include "loop_timer.h"

/* Who has that many waiting is answered at once: each user but root, and the network as a whole. */
#define WAITERS_OF_ONE 8
#define PAUSE (100 * USEC_PER_MSEC) /* after an event: what comes with it goes into the same answer */

/* --- Those who wait ------------------------------------------------------------------------------------ */

static void answer_waiter(struct api_state *p, struct event_waiter *w) {
        struct http_reply a;

        (void) answer_json(&a, 200, event_ring_to_json(&p->bus->ring, w->since, w->stacks));
        http_answer(TAKE_PTR(w->call), &a);
}

/* When the next one's time is up. */
static usec_t next_end(const struct api_state *p) {
        usec_t next = USEC_INFINITY;

        for (size_t i = 0; i < EVENT_WAITERS_MAX; i++)
                if (p->waiters[i].call)
                        next = MIN(next, p->waiters[i].until);
        return next;
}

/* Fails only when the loop ends: all are answered then. */
static void set_timer(struct api_state *p, usec_t at) {
        usec_t now = host_now(p->bus->host);

        (void) loop_timer_in(p->waiters_timer, at == USEC_INFINITY ? at : at - MIN(at, now));
}

static int on_waiters_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct api_state *p = userdata;
        usec_t now = host_now(p->bus->host);

        (void) source, (void) at;
        for (size_t i = 0; i < EVENT_WAITERS_MAX; i++) {
                struct event_waiter *w = &p->waiters[i];

                if (w->call && (w->until <= now || w->since < p->bus->ring.next_seq))
                        answer_waiter(p, w);
        }
        p->news = false;
        set_timer(p, next_end(p));
        return 0;
}

void api_events_wake(struct api_state *p) {
        if (!p->waiters_timer || p->news || next_end(p) == USEC_INFINITY)
                return;
        p->news = true;
        set_timer(p, host_now(p->bus->host) + PAUSE);
}

/* A place to wait, or NULL: there is none, or the caller has enough. */
static struct event_waiter *find_place(struct api_state *p, const struct http_caller *c) {
        struct event_waiter *place = NULL;
        size_t of_one = 0;

        for (size_t i = 0; i < EVENT_WAITERS_MAX; i++)
                if (!p->waiters[i].call)
                        place = &p->waiters[i];
                else
                        of_one += p->waiters[i].remote == c->remote &&
                                  (c->remote || p->waiters[i].uid == c->peer.uid);
        return of_one >= WAITERS_OF_ONE && !caller_is_root(c) ? NULL : place;
}

/* --- The call ------------------------------------------------------------------------------------------ */

int api_get_events(void *self, const struct http_request *r, struct http_reply *ret) {
        struct api_state *p = self;
        const struct bus *b = p->bus;
        int64_t given = route_number(r, "since", -1);
        uint64_t since = (uint64_t) MAX(given, INT64_C(0)), wait = (uint64_t) route_number(r, "wait", 0);
        bool stacks = caller_may_see_stacks(r->caller);
        struct event_waiter *w = NULL;

        /* A number above the next one is of an earlier life of the agent: the answer says at once where this
         * one is. */
        if (given >= 0 && wait > 0 && since == b->ring.next_seq)
                w = find_place(p, r->caller);
        if (!w)
                return answer_json(ret, 200, event_ring_to_json(&b->ring, since, stacks));
        *w = (struct event_waiter){ .since = since,
                                    .until = host_now(b->host) + wait * USEC_PER_SEC,
                                    .uid = r->caller->peer.uid,
                                    .remote = r->caller->remote,
                                    .stacks = stacks };
        http_hold(r, &w->call);
        if (!p->news)
                set_timer(p, next_end(p));
        return 1;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int api_events_start(struct api_state *p) {
        return loop_timer_new(p->bus->event, CLOCK_BOOTTIME, USEC_PER_MSEC, "events-waiters",
                              on_waiters_timer, p, &p->waiters_timer);
}

void api_events_stop(struct api_state *p) {
        for (size_t i = 0; i < EVENT_WAITERS_MAX; i++)
                if (p->waiters[i].call)
                        answer_waiter(p, &p->waiters[i]);
        p->waiters_timer = sd_event_source_disable_unref(p->waiters_timer);
}
