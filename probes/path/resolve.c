/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <netdb.h>

#include "child.h"
#include "io.h"
#include "loop_timer.h"
#include "resolve.h"

#define WORKERS_MIN 12
#define WORKER_NAMES 80 /* at most: their answers fit into CHILD_ANSWER_MAX */
#define WORKERS_MAX (FINDING_LIST_MAX / WORKER_NAMES + 1)
#define END_TIME (100 * USEC_PER_MSEC) /* for what workers found to come, once they are killed */

struct resolver {
        struct path_plan *plan;
        void (*done)(void *userdata);
        void *userdata;
        sd_event_source *timer;
        struct worker {
                struct resolver *resolver;
                struct child *child;
        } workers[WORKERS_MAX];
        size_t n_workers, working;
};

struct answer {
        uint16_t index;
        int8_t error;
        uint8_t families[2]; /* of address and other; 0: there is none */
        uint8_t bytes[2][16];
};
_Static_assert(WORKER_NAMES * sizeof(struct answer) <= CHILD_ANSWER_MAX && ENOENT < 128 && EAGAIN < 128 &&
                       FINDING_LIST_MAX <= UINT16_MAX,
               "what a worker answers");

static void put_found_address(const struct addrinfo *i, uint8_t *ret_family, uint8_t ret[static 16]) {
        const union path_address *a = (const void *) i->ai_addr;

        *ret_family = (uint8_t) i->ai_family;
        if (i->ai_family == AF_INET)
                memcpy(ret, &a->in.sin_addr, 4);
        else
                memcpy(ret, &a->in6.sin6_addr, 16);
}

/* The resolver's first choice, and the first of the other family: the NIC may have that one only. */
static int look_up(const char *name, struct answer *ret) {
        const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                        .ai_socktype = SOCK_DGRAM,
                                        .ai_flags = AI_ADDRCONFIG };
        struct addrinfo *list = NULL;
        int r = getaddrinfo(name, NULL, &hints, &list);
        size_t n = 0;

        if (r == EAI_AGAIN || r == EAI_SYSTEM || r == EAI_MEMORY)
                return -EAGAIN;
        for (const struct addrinfo *i = list; r == 0 && i && n < 2; i = i->ai_next)
                if ((i->ai_family == AF_INET || i->ai_family == AF_INET6) &&
                    i->ai_family != ret->families[0]) {
                        put_found_address(i, &ret->families[n], ret->bytes[n]);
                        n++;
                }
        if (list)
                freeaddrinfo(list);
        return n > 0 ? 0 : -ENOENT;
}

/* In the child: each name's answer as soon as it is there, for time may be up before the last. */
static int look_up_names(int fd, const void *data) {
        const struct worker *w = data;
        const struct resolver *r = w->resolver;
        int k = 0;

        for (size_t i = (size_t) (w - r->workers); i < r->plan->n && k == 0; i += r->n_workers) {
                struct answer a = { .index = (uint16_t) i };

                if (r->plan->paths[i].error == 0)
                        continue;
                a.error = (int8_t) look_up(r->plan->paths[i].what.peer, &a);
                k = io_write_all(fd, &a, sizeof(a));
        }
        return k;
}

static void finish_names(struct resolver *r) {
        (void) sd_event_source_set_enabled(r->timer, SD_EVENT_OFF);
        r->working = 0;
        r->done(r->userdata);
}

static void on_worker_end(int result, const char *text, size_t len, void *userdata) {
        struct worker *w = userdata;
        struct resolver *r = w->resolver;
        struct answer a;

        (void) result; /* of whom nothing came, error is as it was */
        if (r->working == 0)
                return; /* too late */
        for (; len >= sizeof(a); text += sizeof(a), len -= sizeof(a)) {
                memcpy(&a, text, sizeof(a));
                if (a.index >= r->plan->n)
                        continue;
                r->plan->paths[a.index].error = a.error;
                address_fill(&r->plan->paths[a.index].what.to, a.families[0], a.bytes[0]);
                address_fill(&r->plan->paths[a.index].other, a.families[1], a.bytes[1]);
        }
        if (--r->working == 0)
                finish_names(r);
}

static int on_names_timeout(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        finish_names(userdata);
        return 0;
}

static int start_workers(struct resolver *r, sd_event *e, usec_t timeout, size_t names) {
        r->n_workers = MIN(names, MAX((size_t) WORKERS_MIN, r->plan->n / WORKER_NAMES + 1));
        for (size_t i = 0; i < r->n_workers; i++) {
                const struct child_work w = { .name = "path: names",
                                              .timeout = timeout - END_TIME,
                                              .run = look_up_names,
                                              .data = &r->workers[i],
                                              .done = on_worker_end,
                                              .userdata = &r->workers[i] };
                int k;

                r->workers[i].resolver = r;
                k = child_start(e, &w, &r->workers[i].child);
                if (k < 0)
                        return k;
                r->working++;
        }
        return 0;
}

int resolver_new(sd_event *e, struct path_plan *plan, usec_t timeout, void (*done)(void *userdata),
                 void *userdata, struct resolver **ret) {
        _cleanup_(resolver_freep) struct resolver *r = calloc(1, sizeof(*r));
        size_t names = 0;
        int k;

        assert(timeout > END_TIME);
        if (!r)
                return -ENOMEM;
        *r = (struct resolver){ .plan = plan, .done = done, .userdata = userdata };
        for (size_t i = 0; i < plan->n; i++) {
                struct path *p = &plan->paths[i];

                p->error = address_parse(p->what.peer, &p->what.to) < 0 ? -ETIMEDOUT : 0;
                names += p->error < 0;
        }
        /* Of a worker that a stuck file system holds nobody hears again: the timer ends it for us. */
        k = loop_timer_new(e, CLOCK_MONOTONIC, USEC_PER_MSEC, "path: time for names", on_names_timeout, r,
                           &r->timer);
        if (k >= 0)
                k = loop_timer_in(r->timer, names > 0 ? timeout : 0);
        if (k >= 0)
                k = start_workers(r, e, timeout, names);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

struct resolver *resolver_free(struct resolver *r) {
        if (!r)
                return NULL;
        (void) sd_event_source_disable_unref(r->timer);
        for (size_t i = 0; i < r->n_workers; i++)
                (void) child_free(r->workers[i].child);
        free(r);
        return NULL;
}
