/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/events, and those who wait there for the next one. */
#include "agent_calls.h"

#define WAITERS_MAX 16 /* who comes then is answered at once, */
/* And so does who waits that often already: each user but root, and the network as a whole. */
#define WAITERS_OF_ONE 8
#define PAUSE (100 * USEC_PER_MSEC) /* after an event: what comes with it goes into the same answer */

struct waiter {
        struct http_call *call; /* NULL: the place is free */
        uint64_t since;
        usec_t until; /* of the boot clock */
        uid_t uid;
        bool remote;
};

struct agent_events {
        struct agent *agent;
        sd_event_source *timer;
        struct waiter waiters[WAITERS_MAX];
        bool news; /* the timer stands at the end of the pause */
};

/* --- Those who wait ------------------------------------------------------------------------------------ */

static void answer(struct agent_events *e, struct waiter *w) {
        struct http_reply a;

        (void) agent_answer_json(&a, 200, event_ring_to_json(&e->agent->ring, w->since));
        http_answer(TAKE_PTR(w->call), &a);
}

/* When the next one's time is up. */
static usec_t next_end(const struct agent_events *e) {
        usec_t next = USEC_INFINITY;

        for (size_t i = 0; i < WAITERS_MAX; i++)
                if (e->waiters[i].call)
                        next = MIN(next, e->waiters[i].until);
        return next;
}

/* Fails only when the loop ends: all are answered then. */
static void set_timer(struct agent_events *e, usec_t at) {
        usec_t now = host_now(e->agent->host);

        if (at == USEC_INFINITY)
                (void) sd_event_source_set_enabled(e->timer, SD_EVENT_OFF);
        else if (sd_event_source_set_time_relative(e->timer, at > now ? at - now : 0) >= 0)
                (void) sd_event_source_set_enabled(e->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct agent_events *e = userdata;
        usec_t now = host_now(e->agent->host);

        (void) source;
        (void) at;
        for (size_t i = 0; i < WAITERS_MAX; i++) {
                struct waiter *w = &e->waiters[i];

                if (w->call && (w->until <= now || w->since < e->agent->ring.next_seq))
                        answer(e, w);
        }
        e->news = false;
        set_timer(e, next_end(e));
        return 0;
}

void agent_events_news(struct agent *a) {
        struct agent_events *e = a->events;

        if (!e || e->news || next_end(e) == USEC_INFINITY)
                return;
        e->news = true;
        set_timer(e, host_now(a->host) + PAUSE);
}

/* A place to wait, or NULL: there is none, or who calls has enough. */
static struct waiter *find_place(struct agent_events *e, const struct http_caller *c) {
        struct waiter *place = NULL;
        size_t of_one = 0;

        for (size_t i = 0; e && i < WAITERS_MAX; i++)
                if (!e->waiters[i].call)
                        place = &e->waiters[i];
                else
                        of_one += e->waiters[i].remote == c->remote &&
                                  (c->remote || e->waiters[i].uid == c->peer.uid);
        return of_one >= WAITERS_OF_ONE && !agent_caller_is_root(c) ? NULL : place;
}

/* --- The call ------------------------------------------------------------------------------------------ */

int agent_get_events(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        int64_t given = route_number(r, "since", -1);
        uint64_t since = (uint64_t) MAX(given, INT64_C(0)), wait = (uint64_t) route_number(r, "wait", 0);
        struct waiter *w;

        /* Above what comes next: an answer of an agent before this one. It is told at once where this one
         * is. */
        if (given < 0 || wait == 0 || since != a->ring.next_seq)
                return agent_answer_json(ret, 200, event_ring_to_json(&a->ring, since));
        w = find_place(a->events, r->caller);
        if (!w)
                return agent_answer_json(ret, 200, event_ring_to_json(&a->ring, since));
        *w = (struct waiter){ .since = since,
                              .until = host_now(a->host) + wait * USEC_PER_SEC,
                              .uid = r->caller->peer.uid,
                              .remote = r->caller->remote };
        http_hold(r, &w->call);
        if (!a->events->news)
                set_timer(a->events, next_end(a->events));
        return 1;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_events_start(struct agent *a) {
        int r;

        a->events = calloc(1, sizeof(*a->events));
        if (!a->events)
                return -ENOMEM;
        a->events->agent = a;
        r = sd_event_add_time(a->event, &a->events->timer, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_timer,
                              a->events);
        if (r >= 0)
                r = sd_event_source_set_description(a->events->timer, "events-waiters");
        return r < 0 ? r : sd_event_source_set_enabled(a->events->timer, SD_EVENT_OFF);
}

void agent_events_stop(struct agent *a) {
        if (!a->events)
                return;
        for (size_t i = 0; i < WAITERS_MAX; i++)
                if (a->events->waiters[i].call)
                        answer(a->events, &a->events->waiters[i]);
        a->events->timer = sd_event_source_disable_unref(a->events->timer);
        free(a->events);
        a->events = NULL;
}
