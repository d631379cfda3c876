/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/random.h>

#include "backoff.h"
#include "local.pb-c.h"
#include "log.h"
#include "netcfg_call.h"

struct netcfg_call_options {
        const char *socket;                                       /* tpu-netcfg's (copied) */
        int (*send)(struct frame_peer *p, void *userdata);        /* puts it into frames; 0 or -errno */
        /* Its answer, KIND_ERROR included. -errno: that was none (it is told again). */
        int (*answered)(const struct frame *f, void *userdata);
        void *userdata;
};
struct netcfg_call;
static struct netcfg_call *netcfg_call_free(struct netcfg_call *c);
DEFINE_CLEANUP(struct netcfg_call *, netcfg_call_free)

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

static void netcfg_call_stop(struct netcfg_call *c) {
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

/* Tells it now, in place of what is at work. what: for the log, "tpu-netcfg cannot be told WHAT" (static). */
static void netcfg_call_start(struct netcfg_call *c, const char *what) {
        c->what = what;
        c->failures = 0;
        tell(c);
}

/* -ENOMEM, or what the loop refuses. Nothing is told yet. */
static int netcfg_call_new(sd_event *e, const struct netcfg_call_options *o, struct netcfg_call **ret) {
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

static struct netcfg_call *netcfg_call_free(struct netcfg_call *c) {
        if (!c)
                return NULL;
        c->peer = frame_peer_free(c->peer);
        c->timer = sd_event_source_disable_unref(c->timer);
        c->event = sd_event_unref(c->event);
        free(c->socket);
        free(c);
        return NULL;
}

struct mtu_handover {
        struct netcfg_call *call;
        void (*taken)(void *userdata);
        void *userdata;

        struct mtu_entry entries[MTU_HANDOVER_MAX];
        size_t n;
        char source[64];
};

static int take_reply(struct mtu_handover *h, const struct frame *f) {
        Local__NetworkMtuReply *m = local__network_mtu_reply__unpack(NULL, f->len, f->data);

        if (!m)
                return -EBADMSG;
        for (size_t i = 0; i < m->n_refused && i < MTU_HANDOVER_MAX; i++)
                log_warning("tpu-netcfg refuses an MTU that the metadata server states: %.160s",
                            m->refused[i]);
        if (m->taken > 0)
                h->taken(h->userdata);
        local__network_mtu_reply__free_unpacked(m, NULL);
        return 0;
}

static int mtu_answered(const struct frame *f, void *userdata) {
        Local__Error *m;

        if (f->kind == LOCAL__KIND__KIND_NETWORK_MTU_REPLY)
                return take_reply(userdata, f);
        m = local__error__unpack(NULL, f->len, f->data);
        log_warning("tpu-netcfg does not take the network's MTU: %.160s",
                    m ? m->text : "it does not say why");
        if (m)
                local__error__free_unpacked(m, NULL);
        return 0; /* the same question would get the same answer */
}

static int send_entries(struct frame_peer *p, void *userdata) {
        struct mtu_handover *h = userdata;
        Local__NetworkMtuEntry entries[MTU_HANDOVER_MAX], *list[MTU_HANDOVER_MAX];
        Local__NetworkMtu m = LOCAL__NETWORK_MTU__INIT;

        for (size_t i = 0; i < h->n; i++) {
                local__network_mtu_entry__init(&entries[i]);
                entries[i].mac = (ProtobufCBinaryData) { .len = sizeof(h->entries[i].mac),
                                                         .data = h->entries[i].mac };
                entries[i].mtu = h->entries[i].mtu;
                entries[i].source = h->source;
                list[i] = &entries[i];
        }
        m.n_entry = h->n;
        m.entry = list;
        return frame_peer_send(p, LOCAL__KIND__KIND_NETWORK_MTU, &m.base);
}

void mtu_handover_offer(struct mtu_handover *h, const struct mtu_entry *entries, size_t n,
                        const char *source) {
        assert(n <= MTU_HANDOVER_MAX);
        memcpy(h->entries, entries, n * sizeof(*entries));
        h->n = n;
        (void) snprintf(h->source, sizeof(h->source), "%s", source);
        if (n > 0)
                netcfg_call_start(h->call, "the networks' MTUs");
        else
                netcfg_call_stop(h->call);
}

int mtu_handover_new(sd_event *e, const char *socket, void (*taken)(void *userdata), void *userdata,
                     struct mtu_handover **ret) {
        _cleanup_(mtu_handover_freep) struct mtu_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        h->taken = taken;
        h->userdata = userdata;
        r = netcfg_call_new(e, &(struct netcfg_call_options) { socket, send_entries, mtu_answered, h }, &h->call);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

struct mtu_handover *mtu_handover_free(struct mtu_handover *h) {
        if (h)
                h->call = netcfg_call_free(h->call);
        free(h);
        return NULL;
}

struct observe_handover {
        struct netcfg_call *call;
        bool observe;
        usec_t until;
};

static int observe_answered(const struct frame *f, void *userdata) {
        const struct observe_handover *h = userdata;
        Local__Error *m;

        if (f->kind == LOCAL__KIND__KIND_OBSERVE_REPLY)
                return 0;
        m = local__error__unpack(NULL, f->len, f->data);
        if (h->observe)
                log_warning("tpu-netcfg does not observe, it goes on repairing: %.160s",
                            m ? m->text : "it does not say why");
        if (m)
                local__error__free_unpacked(m, NULL);
        return 0;
}

static int send_order(struct frame_peer *p, void *userdata) {
        const struct observe_handover *h = userdata;
        Local__Observe m = LOCAL__OBSERVE__INIT;

        m.observe = h->observe;
        m.until_real_usec = h->until;
        return frame_peer_send(p, LOCAL__KIND__KIND_OBSERVE, &m.base);
}

void observe_handover_offer(struct observe_handover *h, bool observe, usec_t until) {
        h->observe = observe;
        h->until = observe ? until : 0;
        netcfg_call_start(h->call, observe ? "to observe" : "to act as configured");
}

int observe_handover_new(sd_event *e, const char *socket, struct observe_handover **ret) {
        _cleanup_(observe_handover_freep) struct observe_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        r = netcfg_call_new(e, &(struct netcfg_call_options) { socket, send_order, observe_answered, h }, &h->call);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

struct observe_handover *observe_handover_free(struct observe_handover *h) {
        if (h)
                h->call = netcfg_call_free(h->call);
        free(h);
        return NULL;
}
