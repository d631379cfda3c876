/* SPDX-License-Identifier: Apache-2.0 */
#include "verdict.h"

void path_finding_init(struct finding *f, const struct path_facts *p) {
        char address[ADDRESS_TEXT_MAX] = "", tail[ADDRESS_TEXT_MAX + 4] = "", name[40];
        size_t room;

        finding_init(f, PATH_CHECK, NULL);
        if (p->mtu > 0) {
                finding_set(f->wanted, "%" PRIu32, p->mtu);
                finding_set(f->source, "the MTU of %s", p->nic);
        }
        if (p->to && !streq(address_text(p->to, address), p->name))
                (void) snprintf(tail, sizeof(tail), " (%s)", address);
        /* The room that is left beside NIC and address is the name's; where it is none, the address stands
         * alone. */
        room = sizeof(f->subject) - strlen(p->nic) - strlen("→") - strlen(tail);
        if (tail[0] && room < 16) {
                finding_set(f->subject, "%s→%s", p->nic, address);
                return;
        }
        finding_format(name, MIN(sizeof(name), room), "%s", p->name);
        finding_set(f->subject, "%s%s%s%s", p->nic, p->nic[0] ? "→" : "", name, tail);
}

/* A ping as a person types it: the payload of `size` bytes of packet. */
static void remedy_ping(const struct path_facts *p, uint32_t size, char *buf, size_t buf_size) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];
        uint32_t headers = p->to->sa.sa_family == AF_INET ? 28 : 48;

        (void) snprintf(buf, buf_size, "ping -M do -c 3 -s %" PRIu32 " -I %s %s", size - headers,
                        address_text(p->from, from), address_text(p->to, to));
}

static void judge_smaller(const struct path_facts *p, const struct proof_result *r, struct finding *f) {
        static const char *const direction[] = {
                [PROOF_DIRECTION_UNKNOWN] = "direction UNKNOWN",
                [PROOF_THERE] = "towards the peer",
                [PROOF_BACK] = "from the peer",
        };
        static const char *const how[] = {
                [PROOF_DIRECTION_UNKNOWN] =
                        "the peer answers no UDP to a closed port, which would tell the direction",
                [PROOF_THERE] = "a full datagram does not arrive there either; the way back was not seen",
                [PROOF_BACK] = "a full datagram does arrive there",
        };
        char ping[160];

        f->verdict = VERDICT_FAIL;
        finding_set(f->found, "%" PRIu32 " bytes pass, %" PRIu32 " do not (%s)", r->passes, p->mtu,
                    direction[r->direction]);
        finding_set(f->reason,
                    "%s %" PRIu32
                    " bytes vanish on the way without a word: connections open, then stall; %s",
                    r->exact ? "packets of more than" : "packets well above", r->passes, how[r->direction]);
        remedy_ping(p, p->mtu, ping, sizeof(ping));
        finding_set(f->remedy,
                    "%s 'tpuctl check nic'; the network: gcloud compute networks describe NETWORK "
                    "--format='value(mtu)'; again: %s",
                    r->direction == PROOF_BACK ? "there and here" : "on the peer", ping);
}

static void judge_silent(const struct path_facts *p, struct finding *f) {
        finding_set(f->found, "no answer to an echo of any size");
        finding_set(f->reason,
                    "the peer is down or away, or a firewall drops ICMP: nothing is known of the path");
        remedy_ping(p, PROOF_SMALL, f->remedy, sizeof(f->remedy));
}

static void judge_pieces(const struct path_facts *p, const struct proof_result *r, struct finding *f) {
        char from[ADDRESS_TEXT_MAX];

        f->verdict = VERDICT_FAIL;
        finding_set(f->found,
                    "%" PRIu32 " bytes pass, answers come in pieces of %" PRIu32 " (from the peer)", p->mtu,
                    r->passes);
        finding_set(f->reason,
                    "the peer, or a router on the way back, sends no more than %" PRIu32
                    " bytes at once: the peer's NIC or its "
                    "path has a smaller MTU",
                    r->passes);
        finding_set(f->remedy, "on the peer: tpuctl check nic; ip route get %s",
                    address_text(p->from, from));
}

static void judge_refused(const struct path_facts *p, const struct proof_result *r, struct finding *f) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];

        finding_set(f->found, "cannot be sent: %s", strerror(-r->error));
        if (r->error == -EMSGSIZE)
                finding_set(f->reason, "the MTU of %s was lowered while the path was tried", p->nic);
        else
                finding_set(f->reason, "this host's kernel refuses to send there from %s", p->nic);
        finding_set(f->remedy, "ip route get %s from %s; ip link show %s", address_text(p->to, to),
                    address_text(p->from, from), p->nic);
}

void path_judge(const struct path_facts *p, const struct proof_result *r, struct finding *ret) {
        struct finding f;

        path_finding_init(&f, p);
        switch (r->answer) {
        case PROOF_PASSES:
                f.verdict = VERDICT_OK;
                finding_set(f.found, "%" PRIu32 " bytes pass both ways", p->mtu);
                break;
        case PROOF_PIECES:
                judge_pieces(p, r, &f);
                break;
        case PROOF_SMALLER:
                judge_smaller(p, r, &f);
                break;
        case PROOF_SILENT:
                judge_silent(p, &f);
                break;
        case PROOF_REFUSED:
                judge_refused(p, r, &f);
                break;
        case PROOF_OPEN:
                finding_set(f.found, "not settled in time");
                finding_set(f.reason, "the time for all paths was over; try fewer peers");
                finding_set(f.remedy, "tpuctl check path --peer %s", p->name);
                break;
        }
        *ret = f;
}
