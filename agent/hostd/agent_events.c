/* SPDX-License-Identifier: Apache-2.0 */
/* GET /v1/events, and those who wait there for the next one. */
#include "agent_calls.h"
#include "calls.h"

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
        struct bus *bus;
        sd_event_source *timer;
        struct waiter waiters[WAITERS_MAX];
        bool news; /* the timer stands at the end of the pause */
};

/* --- Those who wait ------------------------------------------------------------------------------------ */

static void answer(struct agent_events *e, struct waiter *w) {
        struct http_reply a;

        (void) answer_json(&a, 200, event_ring_to_json(&e->bus->ring, w->since));
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
        usec_t now = host_now(e->bus->host);

        if (at == USEC_INFINITY)
                (void) sd_event_source_set_enabled(e->timer, SD_EVENT_OFF);
        else if (sd_event_source_set_time_relative(e->timer, at > now ? at - now : 0) >= 0)
                (void) sd_event_source_set_enabled(e->timer, SD_EVENT_ONESHOT);
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct agent_events *e = userdata;
        usec_t now = host_now(e->bus->host);

        (void) source;
        (void) at;
        for (size_t i = 0; i < WAITERS_MAX; i++) {
                struct waiter *w = &e->waiters[i];

                if (w->call && (w->until <= now || w->since < e->bus->ring.next_seq))
                        answer(e, w);
        }
        e->news = false;
        set_timer(e, next_end(e));
        return 0;
}

void agent_events_news(struct bus *b) {
        struct agent_events *e = agent_of(b)->events;

        if (!e || e->news || next_end(e) == USEC_INFINITY)
                return;
        e->news = true;
        set_timer(e, host_now(b->host) + PAUSE);
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
        return of_one >= WAITERS_OF_ONE && !caller_is_root(c) ? NULL : place;
}

/* --- The call ------------------------------------------------------------------------------------------ */

int agent_get_events(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        int64_t given = route_number(r, "since", -1);
        uint64_t since = (uint64_t) MAX(given, INT64_C(0)), wait = (uint64_t) route_number(r, "wait", 0);
        struct waiter *w;

        /* Above what comes next: an answer of an agent before this one. It is told at once where this one
         * is. */
        if (given < 0 || wait == 0 || since != b->ring.next_seq)
                return answer_json(ret, 200, event_ring_to_json(&b->ring, since));
        w = find_place(agent_of(b)->events, r->caller);
        if (!w)
                return answer_json(ret, 200, event_ring_to_json(&b->ring, since));
        *w = (struct waiter){ .since = since,
                              .until = host_now(b->host) + wait * USEC_PER_SEC,
                              .uid = r->caller->peer.uid,
                              .remote = r->caller->remote };
        http_hold(r, &w->call);
        if (!agent_of(b)->events->news)
                set_timer(agent_of(b)->events, next_end(agent_of(b)->events));
        return 1;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int agent_events_start(struct bus *b) {
        int r;

        agent_of(b)->events = calloc(1, sizeof(*agent_of(b)->events));
        if (!agent_of(b)->events)
                return -ENOMEM;
        agent_of(b)->events->bus = b;
        r = sd_event_add_time(b->event, &agent_of(b)->events->timer, CLOCK_BOOTTIME, 0, USEC_PER_MSEC, on_timer,
                              agent_of(b)->events);
        if (r >= 0)
                r = sd_event_source_set_description(agent_of(b)->events->timer, "events-waiters");
        return r < 0 ? r : sd_event_source_set_enabled(agent_of(b)->events->timer, SD_EVENT_OFF);
}

void agent_events_stop(struct bus *b) {
        if (!agent_of(b)->events)
                return;
        for (size_t i = 0; i < WAITERS_MAX; i++)
                if (agent_of(b)->events->waiters[i].call)
                        answer(agent_of(b)->events, &agent_of(b)->events->waiters[i]);
        agent_of(b)->events->timer = sd_event_source_disable_unref(agent_of(b)->events->timer);
        free(agent_of(b)->events);
        agent_of(b)->events = NULL;
}
