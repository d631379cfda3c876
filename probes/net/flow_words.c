/* SPDX-License-Identifier: Apache-2.0 */
#include "flow_words.h"

#include <arpa/inet.h>

#include "texts.h"

/* --- Judging ------------------------------------------------------------------------------------------ */

bool flow_is_judged(const struct flow_link *l) {
        return l->used && (l->run != FLOW_NOBODY || l->is_worker);
}

static double share_again(const union flow_counts *c) {
        return c->segments > 0 ? MIN((double) c->retransmits / (double) c->segments, 1.0) : 0;
}

static bool timeouts_count(const struct flows *f, const union flow_counts *c) {
        return c->timeouts >= FLOW_BAD_TIMEOUTS &&
               c->timeouts * 10 * USEC_PER_SEC >= FLOW_BAD_TIMEOUTS * f->span;
}

static bool share_counts(const union flow_counts *c) {
        return c->retransmits >= FLOW_BAD_RETRANSMITS && share_again(c) >= FLOW_BAD_SHARE;
}

/* Whether what happened between the last two dumps is reason enough. */
static bool flow_has_reason(const struct flows *f, const struct flow_link *l) {
        return f->span > 0 && (timeouts_count(f, &l->now) || share_counts(&l->now) || l->silent > 0 ||
                               l->now.syn_retries >= FLOW_BAD_SYN_RETRIES);
}

void flow_judge(const struct flows *f, struct flow_link *l) {
        bool reason = flow_is_judged(l) && flow_has_reason(f, l);

        if (reason && !l->bad)
                l->bad_since = f->at;
        l->good_for = reason ? 0 : l->good_for + 1;
        l->bad = reason || (l->bad && l->good_for < FLOW_GOOD_FOR);
}

/* --- Texts -------------------------------------------------------------------------------------------- */

struct text {
        char *buf;
        bool more;
};

#define append_text(t, ...) text_append((t)->buf, FLOW_TEXT_MAX, "", __VA_ARGS__)

/* What is said one after the other. */
static const char *comma(struct text *t) {
        const char *c = t->more ? ", " : "";

        t->more = true;
        return c;
}

static const char *plural(uint64_t n) {
        return n == 1 ? "" : "s";
}

static double seconds_of(const struct flows *f) {
        return (double) f->span / (double) USEC_PER_SEC;
}

const char *flow_address_text(uint8_t family, const uint8_t *address, char buf[static FLOW_NAME_MAX]) {
        if (!inet_ntop(family, address, buf, FLOW_NAME_MAX))
                (void) snprintf(buf, FLOW_NAME_MAX, "?");
        return buf;
}

const char *flow_peer_text(const struct flow_link *l, char buf[static FLOW_NAME_MAX]) {
        if (!l->name[0])
                return flow_address_text(l->family, l->peer, buf);
        (void) snprintf(buf, FLOW_NAME_MAX, "%s", l->name);
        return buf;
}

static void say_counts(const struct flows *f, const union flow_counts *c, struct text *t) {
        if (c->timeouts > 0)
                append_text(t, "%s%s%" PRIu64 " RTO%s in %.0f s", comma(t),
                            f->exact_timeouts ? "" : "at least ", c->timeouts, plural(c->timeouts),
                            seconds_of(f));
        if (c->retransmits > c->syn_retries && c->segments > 0)
                append_text(t, "%s%.*g %% of segments retransmitted (%" PRIu64 ")", comma(t),
                    share_again(c) < 0.1 ? 2 : 3, 100 * share_again(c), c->retransmits);
        if (c->syn_retries > 0)
                append_text(t, "%sSYN retransmitted %" PRIu64 " time%s", comma(t), c->syn_retries,
                    plural(c->syn_retries));
}

static void say_reasons(const struct flows *f, const struct flow_link *l, struct text *t) {
        say_counts(f, &l->now, t);
        if (l->silent > 0)
                append_text(t, "%snothing acknowledged for %.0f s (%u of %u connection%s)", comma(t),
                    (double) l->silent_msec / 1000, l->silent, l->connections, plural(l->connections));
        if (!t->more && l->bad)
                append_text(t, "bad until %.0f s ago", seconds_of(f) * l->good_for);
        else if (!t->more)
                append_text(t, l->seen > 0 ? "no loss" : "no connection is looked at");
}

void flow_link_text(const struct flows *f, const struct flow_link *l, char buf[static FLOW_TEXT_MAX]) {
        struct text t = { .buf = buf };
        char peer[FLOW_NAME_MAX];

        buf[0] = '\0';
        append_text(&t, "NIC %s to %s: ", f->nics[l->nic].index ? f->nics[l->nic].name : "?",
                    flow_peer_text(l, peer));
        say_reasons(f, l, &t);
}

/* --- Order -------------------------------------------------------------------------------------------- */

/* The greatest of each comes first. */
int flow_compare(const struct flow_link *a, const struct flow_link *b) {
        return COMPARE(b->bad, a->bad) ?: COMPARE(b->now.timeouts, a->now.timeouts) ?:
               COMPARE(b->silent_msec, a->silent_msec) ?: COMPARE(b->now.syn_retries, a->now.syn_retries) ?:
               COMPARE(b->now.retransmits, a->now.retransmits) ?:
               COMPARE(b->wrong_nic > 0, a->wrong_nic > 0) ?:
               COMPARE(flow_is_judged(b), flow_is_judged(a)) ?:
               COMPARE(b->now.sent_bytes + b->now.received_bytes,
                       a->now.sent_bytes + a->now.received_bytes) ?:
               COMPARE(a, b);
}

const struct flow_link *flow_next_bad(const struct flows *f, const struct flow_link *before) {
        const struct flow_link *worst = NULL;

        for (size_t i = 0; i < f->n_links; i++) {
                const struct flow_link *l = &f->links[i];

                if (l->used && l->bad && (!before || flow_compare(before, l) < 0) &&
                    (!worst || flow_compare(l, worst) < 0))
                        worst = l;
        }
        return worst;
}

int flow_tell(const struct flows *f, size_t most, struct finding_list *list) {
        const struct flow_link *l = NULL;
        int r = 0;

        for (size_t i = 0; i < most && r == 0 && (l = flow_next_bad(f, l)); i++) {
                char text[FLOW_TEXT_MAX], local[FLOW_NAME_MAX], peer[FLOW_NAME_MAX];
                struct finding finding;

                finding_init(&finding, FLOW_LINK_CHECK, flow_address_text(l->family, l->peer, peer));
                finding.verdict = VERDICT_WARN;
                flow_link_text(f, l, text);
                finding_set(finding.found, "from %s, %s", flow_address_text(l->family, l->local, local),
                            text);
                r = finding_list_add(list, &finding);
        }
        return r;
}

/* --- Over all ----------------------------------------------------------------------------------------- */

struct over_all {
        size_t links, bad, of_worst_nic, bad_of_worst_nic;
        unsigned connections;
        union flow_counts sum; /* of the worst one's NIC */
        uint64_t again, segments;
        const struct flow_link *worst;
};

static bool is_of_a_run(const struct flow_link *l) {
        return flow_is_judged(l) && l->connections > 0;
}

static void survey_links(const struct flows *f, struct over_all *o) {
        for (size_t i = 0; i < f->n_links; i++) {
                const struct flow_link *l = &f->links[i];

                if (!is_of_a_run(l))
                        continue;
                o->links++;
                o->bad += l->bad;
                o->connections += l->connections;
                o->again += l->now.retransmits;
                o->segments += l->now.segments;
                if (l->bad && (!o->worst || flow_compare(l, o->worst) < 0))
                        o->worst = l;
        }
        for (size_t i = 0; o->worst && i < f->n_links; i++) {
                const struct flow_link *l = &f->links[i];

                if (!is_of_a_run(l) || l->nic != o->worst->nic)
                        continue;
                o->of_worst_nic++;
                o->bad_of_worst_nic += l->bad;
                o->sum.timeouts += l->now.timeouts;
                o->sum.retransmits += l->now.retransmits;
                o->sum.syn_retries += l->now.syn_retries;
                o->sum.segments += l->now.segments;
        }
}

/* Every peer behind one NIC: it is rather this end. */
static void say_nic(const struct flows *f, const struct over_all *o, struct text *t) {
        append_text(t, "NIC %s to all %zu peers: ", f->nics[o->worst->nic].name, o->of_worst_nic);
        say_counts(f, &o->sum, t);
        if (!t->more)
                append_text(t, "nothing acknowledged for up to %.0f s",
                            (double) o->worst->silent_msec / 1000);
        append_text(t, ": rather this NIC or its port than the peers");
}

void flow_summary(const struct flows *f, char buf[static FLOW_TEXT_MAX]) {
        struct text t = { .buf = buf };
        struct over_all o = { 0 };

        buf[0] = '\0';
        survey_links(f, &o);
        if (f->at == 0 || f->span == 0)
                append_text(&t, "no interval between two looks yet");
        else if (o.links == 0)
                append_text(&t, "no run has a TCP connection to another host");
        else if (!o.worst)
                append_text(&t,
                    "no bad link: %zu path%s to peers, %u connections, %" PRIu64 " of %" PRIu64
                    " segments retransmitted in %.0f s",
                    o.links, plural(o.links), o.connections, o.again, o.segments, seconds_of(f));
        else if (o.bad_of_worst_nic == o.of_worst_nic && o.of_worst_nic > 1)
                say_nic(f, &o, &t);
        else
                flow_link_text(f, o.worst, buf);
        if (o.bad > 1 && o.bad_of_worst_nic != o.of_worst_nic)
                append_text(&t, "; %zu of %zu paths are bad", o.bad, o.links);
}

/*
 * The kernel lets a receive buffer grow to what holds two round trips' worth of what the program takes, and
 * doubles that for the overhead of packets (Linux, tcp_rcv_space_adjust(), tcp_adv_win_scale 1): four times
 * that is wanted.
 */
enum verdict flow_receive_text(const struct flows *f, char buf[static FLOW_TEXT_MAX]) {
        unsigned full = 0, connections = 0;
        struct text t = { .buf = buf };
        uint64_t space = 0;

        buf[0] = '\0';
        for (size_t i = 0; i < f->n_links; i++) {
                const struct flow_link *l = &f->links[i];

                if (!flow_is_judged(l))
                        continue;
                connections += l->connections;
                full += l->full;
                if (l->full > 0)
                        space = MAX(space, (uint64_t) l->receive_space);
        }
        if (f->receive_max == 0 || connections == 0)
                return VERDICT_UNKNOWN;
        if (full == 0)
                append_text(&t,
                    "none of %u connections has the largest receive buffer (tcp_rmem: %" PRIu64
                    " bytes): it suffices",
                    connections, f->receive_max);
        else if (4 * space * 4 < 3 * f->receive_max)
                append_text(&t,
                    "%u of %u connections have the largest receive buffer (tcp_rmem: %" PRIu64
                    " bytes), programs take %" PRIu64 " bytes a round trip: it suffices",
                    full, connections, f->receive_max, space);
        else {
                append_text(&t,
                    "%u of %u connections are at the largest receive buffer (tcp_rmem: %" PRIu64
                    " bytes) and take %" PRIu64
                    " bytes a round trip: try sysctl net.ipv4.tcp_rmem with %" PRIu64,
                    full, connections, f->receive_max, space, 2 * f->receive_max);
                return VERDICT_WARN;
        }
        return VERDICT_OK;
}
