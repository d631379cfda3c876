/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "local.pb-c.h"
#include "log.h"
#include "mtu_handover.h"
#include "netcfg_call.h"

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

static int answered(const struct frame *f, void *userdata) {
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
        r = netcfg_call_new(e, &(struct netcfg_call_options) { socket, send_entries, answered, h }, &h->call);
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
