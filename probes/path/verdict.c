/* SPDX-License-Identifier: Apache-2.0 */
#include "check_words.h"
#include "verdict.h"

void path_finding_init(struct finding *f, const struct path_result *p) {
        char address[ADDRESS_TEXT_MAX] = "", tail[ADDRESS_TEXT_MAX + 4] = "", name[40];
        size_t room;

        finding_init(f, PATH_CHECK, NULL);
        if (p->mtu > 0) {
                finding_set(f->wanted, "%" PRIu32, p->mtu);
                finding_set(f->source, "the MTU of %s", p->nic);
        }
        if (p->to.sa.sa_family != 0 && !streq(address_text(&p->to, address), p->peer))
                (void) snprintf(tail, sizeof(tail), " (%s)", address);
        /* The room that is left beside NIC and address is the name's; where it is none, the address stands
         * alone. */
        room = sizeof(f->subject) - strlen(p->nic) - strlen("→") - strlen(tail);
        if (tail[0] && room < 16) {
                finding_set(f->subject, "%s→%s", p->nic, address);
                return;
        }
        finding_format(name, MIN(sizeof(name), room), "%s", p->peer);
        finding_set(f->subject, "%s%s%s%s", p->nic, p->nic[0] ? "→" : "", name, tail);
}

/* A ping as a person types it: the payload of `size` bytes of packet. */
static void remedy_ping(const struct path_result *p, uint32_t size, char *buf, size_t buf_size) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];
        uint32_t headers = p->to.sa.sa_family == AF_INET ? 28 : 48;

        (void) snprintf(buf, buf_size, "ping -M do -c 3 -s %" PRIu32 " -I %s %s", size - headers,
                        address_text(&p->from, from), address_text(&p->to, to));
}

/* "1500 bytes pass, 8896 do not (towards the peer)". */
static void set_smaller(struct finding *f, uint32_t passes, uint32_t mtu, const char *direction) {
        finding_set(f->found, "%" PRIu32 " bytes pass, %" PRIu32 " do not (%s)", passes, mtu, direction);
}

static void judge_smaller(const struct path_result *p, struct finding *f) {
        static const char *const how[] = {
                [PROOF_DIRECTION_UNKNOWN] =
                        "the peer answers no UDP to a closed port, which would tell the direction",
                [PROOF_THERE] = "a full datagram does not arrive there either; the return path was not seen",
                [PROOF_BACK] = "a full datagram does arrive there",
        };
        const struct proof_result *r = &p->proof;
        char ping[160], passes[16];

        set_smaller(f, r->passes, p->mtu,
                    r->direction == PROOF_THERE  ? "towards the peer"
                    : r->direction == PROOF_BACK ? "from the peer"
                                                 : "direction UNKNOWN");
        (void) snprintf(passes, sizeof(passes), "%" PRIu32, r->passes);
        remedy_ping(p, p->mtu, ping, sizeof(ping));
        check_say(f, WORDS_PATH_SMALLER, r->exact ? "packets of more than" : "packets well above", passes,
                  how[r->direction], ping,
                  r->direction == PROOF_BACK ? "here and on the peer" : "on the peer");
}

void path_judge(const struct path_result *p, struct finding *ret) {
        const struct proof_result *r = &p->proof;
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX], text[160];
        struct finding f;

        path_finding_init(&f, p);
        switch (r->answer) {
        case PROOF_PASSES:
                f.verdict = VERDICT_OK;
                if (!path_view_say(&p->view, p->nic, &p->to, &f))
                        finding_set(f.found, "%" PRIu32 " bytes pass in both directions", p->mtu);
                break;
        case PROOF_PIECES:
                finding_set(f.found,
                            "%" PRIu32 " bytes pass, answers come in pieces of %" PRIu32 " (from the peer)",
                            p->mtu, r->passes);
                (void) snprintf(text, sizeof(text), "%" PRIu32, r->passes);
                check_say(&f, WORDS_PATH_PIECES, text, address_text(&p->from, from));
                break;
        case PROOF_SMALLER:
                judge_smaller(p, &f);
                break;
        case PROOF_SILENT:
                finding_set(f.found, "no answer to an echo of any size");
                remedy_ping(p, PROOF_SMALL, text, sizeof(text));
                if (!path_view_say_hop(&p->view, p->nic, &f))
                        check_say(&f, WORDS_PATH_SILENT, text);
                break;
        case PROOF_REFUSED:
                finding_set(f.found, "cannot be sent: %s", strerror(-r->error));
                if (r->error == -EPERM)
                        check_say(&f, WORDS_PATH_FILTERED);
                else
                        check_say(&f, WORDS_PATH_REFUSED,
                          r->error == -EMSGSIZE ? "the NIC's MTU was lowered while the path was tried"
                                                : "this host's kernel refuses to send there from this NIC",
                          address_text(&p->to, to), address_text(&p->from, from), p->nic);
                break;
        case PROOF_OPEN:
                finding_set(f.found, "not settled in time");
                check_say(&f, WORDS_PATH_OPEN, p->peer);
                break;
        }
        if (r->answer == PROOF_SMALLER || r->answer == PROOF_SILENT || r->answer == PROOF_OPEN)
                (void) path_view_say_dropped(&p->view, p->nic, &f);
        *ret = f;
}

bool path_judge_port(const struct path_result *p, struct finding *ret) {
        const struct path_port *port = &p->port;
        const char *here = port->dropped_by;
        char number[8];
        struct finding f;

        if (!port->tried || port->answer == PORT_ANSWERS || port->answer == PORT_REFUSES ||
            (port->answer == PORT_SILENT && !here && p->proof.answer == PROOF_SILENT))
                return false;
        path_finding_init(&f, p);
        finding_set(f.check, "path.tcp");
        finding_set(f.wanted, "an answer");
        finding_set(f.source, "every host of a run connects to this port of the others");
        (void) snprintf(number, sizeof(number), "%d", PATH_PORT);
        finding_set(f.found, "%s", port->answer == PORT_SILENT ? "no answer" : strerror(port->error));
        if (port->answer == PORT_NO_WAY && port->error == EPERM)
                here = "its packet filter or an IPsec policy";
        if (here)
                check_say(&f, WORDS_PATH_TCP_HERE, number, here);
        else if (port->answer == PORT_SILENT && port->lossy)
                check_say(&f, WORDS_PATH_TCP_LOST, number, p->peer);
        else if (port->answer == PORT_NO_WAY)
                check_say(&f, WORDS_PATH_TCP_NO_WAY, number, strerror(port->error));
        else
                check_say(&f, WORDS_PATH_TCP_FILTERED, number, p->peer,
                          port->answer == PORT_REJECTED ? "is rejected by an ICMP error" : "gets no answer");
        *ret = f;
        return true;
}

bool path_judge_loss(const struct path_result *p, struct finding *ret) {
        struct finding f;

        if (p->proof.lost < PROOF_LOST_MIN)
                return false;
        path_finding_init(&f, p);
        finding_set(f.check, "path.loss");
        finding_set(f.found, "%u of %u small echoes lost", p->proof.lost, p->proof.echoes);
        check_say(&f, WORDS_PATH_LOSS, path_view_direction(&p->view), p->nic);
        *ret = f;
        return true;
}
