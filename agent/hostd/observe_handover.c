/* SPDX-License-Identifier: Apache-2.0 */
#include "local.pb-c.h"
#include "log.h"
#include "netcfg_call.h"
#include "observe_handover.h"

struct observe_handover {
        struct netcfg_call *call;
        bool observe;
        usec_t until;
};

static int answered(const struct frame *f, void *userdata) {
        const struct observe_handover *h = userdata;
        Local__Error *m;

        if (f->kind == LOCAL__KIND__KIND_OBSERVE_REPLY)
                return 0;
        m = local__error__unpack(NULL, f->len, f->data);
        if (h->observe) /* an older one that never heard of orders follows none either */
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
        r = netcfg_call_new(e, &(struct netcfg_call_options) { socket, send_order, answered, h }, &h->call);
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
