/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/random.h>

#include "backoff.h"
#include "frame.h"
#include "local.pb-c.h"
#include "log.h"
#include "observe_handover.h"

#define ANSWER_WITHIN (10 * USEC_PER_SEC)

struct observe_handover {
        sd_event *event;
        char *socket;
        struct frame_peer *peer; /* NULL: no exchange at work */
        sd_event_source *timer;  /* the next try, or the end of the answer's time */
        unsigned failures;
        bool observe;
};

static void wait_for(struct observe_handover *h, usec_t span) {
        (void) sd_event_source_set_time_relative(h->timer, span); /* both fail only without a timer */
        (void) sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
}

static void end(struct observe_handover *h) {
        h->peer = frame_peer_free(h->peer);
        (void) sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
}

static void try_again(struct observe_handover *h, int error, const char *what) {
        uint64_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK); /* without entropy yet: at once */
        if (h->failures == 0)
                (void) log_warning_errno(error,
                                         "tpu-netcfg (%s) cannot be told to %s: %s: %m; it is tried again",
                                         h->socket, h->observe ? "observe" : "act as configured", what);
        wait_for(h, backoff_next(h->failures, random));
        if (h->failures < UINT16_MAX)
                h->failures++;
}

static void take_error(struct observe_handover *h, const struct frame *f) {
        Local__Error *m = local__error__unpack(NULL, f->len, f->data);

        h->failures = 0;
        if (h->observe) /* an older one that never heard of orders follows none either */
                log_warning("tpu-netcfg does not observe, it goes on repairing: %.160s",
                            m ? m->text : "it does not say why");
        if (m)
                local__error__free_unpacked(m, NULL);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct observe_handover *h = userdata;

        (void) p;
        end(h); /* f stays valid until we return */
        if (f->kind == LOCAL__KIND__KIND_OBSERVE_REPLY)
                h->failures = 0;
        else
                take_error(h, f);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct observe_handover *h = userdata;
        int enabled = SD_EVENT_OFF;

        (void) p;
        h->peer = NULL;
        /* The timer still runs: it was waited for an answer. */
        if (sd_event_source_get_enabled(h->timer, &enabled) > 0)
                try_again(h, -ECONNRESET, "no answer");
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static void say(struct observe_handover *h) {
        Local__Observe m = LOCAL__OBSERVE__INIT;
        int r;

        end(h);
        m.observe = h->observe;
        r = frame_peer_connect(h->event, h->socket, &handlers, h, &h->peer);
        if (r >= 0)
                r = frame_peer_send(h->peer, LOCAL__KIND__KIND_OBSERVE, &m.base);
        if (r >= 0) {
                wait_for(h, ANSWER_WITHIN);
                return;
        }
        h->peer = frame_peer_free(h->peer);
        try_again(h, r, "sending");
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct observe_handover *h = userdata;

        (void) s, (void) usec;
        if (!h->peer) {
                say(h);
                return 0;
        }
        h->peer = frame_peer_free(h->peer);
        try_again(h, -ETIMEDOUT, "no answer");
        return 0;
}

void observe_handover_offer(struct observe_handover *h, bool observe) {
        h->observe = observe;
        h->failures = 0;
        say(h);
}

int observe_handover_new(sd_event *e, const char *socket, struct observe_handover **ret) {
        _cleanup_(observe_handover_freep) struct observe_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (struct observe_handover){ .event = sd_event_ref(e), .socket = strdup(socket) };
        if (!h->socket)
                return -ENOMEM;
        r = sd_event_add_time_relative(e, &h->timer, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_timer, h);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(h->timer, "observe-handover");
        *ret = TAKE_PTR(h);
        return 0;
}

struct observe_handover *observe_handover_free(struct observe_handover *h) {
        if (!h)
                return NULL;
        h->peer = frame_peer_free(h->peer);
        h->timer = sd_event_source_disable_unref(h->timer);
        h->event = sd_event_unref(h->event);
        free(h->socket);
        free(h);
        return NULL;
}
