/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/random.h>

#include "backoff.h"
#include "frame.h"
#include "local.pb-c.h"
#include "log.h"
#include "mtu_handover.h"

#define ANSWER_WITHIN (10 * USEC_PER_SEC)

struct mtu_handover {
        sd_event *event;
        char *socket;
        void (*taken)(void *userdata);
        void *userdata;
        struct frame_peer *peer; /* NULL: no exchange at work */
        sd_event_source *timer;  /* the next try, or the end of the answer's time */
        unsigned failures;

        struct mtu_entry entries[MTU_HANDOVER_MAX];
        size_t n;
        char source[64];
};

static void give(struct mtu_handover *h);

static void give_in(struct mtu_handover *h, usec_t span) {
        (void) sd_event_source_set_time_relative(h->timer, span); /* both fail only without a timer */
        (void) sd_event_source_set_enabled(h->timer, SD_EVENT_ONESHOT);
}

static void end(struct mtu_handover *h) {
        h->peer = frame_peer_free(h->peer);
        (void) sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
}

static void try_again(struct mtu_handover *h, int error, const char *what) {
        uint64_t random = 0;

        (void) getrandom(&random, sizeof(random), GRND_NONBLOCK); /* without entropy yet: at once */
        if (h->failures == 0)
                (void) log_warning_errno(error,
                                         "the network's MTU cannot be handed to tpu-netcfg (%s): %s: %m; it "
                                         "is tried again",
                                         h->socket, what);
        give_in(h, backoff_next(h->failures, random));
        if (h->failures < UINT16_MAX)
                h->failures++;
}

static void take_reply(struct mtu_handover *h, const struct frame *f) {
        Local__NetworkMtuReply *m = local__network_mtu_reply__unpack(NULL, f->len, f->data);

        if (!m) {
                try_again(h, -EBADMSG, "its answer");
                return;
        }
        for (size_t i = 0; i < m->n_refused && i < MTU_HANDOVER_MAX; i++)
                log_warning("tpu-netcfg refuses an MTU that the metadata server states: %.160s",
                            m->refused[i]);
        h->failures = 0;
        if (m->taken > 0)
                h->taken(h->userdata);
        local__network_mtu_reply__free_unpacked(m, NULL);
}

/* The same question would get the same answer. */
static void take_error(struct mtu_handover *h, const struct frame *f) {
        Local__Error *m = local__error__unpack(NULL, f->len, f->data);

        log_warning("tpu-netcfg does not take the network's MTU: %.160s",
                    m ? m->text : "it does not say why");
        h->failures = 0;
        if (m)
                local__error__free_unpacked(m, NULL);
}

static void on_frame(struct frame_peer *p, const struct frame *f, void *userdata) {
        struct mtu_handover *h = userdata;

        (void) p;
        end(h); /* f stays valid until we return */
        if (f->kind == LOCAL__KIND__KIND_NETWORK_MTU_REPLY)
                take_reply(h, f);
        else
                take_error(h, f);
}

static void on_closed(struct frame_peer *p, void *userdata) {
        struct mtu_handover *h = userdata;
        int enabled = SD_EVENT_OFF;

        (void) p;
        h->peer = NULL;
        /* The timer still runs: it was waited for an answer. */
        if (sd_event_source_get_enabled(h->timer, &enabled) > 0)
                try_again(h, -ECONNRESET, "no answer");
}

static const struct frame_handlers handlers = { .frame = on_frame, .closed = on_closed };

static int send_entries(struct mtu_handover *h) {
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
        return frame_peer_send(h->peer, LOCAL__KIND__KIND_NETWORK_MTU, &m.base);
}

static void give(struct mtu_handover *h) {
        int r = 0;

        end(h);
        if (h->n == 0)
                return;
        r = frame_peer_connect(h->event, h->socket, &handlers, h, &h->peer);
        if (r >= 0)
                r = send_entries(h);
        if (r >= 0) {
                give_in(h, ANSWER_WITHIN);
                return;
        }
        h->peer = frame_peer_free(h->peer);
        try_again(h, r, "sending");
}

static int on_timer(sd_event_source *s, uint64_t usec, void *userdata) {
        struct mtu_handover *h = userdata;

        (void) s, (void) usec;
        if (!h->peer) {
                give(h);
                return 0;
        }
        h->peer = frame_peer_free(h->peer);
        try_again(h, -ETIMEDOUT, "no answer");
        return 0;
}

void mtu_handover_offer(struct mtu_handover *h, const struct mtu_entry *entries, size_t n,
                        const char *source) {
        assert(n <= MTU_HANDOVER_MAX);
        memcpy(h->entries, entries, n * sizeof(*entries));
        h->n = n;
        (void) snprintf(h->source, sizeof(h->source), "%s", source);
        h->failures = 0;
        give(h);
}

int mtu_handover_new(sd_event *e, const char *socket, void (*taken)(void *userdata), void *userdata,
                     struct mtu_handover **ret) {
        _cleanup_(mtu_handover_freep) struct mtu_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (struct mtu_handover) { .event = sd_event_ref(e), .taken = taken, .userdata = userdata };
        h->socket = strdup(socket);
        if (!h->socket)
                return -ENOMEM;
        r = sd_event_add_time_relative(e, &h->timer, CLOCK_BOOTTIME, 0, 100 * USEC_PER_MSEC, on_timer, h);
        if (r >= 0)
                r = sd_event_source_set_enabled(h->timer, SD_EVENT_OFF);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(h->timer, "mtu-handover");
        *ret = TAKE_PTR(h);
        return 0;
}

struct mtu_handover *mtu_handover_free(struct mtu_handover *h) {
        if (!h)
                return NULL;
        h->peer = frame_peer_free(h->peer);
        h->timer = sd_event_source_disable_unref(h->timer);
        h->event = sd_event_unref(h->event);
        free(h->socket);
        free(h);
        return NULL;
}
