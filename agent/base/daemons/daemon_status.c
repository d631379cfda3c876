/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon_status.h"

#include <assert.h>

#include "daemon_states.h"

void finding_to_wire(struct finding *f, Local__Finding *m) {
        local__finding__init(m);
        m->verdict = wire_text(verdict_name(f->verdict));
        m->check = f->check;
        m->subject = f->subject;
        m->found = f->found;
        m->wanted = f->wanted;
        m->source = f->source;
        m->reason = f->reason;
        m->remedy = f->remedy;
}

int daemon_status_send(struct frame_peer *p, struct finding *says, size_t n) {
        Local__Finding messages[DAEMON_FINDINGS_MAX], *list[DAEMON_FINDINGS_MAX];
        Local__StatusReply reply = LOCAL__STATUS_REPLY__INIT;

        assert(n <= DAEMON_FINDINGS_MAX);
        for (size_t i = 0; i < n; i++) {
                finding_to_wire(&says[i], &messages[i]);
                list[i] = &messages[i];
        }
        reply.n_finding = n;
        reply.finding = list;
        return frame_peer_send(p, LOCAL__KIND__KIND_STATUS_REPLY, &reply.base);
}
