/* SPDX-License-Identifier: Apache-2.0 */
#include "debts.h"

#define ROUNDS 64u      /* of inferring: as deep as a tree of hosts is */
#define PATH_SHARE 0.75 /* of all bad paths: paths.h of collector/diagnose has the same */

/* What one host is to another, over all their connections. */
enum relation {
        NEUTRAL, /* it only sends there, or not at all */
        OPEN,
        OWES,
        WAITS,
        INFERRED, /* OPEN, and no other can be meant */
        EXCLUDED, /* OPEN, and it was inferred to wait for us */
};

struct relations {
        const struct debts_host *hosts;
        size_t n;
        enum relation *all; /* of each debt, the first one of each peer; else NEUTRAL */
        size_t *first;      /* where those of a host begin */
};

int debt_turn_parse(const char *name, enum debt_turn *ret) {
        static const char *const names[_DEBT_TURN_MAX] = { "open", "owes", "waits", "sends", "bad" };

        for (enum debt_turn t = 0; t < _DEBT_TURN_MAX; t++)
                if (streq(names[t], name)) {
                        *ret = t;
                        return 0;
                }
        return -EINVAL;
}

static enum relation relation_of_turn(enum debt_turn t) {
        static const enum relation of[_DEBT_TURN_MAX] = {
                [DEBT_OPEN] = OPEN, [DEBT_OWES] = OWES, [DEBT_WAITS] = WAITS
        };

        return of[t];
}

static int make_relations(struct relations *r, const struct debts_host *hosts, size_t n) {
        size_t total = 0;

        *r = (struct relations){ .hosts = hosts, .n = n, .first = calloc(n + 1, sizeof(size_t)) };
        if (!r->first)
                return -ENOMEM;
        for (size_t h = 0; h < n; h++) {
                r->first[h] = total;
                total += hosts[h].n;
        }
        r->first[n] = total;
        r->all = calloc(total + 1, sizeof(*r->all));
        if (!r->all)
                return -ENOMEM;
        for (size_t h = 0; h < n; h++)
                for (size_t i = 0; i < hosts[h].n; i++) {
                        const struct debt *x = &hosts[h].debts[i];
                        size_t at = i;

                        if (x->peer == h || (x->peer >= n && x->peer != DEBTS_OUTSIDE))
                                return -EINVAL;
                        for (size_t k = 0; k < i && at == i; k++)
                                if (hosts[h].debts[k].peer == x->peer)
                                        at = k;
                        if (x->peer != DEBTS_OUTSIDE)
                                r->all[r->first[h] + at] =
                                        MAX(r->all[r->first[h] + at], relation_of_turn(x->turn));
                }
        return 0;
}

static bool is_wait(enum relation x) {
        return x == WAITS || x == INFERRED;
}

static size_t count_of(const struct relations *r, size_t host, enum relation what) {
        size_t n = 0;

        for (size_t i = r->first[host]; i < r->first[host + 1]; i++)
                n += r->all[i] == what;
        return n;
}

static enum relation relation_to(const struct relations *r, uint32_t host, uint32_t whom) {
        for (size_t i = r->first[host]; i < r->first[host + 1]; i++)
                if (r->hosts[host].debts[i - r->first[host]].peer == whom && r->all[i] != NEUTRAL)
                        return r->all[i];
        return NEUTRAL;
}

/* Peers of the run, each once. */
static size_t peers_of(const struct relations *r, size_t host) {
        size_t n = 0;

        for (size_t i = 0; i < r->hosts[host].n; i++) {
                uint32_t peer = r->hosts[host].debts[i].peer;
                bool known = peer == DEBTS_OUTSIDE;

                for (size_t k = 0; k < i && !known; k++)
                        known = r->hosts[host].debts[k].peer == peer;
                n += !known;
        }
        return n;
}

/* --- Inferring ------------------------------------------------------------------------------------- */

/* Of one that owes some and not all, into next. True: something became known. */
static bool infer_wait(const struct relations *r, uint32_t host, enum relation *next) {
        size_t candidates = 0, last = 0;
        bool changed = false;

        if (count_of(r, host, OWES) == 0 || count_of(r, host, WAITS) + count_of(r, host, INFERRED) > 0)
                return false;
        for (size_t i = r->first[host]; i < r->first[host + 1]; i++) {
                enum relation back;

                if (r->all[i] != OPEN)
                        continue;
                back = relation_to(r, r->hosts[host].debts[i - r->first[host]].peer, host);
                if (is_wait(back)) { /* it is seen to wait for us: that is settled */
                        next[i] = back == WAITS ? NEUTRAL : EXCLUDED;
                        changed = true;
                        continue;
                }
                candidates++;
                last = i;
        }
        /* one that has other peers may have given what it should, and wait for those */
        if (candidates != 1 || peers_of(r, r->hosts[host].debts[last - r->first[host]].peer) > 1)
                return changed;
        next[last] = INFERRED;
        return true;
}

/* All at once in each round, so that the order of hosts says nothing. */
static void infer_waits(struct relations *r, enum relation *next) {
        size_t size = r->first[r->n] * sizeof(*next);
        bool changed = true;

        memcpy(next, r->all, size);
        for (unsigned round = 0; changed && round < ROUNDS; round++) {
                changed = false;
                for (uint32_t h = 0; h < r->n; h++)
                        changed |= infer_wait(r, h, next);
                memcpy(r->all, next, size);
        }
}

/* --- The sink -------------------------------------------------------------------------------------- */

/* Waits that lead to a host. */
struct pull {
        size_t straight; /* seen */
        size_t inferred;
        uint32_t example; /* who waits */
};

static void count_pulls(const struct relations *r, struct pull *pulls) {
        for (uint32_t h = 0; h < r->n; h++)
                for (size_t i = r->first[h]; i < r->first[h + 1]; i++) {
                        uint32_t peer = r->hosts[h].debts[i - r->first[h]].peer;

                        if (!is_wait(r->all[i]))
                                continue;
                        if (pulls[peer].straight + pulls[peer].inferred == 0)
                                pulls[peer].example = h;
                        pulls[peer].straight += r->all[i] == WAITS;
                        pulls[peer].inferred += r->all[i] == INFERRED;
                }
}

static size_t waits_of(const struct relations *r, size_t host) {
        return count_of(r, host, WAITS) + count_of(r, host, INFERRED);
}

/* All that it needs is there. */
static bool owes_all(const struct relations *r, size_t host) {
        return count_of(r, host, OWES) > 0 && count_of(r, host, OPEN) == 0 && waits_of(r, host) == 0;
}

/* It waits for one of several, and nobody says for which. */
static bool is_torn(const struct relations *r, size_t host) {
        return count_of(r, host, OWES) > 0 && count_of(r, host, OPEN) > 0 && waits_of(r, host) == 0;
}

/* The keeper of a star, in whose hands all is. A worker that stands before it asks looks the same. */
static bool is_hub(const struct relations *r, uint32_t host) {
        size_t n = r->hosts[host].n;

        for (size_t i = 0; i < r->hosts[host].n; i++)
                if (r->hosts[host].debts[i].peer != DEBTS_OUTSIDE &&
                    peers_of(r, r->hosts[host].debts[i].peer) > 1)
                        return false;
        return n > 1;
}

/* The end of a pipeline, where several batches are between two hosts at once: the times do not say whose
 * turn it is. */
static bool is_chain_end(const struct relations *r, uint32_t host) {
        if (r->n < 4 || peers_of(r, host) != 1)
                return false;
        for (size_t i = 0; i < r->hosts[host].n; i++)
                if (r->hosts[host].debts[i].peer != DEBTS_OUTSIDE)
                        return peers_of(r, r->hosts[host].debts[i].peer) == 2;
        return false;
}

static void describe_sink(const struct relations *r, uint32_t host, const struct pull *pulls,
                          struct debts_verdict *v) {
        uint64_t most = 0;

        v->host = host;
        v->waiting = pulls[host].straight + pulls[host].inferred;
        v->other = v->waiting > 0 ? pulls[host].example : DEBTS_OUTSIDE;
        for (size_t i = 0; i < r->hosts[host].n; i++) {
                const struct debt *x = &r->hosts[host].debts[i];

                if (x->turn != DEBT_OWES || x->peer == DEBTS_OUTSIDE)
                        continue;
                v->unread += x->unread;
                if (x->unread > most) {
                        most = x->unread;
                        v->unread_of = x->peer;
                }
                if (x->sent >= 0 && x->received >= 0)
                        v->owes = MAX(v->owes, x->sent - x->received);
        }
        if (!r->hosts[host].said)
                v->why = DEBTS_SILENT;
        else if (owes_all(r, host))
                v->why = DEBTS_OWES;
        else
                v->why = pulls[host].straight > 0 ? DEBTS_WANTED : DEBTS_INFERRED;
        v->says = v->why == DEBTS_OWES && pulls[host].straight > 0 && !is_hub(r, host) ? DEBTS_CLEAR
                                                                                       : DEBTS_LIKELY;
}

static void judge_graph(const struct relations *r, const struct pull *pulls, struct debts_verdict *v) {
        uint32_t sinks[2] = { DEBTS_OUTSIDE, DEBTS_OUTSIDE }, torn = DEBTS_OUTSIDE;
        size_t n = 0, waits = 0, inferred_end = 0;

        for (uint32_t h = 0; h < r->n; h++) {
                bool pulled = pulls[h].straight + pulls[h].inferred > 0;

                waits += waits_of(r, h);
                if (is_torn(r, h)) {
                        torn = torn == DEBTS_OUTSIDE ? h : torn;
                        continue;
                }
                if (waits_of(r, h) > 0 || (!pulled && !owes_all(r, h)))
                        continue;
                /* an open peer was inferred to wait for it: the opposite may be true */
                inferred_end += count_of(r, h, EXCLUDED) > 0;
                if (n < 2)
                        sinks[n] = h;
                n++;
        }
        v->host = sinks[0];
        v->other = sinks[1];
        if (n == 1 && is_chain_end(r, sinks[0]))
                v->why = DEBTS_CHAIN;
        else if (n == 1 && torn == DEBTS_OUTSIDE && inferred_end == 0)
                describe_sink(r, sinks[0], pulls, v);
        else if (n > 1)
                v->why = DEBTS_SEVERAL;
        else if (torn != DEBTS_OUTSIDE || inferred_end > 0) {
                v->why = DEBTS_ONE_OF;
                v->host = torn != DEBTS_OUTSIDE ? torn : sinks[0];
        } else
                v->why = waits > 0 ? DEBTS_ROUND : DEBTS_NOTHING;
}

/* --- Paths ----------------------------------------------------------------------------------------- */

/* In its first n entries. */
static bool says_bad(const struct debts_host *h, uint32_t peer, size_t n) {
        for (size_t i = 0; i < n; i++)
                if (h->debts[i].peer == peer && h->debts[i].turn == DEBT_BAD)
                        return true;
        return false;
}

/* True: a path is bad, and the verdict is about it. */
static bool judge_paths(const struct debts_host *hosts, size_t n, size_t *ends, struct debts_verdict *v) {
        size_t pairs = 0, most = 0, others = 0;

        for (uint32_t h = 0; h < n; h++)
                for (size_t i = 0; i < hosts[h].n; i++) {
                        uint32_t peer = hosts[h].debts[i].peer;

                        if (hosts[h].debts[i].turn != DEBT_BAD || peer == DEBTS_OUTSIDE)
                                continue;
                        if (says_bad(&hosts[h], peer, i) ||
                            (peer < h && says_bad(&hosts[peer], h, hosts[peer].n)))
                                continue; /* it is counted, by this end or the other */
                        if (pairs++ == 0) {
                                v->host = h;
                                v->other = peer;
                        }
                        ends[h]++;
                        ends[peer]++;
                }
        if (pairs == 0)
                return false;
        if (pairs == 1) {
                v->why = DEBTS_PAIR;
                v->says = DEBTS_LIKELY;
                return true;
        }
        for (uint32_t h = 0; h < n; h++)
                if (ends[h] > most) {
                        most = ends[h];
                        v->host = h;
                }
        for (uint32_t h = 0; h < n; h++)
                others += ends[h] == most;
        v->other = DEBTS_OUTSIDE;
        v->waiting = most;
        v->why = DEBTS_PATH;
        v->says = others == 1 && (double) most >= PATH_SHARE * (double) pairs ? DEBTS_CLEAR : DEBTS_NOBODY;
        if (v->says == DEBTS_NOBODY)
                v->why = DEBTS_SEVERAL;
        return true;
}

int debts_judge(const struct debts_host *hosts, size_t n, struct debts_verdict *ret) {
        struct debts_verdict v = {
                .host = DEBTS_OUTSIDE, .other = DEBTS_OUTSIDE, .unread_of = DEBTS_OUTSIDE, .owes = -1
        };
        _cleanup_free_ struct pull *pulls = NULL;
        _cleanup_free_ enum relation *next = NULL;
        _cleanup_free_ size_t *ends = NULL;
        struct relations r = { 0 };
        int k;

        if (n > DEBTS_HOSTS_MAX)
                return -EINVAL;
        k = make_relations(&r, hosts, n);
        if (k == 0) {
                pulls = calloc(n + 1, sizeof(*pulls));
                ends = calloc(n + 1, sizeof(*ends));
                next = calloc(r.first[n] + 1, sizeof(*next));
                k = pulls && ends && next ? 0 : -ENOMEM;
        }
        for (size_t h = 0; h < n; h++)
                v.said += hosts[h].said;
        if (k == 0 && !judge_paths(hosts, n, ends, &v)) {
                infer_waits(&r, next);
                count_pulls(&r, pulls);
                judge_graph(&r, pulls, &v);
        }
        free(r.first);
        free(r.all);
        if (k == 0)
                *ret = v;
        return k;
}
