/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "backoff.h"
#include "log.h"
#include "netcfg_call.h"

#define ANSWER_WITHIN (10 * USEC_PER_SEC)

struct netcfg_call {
        sd_event *event;
        struct netcfg_call_options options;
        char *socket;
        const char *what;
        struct frame_peer *peer; /* NULL: no exchange at work */
        sd_event_source *timer;  /* the next try, or the end of the answer's time */
        unsigned failures;
};

static void wait_for(struct netcfg_call *c, usec_t span) {
        (void) sd_event_source_set_time_relative(c->timer, span); /* both fail only without a timer */
        (void) sd_event_source_set_enabled(c->timer, SD_EVENT_ONESHOT);
}

void netcfg_call_stop(struct netcfg_call *c) {
        c->peer = frame_peer_free(c->peer);
        (void) sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
}

static void try_again(struct netcfg_call *c, int error, const char *step) {
        uint64_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK); /* without entropy yet: at once */
        if (c->failures == 0)
                (void) log_warning_errno(error, "tpu-netcfg (%s) cannot be told %s: %s: %m; it is tried again",
                                         c->socket, c->what, step);
        wait_for(c, backoff_next(c->failures, random));
        if (c->failures < UINT16_MAX)
                c->failures++;
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct netcfg_call *c = userdata;
        int r;

        (void) p;
        netcfg_call_stop(c); /* f stays valid until we return */
        r = c->options.answered(f, c->options.userdata);
        if (r < 0)
                try_again(c, r, "its answer");
        else
                c->failures = 0;
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct netcfg_call *c = userdata;
        int enabled = SD_EVENT_OFF;

        (void) p;
        c->peer = NULL;
        /* The timer still runs: it was waited for an answer. */
        if (sd_event_source_get_enabled(c->timer, &enabled) > 0)
                try_again(c, -ECONNRESET, "no answer");
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static void tell(struct netcfg_call *c) {
        int r;

        netcfg_call_stop(c);
        r = frame_peer_connect(c->event, c->socket, &handlers, c, &c->peer);
        if (r >= 0)
                r = c->options.send(c->peer, c->options.userdata);
        if (r >= 0) {
                wait_for(c, ANSWER_WITHIN);
                return;
        }
        c->peer = frame_peer_free(c->peer);
        try_again(c, r, "sending");
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct netcfg_call *c = userdata;

        (void) s, (void) usec;
        if (!c->peer) {
                tell(c);
                return 0;
        }
        c->peer = frame_peer_free(c->peer);
        try_again(c, -ETIMEDOUT, "no answer");
        return 0;
}

void netcfg_call_start(struct netcfg_call *c, const char *what) {
        c->what = what;
        c->failures = 0;
        tell(c);
}

int netcfg_call_new(sd_event *e, const struct netcfg_call_options *o, struct netcfg_call **ret) {
        _cleanup_(netcfg_call_freep) struct netcfg_call *c = calloc(1, sizeof(*c));
        int r;

        if (!c)
                return -ENOMEM;
        *c = (struct netcfg_call) { .event = sd_event_ref(e), .options = *o, .socket = strdup(o->socket) };
        if (!c->socket)
                return -ENOMEM;
        r = sd_event_add_time_relative(e, &c->timer, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_timer, c);
        if (r >= 0)
                r = sd_event_source_set_enabled(c->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(c->timer, "tell tpu-netcfg");
        *ret = TAKE_PTR(c);
        return 0;
}

struct netcfg_call *netcfg_call_free(struct netcfg_call *c) {
        if (!c)
                return NULL;
        c->peer = frame_peer_free(c->peer);
        c->timer = sd_event_source_disable_unref(c->timer);
        c->event = sd_event_unref(c->event);
        free(c->socket);
        free(c);
        return NULL;
}
