/* SPDX-License-Identifier: Apache-2.0 */
#include "pair_pull.h"

#include "clock.h"
#include "exchange.h"
#include "pair_rounds.h"

#define NOT_COUNTED (PAIR_TIME / 4)
#define CONNECT_TIME (2 * USEC_PER_SEC)
#define ANSWER_TIME (CONNECT_TIME + 2 * PAIR_TIME) /* of all of it */

struct pair_pull {
        sd_event *event;
        struct exchange *exchange;
        struct pulled now;
        struct core_share core;
        usec_t first, counted; /* boot clock: of the first byte, and of the first that is counted; 0: none */
        uint64_t bytes, before; /* before: not counted */
        char url[128], to[64], from[64], path[128];
        void (*news)(void *userdata);
        void *userdata;
};

struct core_share core_share_begin(void) {
        return (struct core_share){ clock_ns(CLOCK_MONOTONIC), clock_ns(CLOCK_PROCESS_CPUTIME_ID) };
}

unsigned core_share_end(const struct core_share *s) {
        uint64_t wall = clock_ns(CLOCK_MONOTONIC) - s->wall,
                 used = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - s->used;

        return wall > 0 ? (unsigned) (used * 100 / wall) : 0;
}

static usec_t now_of(const struct pair_pull *p) {
        usec_t now = 0;

        /* Fails for a clock that is not there only. */
        (void) sd_event_now(p->event, CLOCK_BOOTTIME, &now);
        return now;
}

static bool on_part(const char *data, size_t len, void *userdata) {
        struct pair_pull *p = userdata;
        usec_t now = now_of(p);

        (void) data;
        if (p->first == 0) {
                p->first = now;
                p->core = core_share_begin();
                p->now.state = PULL_COMES;
        }
        if (p->counted == 0 && now >= p->first + NOT_COUNTED) {
                p->counted = now;
                p->before = p->bytes;
        }
        p->bytes += len;
        return now < p->first + PAIR_TIME;
}

/* Enough came to say a rate: all of it, or for so long that a slow path has shown what it carries. */
static bool has_measured(const struct pair_pull *p, bool whole) {
        return p->first > 0 && (whole || now_of(p) >= p->first + PAIR_TIME);
}

static void take_rate(struct pair_pull *p) {
        bool counts = p->counted > 0 && now_of(p) >= p->counted + NOT_COUNTED && p->bytes > p->before;
        usec_t span = MAX(now_of(p) - (counts ? p->counted : p->first), (usec_t) 1);

        p->now.state = PULL_DONE;
        p->now.core = core_share_end(&p->core);
        p->now.rate = MAX((p->bytes - (counts ? p->before : 0)) * USEC_PER_SEC / span, (uint64_t) 1);
}

static void on_done(const struct exchange_answer *a, void *userdata) {
        struct pair_pull *p = userdata;

        p->now.state = PULL_FAILED;
        if (has_measured(p, !a->failed))
                take_rate(p);
        else if (a->failed) {
                (void) snprintf(p->now.why, sizeof(p->now.why), "%.190s", a->why);
                if (p->first == 0 && !a->refused && !a->unsent) /* a host that is busy shakes hands slowly */
                        p->now.state = PULL_LATER;
        } else if (a->status == 409 || a->status == 503)
                p->now.state = PULL_LATER;
        else /* the answer is JSON of the agent's own: {"error":…} */
                (void) snprintf(p->now.why, sizeof(p->now.why), "HTTP %ld: %.*s", a->status,
                                (int) MIN(a->len, (size_t) 160), a->body ? a->body : "");
        p->news(p->userdata);
}

int pair_pull_again(struct pair_pull *p) {
        p->now = (struct pulled){ .state = PULL_ASKS };
        p->first = p->counted = 0;
        p->bytes = p->before = 0;
        return exchange_start(p->exchange,
                              &(struct exchange_request){ .path = p->path, .timeout = ANSWER_TIME });
}

int pair_pull_new(sd_event *e, const struct pair_pull_options *o, void (*news)(void *userdata),
                  void *userdata, struct pair_pull **ret) {
        _cleanup_(pair_pull_freep) struct pair_pull *p = calloc(1, sizeof(*p));
        char why[256];
        int r;

        if (!p)
                return -ENOMEM;
        p->event = e;
        p->news = news;
        p->userdata = userdata;
        (void) snprintf(p->to, sizeof(p->to), "%s", o->to);
        (void) snprintf(p->from, sizeof(p->from), "%s", o->from);
        (void) snprintf(p->url, sizeof(p->url), "https://%.64s:%u", o->host, o->port);
        (void) snprintf(p->path, sizeof(p->path), "/v1/pairs?number=%" PRIu64 "&round=%u&nic=%u", o->number,
                        o->round, o->nic);
        r = exchange_new(e,
                         &(struct exchange_options){ .url = p->url,
                                                     .to = p->to,
                                                     .from = p->from,
                                                     .ca = o->tls->path[TLS_CA],
                                                     .certificate = o->tls->path[TLS_CERT],
                                                     .key = o->tls->path[TLS_KEY],
                                                     .crl = o->tls->path[TLS_CRL],
                                                     .connect_timeout = CONNECT_TIME,
                                                     .answer_max = 4096,
                                                     .user_agent = "tpu-hostd",
                                                     .name = "pairs",
                                                     .part = on_part,
                                                     .done = on_done,
                                                     .userdata = p },
                         &p->exchange, why);
        if (r >= 0)
                r = pair_pull_again(p);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(p);
        return 0;
}

struct pair_pull *pair_pull_free(struct pair_pull *p) {
        if (!p)
                return NULL;
        p->exchange = exchange_free(p->exchange);
        free(p);
        return NULL;
}

const struct pulled *pair_pull_state(const struct pair_pull *p) {
        return &p->now;
}
