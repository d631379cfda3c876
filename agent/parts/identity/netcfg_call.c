/* SPDX-License-Identifier: Apache-2.0 */
#include "netcfg_call.h"

#include <assert.h>

#include "local.pb-c.h"
#include "local_call.h"
#include "log.h"

#define PROGRAM "tpu-netcfg"

struct mtu_handover {
        struct local_telling telling; /* first */
        void (*taken)(void *userdata);
        void *userdata;

        struct mtu_entry entries[MTU_HANDOVER_MAX];
        size_t n;
        char source[64];
};

static void mtu_answered(struct local_telling *t, const struct local_answer *a) {
        struct mtu_handover *h = (struct mtu_handover *) t;
        Local__NetworkMtuReply *m =
                a->error < 0 ? NULL : local__network_mtu_reply__unpack(NULL, a->len, a->data);

        if (!m) {
                log_warning(PROGRAM " does not take the network's MTU: %.160s",
                            a->error < 0 ? a->text : "its answer cannot be understood");
                return;
        }
        for (size_t i = 0; i < m->n_refused && i < MTU_HANDOVER_MAX; i++)
                log_warning(PROGRAM " refuses an MTU that the metadata server states: %.160s",
                            m->refused[i]);
        if (m->taken > 0)
                h->taken(h->userdata);
        local__network_mtu_reply__free_unpacked(m, NULL);
}

static int send_entries(struct local_telling *t) {
        struct mtu_handover *h = (struct mtu_handover *) t;
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
        return local_telling_ask(t, LOCAL__KIND__KIND_NETWORK_MTU, &m.base,
                                 LOCAL__KIND__KIND_NETWORK_MTU_REPLY);
}

void mtu_handover_offer(struct mtu_handover *h, const struct mtu_entry *entries, size_t n,
                        const char *source) {
        assert(n <= MTU_HANDOVER_MAX);
        memcpy(h->entries, entries, n * sizeof(*entries));
        h->n = n;
        (void) snprintf(h->source, sizeof(h->source), "%s", source);
        if (n > 0)
                local_telling_start(&h->telling, "the networks' MTUs");
        else
                local_telling_stop(&h->telling);
}

int mtu_handover_new(sd_event *e, const char *socket, void (*taken)(void *userdata), void *userdata,
                     struct mtu_handover **ret) {
        _cleanup_(mtu_handover_freep) struct mtu_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        *h = (struct mtu_handover){
                .telling = { .program = PROGRAM, .ask = send_entries, .answered = mtu_answered },
                .taken = taken, .userdata = userdata,
        };
        r = local_telling_init(e, socket, &h->telling);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

struct mtu_handover *mtu_handover_free(struct mtu_handover *h) {
        if (h)
                local_telling_clear(&h->telling);
        free(h);
        return NULL;
}

struct observe_handover {
        struct local_telling telling; /* first */
        bool observe;
        usec_t until;
};

static void observe_answered(struct local_telling *t, const struct local_answer *a) {
        const struct observe_handover *h = (const struct observe_handover *) t;

        if (a->error < 0 && h->observe)
                log_warning(PROGRAM " does not observe, it goes on repairing: %.160s", a->text);
}

static int send_order(struct local_telling *t) {
        const struct observe_handover *h = (const struct observe_handover *) t;
        Local__Observe m = LOCAL__OBSERVE__INIT;

        m.observe = h->observe;
        m.until_real_usec = h->until;
        return local_telling_ask(t, LOCAL__KIND__KIND_OBSERVE, &m.base, LOCAL__KIND__KIND_OBSERVE_REPLY);
}

void observe_handover_offer(struct observe_handover *h, bool observe, usec_t until) {
        h->observe = observe;
        h->until = observe ? until : 0;
        local_telling_start(&h->telling,
                            observe ? "the order to observe" : "the order to act as configured");
}

int observe_handover_new(sd_event *e, const char *socket, struct observe_handover **ret) {
        _cleanup_(observe_handover_freep) struct observe_handover *h = calloc(1, sizeof(*h));
        int r;

        if (!h)
                return -ENOMEM;
        h->telling = (struct local_telling){
                .program = PROGRAM, .ask = send_order, .answered = observe_answered
        };
        r = local_telling_init(e, socket, &h->telling);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(h);
        return 0;
}

struct observe_handover *observe_handover_free(struct observe_handover *h) {
        if (h)
                local_telling_clear(&h->telling);
        free(h);
        return NULL;
}
