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

/* --- The direction, by two hosts' results ----------------------------------------------------------- */

/* What a result shows by itself. */
static void legs_of(const struct proof_result *r, struct path_legs *ret) {
        *ret = (struct path_legs){ 0 };
        if (r->answer == PROOF_PASSES)
                ret->there = ret->back = PATH_LEG_CARRIES;
        else if (r->answer == PROOF_SMALLER && r->direction == PROOF_THERE)
                ret->there = PATH_LEG_DROPS;
        else if (r->answer == PROOF_SMALLER && r->direction == PROOF_BACK)
                *ret = (struct path_legs){ .there = PATH_LEG_CARRIES, .back = PATH_LEG_DROPS };
}

/* What a direction at the peer's full size says about it at ours. */
static enum path_leg at_size(enum path_leg leg, uint32_t theirs, uint32_t ours) {
        if ((leg == PATH_LEG_CARRIES && theirs < ours) || (leg == PATH_LEG_DROPS && theirs > ours))
                return PATH_LEG_UNKNOWN;
        return leg;
}

static bool join_legs(enum path_leg *own, enum path_leg theirs) {
        if (*own == PATH_LEG_UNKNOWN)
                *own = theirs;
        return theirs == PATH_LEG_UNKNOWN || *own == theirs;
}

void path_legs_merge(const struct path_result *own, const struct path_result *theirs,
                     struct path_legs *ret) {
        struct path_legs w, alone, seen;
        bool agree;

        legs_of(&own->proof, &alone);
        legs_of(&theirs->proof, &seen);
        w = alone;
        agree = join_legs(&w.there, at_size(seen.back, theirs->mtu, own->mtu));
        agree = join_legs(&w.back, at_size(seen.there, theirs->mtu, own->mtu)) && agree;
        /* An echo that failed needs a direction that drops. */
        if (w.there == PATH_LEG_CARRIES && w.back == PATH_LEG_CARRIES &&
            (own->proof.answer == PROOF_SMALLER ||
             (theirs->proof.answer == PROOF_SMALLER && theirs->mtu <= own->mtu)))
                agree = false;
        if (!agree)
                w = alone;
        w.contradiction = !agree;
        *ret = w;
}

/* --- Words --------------------------------------------------------------------------------------------- */

static const char *direction_of(const struct path_legs *w) {
        if (w->there == PATH_LEG_DROPS && w->back == PATH_LEG_DROPS)
                return "both ways";
        if (w->there == PATH_LEG_DROPS)
                return w->back == PATH_LEG_CARRIES ? "towards the peer only" : "towards the peer";
        if (w->back == PATH_LEG_DROPS)
                return w->there == PATH_LEG_CARRIES ? "from the peer only" : "from the peer";
        return "direction UNKNOWN";
}

/* Of full datagrams: what the sender's closed-port answers prove. */
static const char *told_here(const struct proof_result *r) {
        return r->direction == PROOF_THERE  ? "full datagrams do not arrive there"
               : r->direction == PROOF_BACK ? "full datagrams do arrive there"
                                            : "no datagram is answered there";
}

static void tell_of(const struct path_report *report, const struct path_result *theirs, char *buf,
                    size_t size) {
        const struct proof_result *r = &theirs->proof;
        char what[96];

        if (r->answer == PROOF_PASSES)
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed in both directions",
                                theirs->mtu);
        else if (r->answer != PROOF_SMALLER)
                (void) snprintf(what, sizeof(what), "no path was settled");
        else if (r->direction == PROOF_DIRECTION_UNKNOWN)
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed, no datagram was answered",
                                r->passes);
        else
                (void) snprintf(what, sizeof(what), "%" PRIu32 " bytes passed, its full datagrams %s here",
                                r->passes, r->direction == PROOF_BACK ? "arrive" : "do not arrive");
        (void) snprintf(buf, size, "%s's own run (%s): %s", report->host[0] ? report->host : "the peer",
                        report->time[0] ? report->time : "no time", what);
}

static void add_to_reason(struct finding *f, const char *text) {
        char before[sizeof(f->reason)];

        (void) snprintf(before, sizeof(before), "%s", f->reason);
        finding_set(f->reason, "%s%s%s", before, before[0] ? "; " : "", text);
}

static void add_witness(const struct path_result *own, const struct path_report *report,
                        const struct path_result *theirs, struct finding *f) {
        struct path_legs w;
        char told[320];

        path_legs_merge(own, theirs, &w);
        tell_of(report, theirs, told, sizeof(told));
        if (own->proof.answer == PROOF_SMALLER && w.contradiction)
                finding_set(f->reason, "here %s; %s: the path changed between the two runs",
                            told_here(&own->proof), told);
        else if (own->proof.answer == PROOF_SMALLER) {
                set_smaller(f, own->proof.passes, own->mtu, direction_of(&w));
                finding_set(f->reason,
                            "larger packets vanish without a word: connections open, then stall; %s; %s",
                            told_here(&own->proof), told);
        } else if (own->proof.answer != PROOF_PASSES)
                add_to_reason(f, told);
        else if (w.contradiction) {
                check_say(f, WORDS_PATH_CHANGED, told);
        }
}

/* The result of report for the same two addresses, as the peer saw them. NULL: none. */
static const struct path_result *find_witness(const struct path_report *report,
                                              const struct path_result *own) {
        for (size_t i = 0; i < report->n_results; i++) {
                const struct path_result *r = &report->results[i];

                if (address_equal(&r->from, &own->to) && address_equal(&r->to, &own->from))
                        return r;
        }
        return NULL;
}

void path_report_add_witnesses(struct path_report *own, const struct path_report *peers, size_t n) {
        for (size_t i = 0; i < own->n_results; i++) {
                const struct path_result *x = &own->results[i];
                struct finding *f = &own->findings.items[x->finding];
                bool found = false;

                for (size_t k = 0; k < n && !found; k++) {
                        const struct path_result *theirs = find_witness(&peers[k], x);

                        found = theirs != NULL;
                        if (found)
                                add_witness(x, &peers[k], theirs, f);
                }
                if (!found && x->proof.answer == PROOF_SMALLER)
                        add_to_reason(f, "no report given is of this path's other end");
        }
}
