/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof against a network that answers as the input says: each pair of bytes is what becomes of the next
 * packet (lost, answered whole or in pieces, refused), how late, and with which lie about it. It ends in
 * time, sends no more than it may, and its result is one of its own.
 */
#include "proof.h"

#define TARGETS 3
#define FULL 8896

static void answer(struct proof *p, struct proof_packet packet, uint8_t what, uint8_t how) {
        if (what & 0x40)
                packet.size = (uint32_t) how * 64; /* a size that was never sent */
        if (what & 0x80)
                packet.target = how; /* another's, or nobody's */
        proof_answered(p, &packet, what & 0x20 ? (uint32_t) how * 8 : 0);
}

static void check(const struct proof *p) {
        for (size_t i = 0; i < TARGETS; i++) {
                struct proof_result r;

                proof_result(p, i, &r);
                if (r.passes > FULL || r.answer == PROOF_OPEN ||
                    (r.answer == PROOF_PASSES && r.passes != FULL) ||
                    (r.answer == PROOF_SMALLER && (r.passes == 0 || r.passes >= FULL)) ||
                    (r.direction != PROOF_DIRECTION_UNKNOWN && r.answer != PROOF_SMALLER))
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        const struct proof_target targets[TARGETS] = { { FULL, 0 }, { FULL, 0 }, { FULL, 1 } };
        _cleanup_(proof_freep) struct proof *p = NULL;
        usec_t now = 1000000, wake = 0, began = now;
        unsigned udp[TARGETS] = { 0 }, sent = 0;
        struct proof_packet packet;

        if (proof_new(targets, TARGETS, &p) < 0)
                abort();
        while (wake != USEC_INFINITY) {
                while (proof_next(p, now, &packet, &wake) > 0) {
                        uint8_t what = size >= 2 ? data[0] : 0, how = size >= 2 ? data[1] : 0;

                        if (size >= 2) {
                                data += 2;
                                size -= 2;
                        }
                        if (packet.target >= TARGETS || packet.size > FULL || packet.size < PROOF_SMALL ||
                            ++sent > 4000 ||
                            (packet.kind == PROOF_UDP && ++udp[packet.target] > PROOF_UDP_MAX))
                                abort();
                        if ((what & 3) == 1)
                                answer(p, packet, what, how);
                        else if (what == 0x10)
                                proof_refused(p, &packet, -ENETUNREACH);
                }
                if (wake == USEC_INFINITY)
                        break;
                if (wake <= now)
                        abort();
                now = wake;
        }
        if (now - began > PROOF_DEADLINE)
                abort();
        check(p);
        return 0;
}
