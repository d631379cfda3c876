/* SPDX-License-Identifier: Apache-2.0 */
#include "path_report.h"

#include "check_words.h"
#include "json_text.h"
#include "report.h"

/* --- The verdict on a path ----------------------------------------------------------------------------- */

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

/* --- The report ---------------------------------------------------------------------------------------- */

void path_report_clear(struct path_report *r) {
        finding_list_clear(&r->findings);
        free(r->results);
        *r = PATH_REPORT_NULL;
}

int path_report_add(struct path_report *report, const struct path_result *r) {
        struct path_result *x = &report->results[report->n_results];
        struct finding f;
        int k;

        *x = *r;
        x->finding = report->findings.n;
        path_judge(r, &f);
        k = finding_list_add(&report->findings, &f);
        if (k == 0 && path_judge_loss(r, &f))
                k = finding_list_add(&report->findings, &f);
        if (k == 0 && path_judge_port(r, &f))
                k = finding_list_add(&report->findings, &f);
        report->n_results += k == 0;
        return k;
}

/* --- As JSON ------------------------------------------------------------------------------------------- */

static const char *const answers[] = {
        [PROOF_OPEN] = "open",       [PROOF_PASSES] = "passes", [PROOF_PIECES] = "pieces",
        [PROOF_SMALLER] = "smaller", [PROOF_SILENT] = "silent", [PROOF_REFUSED] = "refused",
};
static const char *const directions[] = {
        [PROOF_DIRECTION_UNKNOWN] = "unknown",
        [PROOF_THERE] = "there",
        [PROOF_BACK] = "back",
};

static const char *port_text(const struct path_port *p) {
        static const char *const words[_PORT_ANSWER_MAX] = {
                [PORT_ANSWERS] = "answers",   [PORT_REFUSES] = "refuses", [PORT_SILENT] = "silent",
                [PORT_REJECTED] = "rejected", [PORT_NO_WAY] = "no way",
        };

        return p->tried ? words[p->answer] : "";
}

/* What the kernel would do: empty or 0 for what it did not say. */
static json_t *view_to_json(const struct path_view *v) {
        char words[ROUTE_WORDS_MAX];

        return json_pack("{s:s, s:I, s:b, s:I, s:I, s:s, s:I}", "route",
                         v->matched ? route_words(&v->route, v->by, words) : "", "route_mtu",
                         (json_int_t) (v->mtu > 0 ? v->mtu : v->nic_mtu), "connected", v->connected, "pmtu",
                         (json_int_t) v->pmtu, "mss", (json_int_t) v->mss, "qdisc", v->qdisc, "dropped",
                         (json_int_t) v->dropped);
}

static json_t *result_to_json(const struct path_result *r) {
        char from[ADDRESS_TEXT_MAX], to[ADDRESS_TEXT_MAX];

        return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:b, s:I, s:i, s:i, s:i, s:s, s:o}",
                         "nic", r->nic,
                         "peer", r->peer, "from", address_text(&r->from, from), "to",
                         address_text(&r->to, to), "mtu", (json_int_t) r->mtu, "answer",
                         answers[r->proof.answer], "direction",
                         directions[r->proof.direction], "exact", r->proof.exact, "passes",
                         (json_int_t) r->proof.passes, "error", -r->proof.error, "echoes",
                         (int) r->proof.echoes, "lost", (int) r->proof.lost, "tcp",
                         port_text(&r->port), "kernel",
                         view_to_json(&r->view));
}

json_t *path_report_to_json(const struct path_report *r) {
        json_t *results = json_array();

        for (size_t i = 0; i < r->n_results; i++)
                results = json_list_add(results, result_to_json(&r->results[i]));
        /* NULL among the values drops the others. */
        return json_pack("{s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:f}", "host", r->host, "time", r->time,
                         "verdict", verdict_name(finding_list_worst(&r->findings)), "checks",
                         finding_list_to_json(&r->findings), "results", results, "paths",
                         (json_int_t) r->n_results, "packets", (json_int_t) r->packets, "seconds",
                         (double) r->duration / (double) USEC_PER_SEC);
}
