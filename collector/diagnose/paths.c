/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include "grow.h"

#define PAIRS_OF_HOST 64u
#define OWNERS_MAX 64u /* ends whose owner is looked for by the hosts' own addresses */
#define DATAGRAM "no answer to a datagram" /* as agents say it: agent/base/links/unanswered.h */

/* One connection, seen from `local`. */
struct pair {
        struct address_text local, peer;
        uint32_t host;
        bool tcp;
};

struct pairs {
        struct pair *items;
        size_t n, size;
};

void paths_clear(struct paths *p) {
        free(p->ends);
        free(p->worst);
        *p = PATHS_NULL;
}

/* By their two addresses, whichever of them is the local one. */
static int compare_pairs(const void *x, const void *y) {
        const struct pair *a = x, *b = y;

        return compare_addresses(a->local, b->local) ?: compare_addresses(a->peer, b->peer);
}

/* --- What is found --------------------------------------------------------------------------------- */

/* Both directions, so that each end has all of its own side by side. */
static int add_pair(struct pairs *p, struct address_text local, struct address_text peer, uint32_t host,
                    uint32_t other, bool tcp) {
        int r = grow(&p->items, &p->size, p->n + 2, sizeof(*p->items));

        if (r < 0)
                return r;
        p->items[p->n++] = (struct pair) { local, peer, host, tcp };
        p->items[p->n++] = (struct pair) { peer, local, other, tcp };
        return 0;
}

static int take_finding(const struct evidence *e, const struct captured_finding *f, const char *check,
                        uint32_t host, bool datagrams, struct pairs *p) {
        static const char start[] = "from ";
        const char *found = stack_table_text(&e->scene->table, f->found),
                   *peer = stack_table_text(&e->scene->table, f->subject), *comma = strchr(found, ',');
        bool tcp = !comma || !strstr(comma, DATAGRAM);

        if (!streq(stack_table_text(&e->scene->table, f->check), check) || !startswith(found, start) ||
            (!tcp && !datagrams))
                return 0;
        found += sizeof(start) - 1;
        return add_pair(p, (struct address_text) { found, strcspn(found, ",") },
                        (struct address_text) { peer, strlen(peer) }, host, STACK_NONE, tcp);
}

/* Whether datagrams show anything: where some were asked for, somebody must have answered. */
static bool datagrams_tell(const struct evidence *e) {
        bool asked = false;

        for (uint32_t i = 0; i < e->n_hosts; i++)
                for (size_t k = 0; k < 2; k++) {
                        const struct host_capture *c = e->hosts[i].capture[k];

                        if (!c || c->reached == CAPTURE_REACHED_NONE)
                                continue;
                        if (c->reached > 0)
                                return true;
                        asked = true;
                }
        return !asked; /* agents that do not say it */
}

static struct address_text address_of(const struct evidence *e, uint32_t string) {
        return address_alone(stack_table_text(&e->scene->table, string));
}

static bool is_text(struct address_text a, const char *text) {
        return compare_addresses(a, (struct address_text) { text, strlen(text) }) == 0;
}

/* Of the connections in the captures themselves. */
static int gather_lost(const struct evidence *e, struct pairs *p) {
        int r = 0;

        for (size_t i = 0; i < e->peers.n && r == 0; i++) {
                const struct peer_end *end = &e->peers.ends[i];

                if (peer_end_lost(&e->peers, end))
                        r = add_pair(p, address_of(e, end->socket->local),
                                     address_of(e, end->socket->remote), end->host,
                                     end->peer_host, true);
        }
        return r;
}

/* What either capture says: a connection may be gone by the second. */
static int gather_ends(const struct evidence *e, const char *check, struct pairs *p) {
        bool datagrams = datagrams_tell(e);
        int r = 0;

        for (uint32_t i = 0; i < e->n_hosts; i++) {
                size_t most = p->n + (size_t) 2 * PAIRS_OF_HOST;

                for (size_t k = 0; k < 2; k++) {
                        const struct host_capture *c = e->hosts[i].capture[k];

                        for (size_t f = 0; c && f < c->n_findings && p->n < most && r == 0; f++)
                                r = take_finding(e, &c->findings[f], check, i, datagrams, p);
                }
        }
        return r;
}

/* --- Whose ends they are --------------------------------------------------------------------------- */

/* The NIC of an address "NIC ADDRESS" of the capture that is this end; NULL: it is none of these. */
static const char *own_nic(const struct evidence *e, const struct host_capture *c,
                           const struct path_end *end) {
        for (size_t i = 0; c && i < c->n_own; i++) {
                const char *nic = stack_table_text(&e->scene->table, c->own[i]), *blank = strchr(nic, ' ');

                if (blank && is_text(end->address, blank + 1))
                        return nic;
        }
        return NULL;
}

/* Who says that it is his; else who is known by it. */
static void find_owner(const struct evidence *e, struct path_end *end) {
        uint32_t from = end->host == STACK_NONE ? 0 : end->host,
                 to = end->host == STACK_NONE ? (uint32_t) e->n_hosts : end->host + 1;

        for (uint32_t i = from; i < to && !end->nic; i++) {
                end->nic = own_nic(e, e->hosts[i].last, end);
                end->host = end->nic ? i : end->host;
        }
        for (uint32_t i = 0; i < e->n_hosts && end->host == STACK_NONE; i++) {
                const char *address = e->hosts[i].who ? e->hosts[i].who->address : "";

                if (is_text(end->address, address))
                        end->host = i;
        }
}

static struct path_end *find_end(struct paths *p, struct address_text address) {
        size_t at = SORTED_PLACE(p->n, i, compare_addresses(p->ends[i].address, address) < 0);

        return at < p->n && compare_addresses(p->ends[at].address, address) == 0 ? &p->ends[at] : NULL;
}

static bool same_end(const struct pairs *p, size_t i) {
        return i > 0 && compare_addresses(p->items[i - 1].local, p->items[i].local) == 0;
}

static void make_ends(const struct evidence *e, const struct pairs *p, struct paths *ret) {
        size_t asked = 0;

        for (size_t i = 0; i < p->n; i++) {
                const struct pair *a = &p->items[i];
                struct path_end *end;

                if (!same_end(p, i))
                        ret->ends[ret->n++] =
                                (struct path_end) { .address = a->local, .host = STACK_NONE };
                end = &ret->ends[ret->n - 1];
                end->host = MIN(end->host, a->host); /* STACK_NONE is the greatest */
        }
        for (size_t i = 0; i < ret->n; i++)
                if (ret->ends[i].host != STACK_NONE || asked++ < OWNERS_MAX)
                        find_owner(e, &ret->ends[i]);
}

/* --- Who misses whom ------------------------------------------------------------------------------- */

/* Each pair of ends once for either of them, without machines outside; returns how many there are. */
static size_t count_missing(const struct pairs *p, bool tcp_only, bool all, struct paths *x) {
        const struct pair *before = NULL;
        size_t n = 0;

        for (size_t i = 0; i < x->n; i++)
                x->ends[i].missing = 0;
        for (size_t i = 0; i < p->n; i++) {
                const struct pair *a = &p->items[i];
                struct path_end *end, *other;

                if ((tcp_only && !a->tcp) || (before && compare_pairs(before, a) == 0))
                        continue;
                before = a;
                end = find_end(x, a->local);
                other = find_end(x, a->peer);
                if (!all && (end->outside || other->outside))
                        continue;
                end->missing++;
                end->other = other;
                n++;
        }
        return n / 2;
}

/* A machine that is no host's, and that several miss: nobody's fault here. */
static void find_outside(const struct pairs *p, struct paths *x) {
        (void) count_missing(p, false, true, x); /* how many is no matter */
        for (size_t i = 0; i < x->n; i++)
                x->ends[i].outside = x->ends[i].host == STACK_NONE && x->ends[i].missing > 1;
}

static void rank_ends(struct paths *x) {
        x->most = 0;
        x->n_most = 0;
        for (size_t i = 0; i < x->n; i++) {
                uint32_t missing = x->ends[i].host == STACK_NONE ? 0 : x->ends[i].missing;

                x->n_most = missing > x->most ? 1 : x->n_most + (missing == x->most);
                x->most = MAX(x->most, missing);
        }
}

/* Whether data of a third host came to this end after the last that came of the other one. */
static bool end_carries(const struct evidence *e, const struct path_end *end) {
        uint32_t bad = SOCKET_MS_NONE, good = SOCKET_MS_NONE;

        for (uint32_t i = e->peers.first[end->host]; i < e->peers.first[end->host + 1]; i++) {
                const struct peer_end *p = &e->peers.ends[i];

                if (p->peer_host == PEER_NONE || p->peer_host == end->host ||
                    compare_addresses(address_of(e, p->socket->local), end->address) != 0)
                        continue;
                if (p->peer_host == end->other->host)
                        bad = MIN(bad, p->socket->received_ms);
                else
                        good = MIN(good, p->socket->received_ms);
        }
        return bad != SOCKET_MS_NONE && good < bad;
}

/* Who has answered can be reached, and the other end cannot. */
static bool alone_answers(const struct evidence *e, const struct path_end *end) {
        return e->hosts[end->host].last && !e->hosts[end->other->host].last;
}

/* Of what is bad between two hosts: the ends of one of them carry, those of the other do not. What carries
 * misses nobody. */
static bool find_sound(const struct evidence *e, struct paths *x) {
        uint32_t sound = STACK_NONE, bad = STACK_NONE;
        bool two = false;

        for (size_t i = 0; i < x->n; i++) {
                struct path_end *end = &x->ends[i];
                uint32_t *host;

                if (end->missing == 0)
                        continue;
                end->carries = alone_answers(e, end) || end_carries(e, end);
                host = end->carries ? &sound : &bad;
                two |= *host != STACK_NONE && *host != end->host;
                *host = end->host;
        }
        if (two || sound == STACK_NONE || bad == STACK_NONE || sound == bad)
                return false;
        for (size_t i = 0; i < x->n; i++)
                x->ends[i].missing = x->ends[i].carries ? 0 : x->ends[i].missing;
        rank_ends(x);
        return true;
}

/* The one that misses most; NULL: there is none. */
static const struct path_end *greatest_end(const struct paths *x) {
        for (size_t i = 0; i < x->n && x->most > 0; i++)
                if (x->ends[i].host != STACK_NONE && x->ends[i].missing == x->most)
                        return &x->ends[i];
        return NULL;
}

/* All that is bad is between the same two hosts, over whatever NICs. */
static bool between_two(const struct paths *x) {
        uint32_t a = STACK_NONE, b = STACK_NONE;

        for (size_t i = 0; i < x->n; i++) {
                const struct path_end *end = &x->ends[i];

                if (end->missing == 0)
                        continue;
                if (end->host == STACK_NONE || end->other->host == STACK_NONE ||
                    end->host == end->other->host)
                        return false;
                a = a == STACK_NONE ? end->host : a;
                b = end->host != a && b == STACK_NONE ? end->host : b;
                if (end->host != a && end->host != b)
                        return false;
        }
        return b != STACK_NONE;
}

static enum paths_verdict judge_ends(const struct evidence *e, const struct pairs *p, bool tcp_only,
                                     struct paths *x) {
        const struct path_end *end;
        size_t bad;
        double share;

        bad = count_missing(p, tcp_only, false, x);
        rank_ends(x);
        end = greatest_end(x);
        if (!end || bad == 0)
                return PATHS_NOTHING;
        if (bad == 1 && (end->other->host == STACK_NONE || end->other->host == end->host))
                return PATHS_NOTHING;
        if (bad == 1 || between_two(x))
                return find_sound(e, x) ? PATHS_LIKELY : PATHS_PAIR;
        share = (double) end->missing / (double) bad;
        if (x->n_most != 1 || share <= 0.5)
                return PATHS_NOTHING;
        return share >= PATH_SHARE ? PATHS_CLEAR : PATHS_LIKELY;
}

/* Where no address stands out: the host that is in most of the bad pairs. */
static int judge_hosts(const struct evidence *e, const struct pairs *p, struct paths *x) {
        _cleanup_free_ uint32_t *sums = calloc(e->n_hosts + 1, sizeof(*sums));
        size_t bad = count_missing(p, false, false, x);
        uint32_t most = 0, n_most = 0;

        if (!sums)
                return -ENOMEM;
        rank_ends(x);
        for (size_t i = 0; i < x->n; i++)
                if (x->ends[i].host != STACK_NONE)
                        sums[x->ends[i].host] += x->ends[i].missing;
        for (size_t i = 0; i < e->n_hosts; i++) {
                n_most = sums[i] > most ? 1 : n_most + (sums[i] == most);
                most = MAX(most, sums[i]);
        }
        if (n_most != 1 || most < 2 || most * 2 <= bad)
                return 0;
        for (size_t i = 0; i < x->n; i++) {
                struct path_end *end = &x->ends[i];

                if (end->host == STACK_NONE || end->missing == 0 || sums[end->host] != most)
                        continue;
                end->missing = most;
                end->whole = true;
        }
        rank_ends(x);
        x->verdict = (double) most / (double) bad >= PATH_SHARE ? PATHS_CLEAR : PATHS_LIKELY;
        return 0;
}

static void note_worst(struct paths *x) {
        for (size_t i = 0; i < x->n; i++) {
                struct path_end *end = &x->ends[i];

                if (end->host != STACK_NONE && end->missing > 0 &&
                    (!x->worst[end->host] || end->missing > x->worst[end->host]->missing))
                        x->worst[end->host] = end;
        }
}

int paths_survey(const struct evidence *e, struct paths *ret) {
        struct paths found = PATHS_NULL;
        struct pairs p = { 0 };
        int r = gather_ends(e, PATH_CHECK, &p);

        if (r == 0)
                r = gather_lost(e, &p);
        if (r == 0 && p.n == 0)
                r = gather_ends(e, LINK_CHECK, &p); /* all are answered, some late */

        if (r == 0) {
                found.ends = calloc(p.n + 1, sizeof(*found.ends));
                found.worst = calloc(e->n_hosts + 1, sizeof(struct path_end *));
                r = found.ends && found.worst ? 0 : -ENOMEM;
        }
        if (r == 0 && p.n > 0) {
                qsort(p.items, p.n, sizeof(*p.items), compare_pairs);
                make_ends(e, &p, &found);
                find_outside(&p, &found);
                found.verdict = judge_ends(e, &p, false, &found);
                if (found.verdict == PATHS_NOTHING) {
                        found.verdict = judge_ends(e, &p, true, &found);
                        if (found.verdict == PATHS_NOTHING)
                                r = judge_hosts(e, &p, &found);
                }
                note_worst(&found);
        }
        free(p.items);
        if (r < 0)
                paths_clear(&found);
        else
                *ret = found;
        return r;
}

/* --- What agents publish about their links --------------------------------------------------------- */

/* "from ADDRESS, WORDS": the words; NULL: it is no such finding. */
static const char *words_of(const struct evidence *e, const struct captured_finding *f,
                            struct address_text *ret_local) {
        const char *found = stack_table_text(&e->scene->table, f->found), *comma = strchr(found, ',');

        if (!streq(stack_table_text(&e->scene->table, f->check), LINK_CHECK) ||
            !startswith(found, "from ") || !comma || comma[1] != ' ')
                return NULL;
        found += strlen("from ");
        *ret_local = (struct address_text) { found, (size_t) (comma - found) };
        return comma + 2;
}

/* local: the finding's own address has to be this; peer: its subject. Either may be NULL. */
static const char *find_quote(const struct evidence *e, uint32_t host, const struct path_end *local,
                              const struct path_end *peer) {
        for (size_t k = 2; k > 0; k--) { /* the later capture says it of now */
                const struct host_capture *c = e->hosts[host].capture[k - 1];

                for (size_t i = 0; c && i < c->n_findings; i++) {
                        const char *subject = stack_table_text(&e->scene->table, c->findings[i].subject);
                        struct address_text from;
                        const char *words = words_of(e, &c->findings[i], &from);

                        if (words && (!local || compare_addresses(local->address, from) == 0) &&
                            (!peer || is_text(peer->address, subject)))
                                return words;
                }
        }
        return NULL;
}

const char *link_quote_own(const struct evidence *e, uint32_t host, const struct path_end *end) {
        return find_quote(e, host, end, NULL);
}

const char *link_quote_of(const struct evidence *e, const struct path_end *end, uint32_t *ret_host) {
        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const char *words = find_quote(e, i, NULL, end);

                if (!words)
                        continue;
                *ret_host = i;
                return words;
        }
        return NULL;
}
