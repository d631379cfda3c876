/* SPDX-License-Identifier: Apache-2.0 */
#include "peers.h"

#include <netinet/in.h>
#include <sys/socket.h>

#include "grow.h"

#define ENDS_MAX (1u << 22)
#define CLOSED 7u /* TCP_CLOSE of net/tcp_states.h */
#define LISTENS 10u
#define WATCHED_MAX 64u     /* of one thread that are looked at */
#define RETRANSMITS_LOST 2u /* in a row: the first may be a tail that was dropped once */
#define SILENT_MS 2000u     /* by then an acknowledgement has come */

void peers_clear(struct peers *p) {
        free(p->names);
        free(p->ends);
        free(p->first);
        *p = PEERS_NULL;
}

/* Whether a text "10.0.0.1:80" is on this machine alone. */
static bool address_is_loopback(const char *text) {
        return startswith(text, "127.") || startswith(text, "[::1]");
}

/* --- Ends ------------------------------------------------------------------------------------------- */

static bool is_connection(const struct captured_socket *s) {
        return s->protocol == IPPROTO_TCP && s->state != LISTENS && s->state != CLOSED && s->remote != 0 &&
               s->inode != 0;
}

static int add_ends(struct peers *p, const struct seen_host *h, uint32_t host) {
        const struct host_capture *c = h->last;
        const struct host_capture *before = h->capture[1] == c ? h->capture[0] : NULL;

        for (size_t i = 0; c && i < c->n_processes; i++) {
                const struct captured_process *q = &c->processes[i],
                                              *parent = captured_process_of(c, q->parent),
                                              *then = q->n_sockets > 0 ? captured_process_of(before, q->pid)
                                                                       : NULL;

                for (uint32_t k = 0; k < q->n_sockets; k++) {
                        const struct captured_socket *s = &c->sockets[q->first_socket + k];
                        const struct captured_socket *old = captured_socket_of(before, then, s->inode);
                        int r;

                        if (!is_connection(s) || captured_socket_of(c, parent, s->inode))
                                continue;
                        if (p->n >= ENDS_MAX) /* what finds no room is no evidence */
                                return 0;
                        r = grow(&p->ends, &p->size, p->n + 1, sizeof(*p->ends));
                        if (r < 0)
                                return r;
                        p->ends[p->n++] = (struct peer_end){
                                .process = q,
                                .socket = s,
                                .host = host,
                                .peer = PEER_NONE,
                                .peer_host = PEER_NONE,
                                .moved = old && (old->bytes_received != s->bytes_received ||
                                                 old->bytes_acked != s->bytes_acked),
                        };
                }
        }
        return 0;
}

/* --- Matching --------------------------------------------------------------------------------------- */

/* What both ends of a connection have in common: two numbers of which either end has one as its own. */
struct match_key {
        uint64_t a, b;  /* the smaller one first */
        uint64_t place; /* of loopback: the host + 1 */
        uint32_t end;
        bool swapped; /* a is the end's remote */
};

static int compare_keys(const struct match_key *a, const struct match_key *b) {
        return COMPARE(a->a, b->a) ?: COMPARE(a->b, b->b) ?: COMPARE(a->place, b->place);
}

static int compare_whole(const void *x, const void *y) {
        const struct match_key *a = x, *b = y;

        return compare_keys(a, b) ?: COMPARE(a->end, b->end);
}

static struct match_key key_of(uint64_t own, uint64_t other, uint64_t place, uint32_t end) {
        return (struct match_key){ MIN(own, other), MAX(own, other), place, end, own > other };
}

/* Two that have a key in common, from either side, are the ends of one connection; more are nobody's. */
static void join_ends(struct peers *p, struct match_key *keys, size_t n) {
        if (n > 1)
                qsort(keys, n, sizeof(*keys), compare_whole);
        for (size_t i = 0, k; i < n; i = k) {
                for (k = i + 1; k < n && compare_keys(&keys[i], &keys[k]) == 0; k++)
                        ;
                if (k != i + 2 || (keys[i].swapped == keys[i + 1].swapped && keys[i].a != keys[i].b))
                        continue;
                p->ends[keys[i].end].peer = keys[i + 1].end;
                p->ends[keys[i + 1].end].peer = keys[i].end;
        }
}

static void join_by_address(struct peers *p, const struct stack_table *t, struct match_key *keys) {
        for (uint32_t i = 0; i < p->n; i++) {
                const struct captured_socket *s = p->ends[i].socket;
                bool here = address_is_loopback(stack_table_text(t, s->local));

                keys[i] = key_of(s->local, s->remote, here ? p->ends[i].host + 1 : 0, i);
        }
        join_ends(p, keys, p->n);
}

static void join_by_bytes(struct peers *p, struct match_key *keys) {
        size_t n = 0;

        for (uint32_t i = 0; i < p->n; i++) {
                const struct captured_socket *s = p->ends[i].socket;

                if (p->ends[i].peer == PEER_NONE && s->bytes_acked >= PEER_NAT_BYTES &&
                    s->bytes_received >= PEER_NAT_BYTES)
                        keys[n++] = key_of(s->bytes_acked, s->bytes_received, 0, i);
        }
        join_ends(p, keys, n);
}

/* --- Hosts by address ------------------------------------------------------------------------------- */

struct named_host {
        struct address_text address;
        uint32_t host;
};

static int compare_names(const void *x, const void *y) {
        const struct named_host *a = x, *b = y;

        return compare_addresses(a->address, b->address) ?: COMPARE(a->host, b->host);
}

static int list_addresses(struct peers *p, const struct seen_hosts *all) {
        struct named_host *list = calloc(all->n * (CAPTURE_OWN_MAX + 1) + 1, sizeof(*list));
        size_t n = 0;

        if (!list)
                return -ENOMEM;
        for (uint32_t i = 0; i < all->n; i++) {
                const struct host_capture *who = all->items[i].who, *c = all->items[i].last;

                if (who && who->address[0])
                        list[n++] = (struct named_host){ { who->address, strlen(who->address) }, i };
                for (size_t k = 0; c && k < c->n_own; k++) {
                        const char *blank = strchr(stack_table_text(&all->scene->table, c->own[k]), ' ');

                        if (blank && blank[1])
                                list[n++] = (struct named_host){ { blank + 1, strlen(blank + 1) }, i };
                }
        }
        if (n > 1)
                qsort(list, n, sizeof(*list), compare_names);
        p->names = list;
        p->n_names = n;
        return 0;
}

int compare_addresses(struct address_text a, struct address_text b) {
        return memcmp(a.s, b.s, MIN(a.len, b.len)) ?: COMPARE(a.len, b.len);
}

struct address_text address_alone(const char *text) {
        const char *colon = strrchr(text, ':'), *end;

        text += text[0] == '[';
        end = strchr(text, ']') ?: colon;
        return (struct address_text){ text, colon && end > text ? (size_t) (end - text) : 0 };
}

uint32_t peers_host_of(const struct peers *p, struct address_text address) {
        const struct named_host *list = p->names;
        size_t n = p->n_names, at = SORTED_PLACE(n, i, compare_addresses(list[i].address, address) < 0);

        return at < n && compare_addresses(list[at].address, address) == 0 ? list[at].host : PEER_NONE;
}

static int find_hosts(struct peers *p, const struct seen_hosts *all) {
        int r = list_addresses(p, all);

        for (size_t i = 0; i < p->n && r == 0; i++) {
                struct peer_end *end = &p->ends[i];
                const char *remote = stack_table_text(&all->scene->table, end->socket->remote);

                if (end->peer != PEER_NONE)
                        end->peer_host = p->ends[end->peer].host;
                else if (address_is_loopback(remote))
                        end->peer_host = end->host;
                else
                        end->peer_host = peers_host_of(p, address_alone(remote));
        }
        return r;
}

int peers_gather(struct peers *p, const struct seen_hosts *all) {
        _cleanup_free_ struct match_key *keys = NULL;
        int r = 0;

        p->first = calloc(all->n + 1, sizeof(*p->first));
        if (!p->first)
                return -ENOMEM;
        for (uint32_t i = 0; i < all->n && r == 0; i++) {
                r = add_ends(p, &all->items[i], i);
                p->first[i + 1] = (uint32_t) p->n;
        }
        keys = r == 0 ? calloc(p->n + 1, sizeof(*keys)) : NULL;
        if (!keys)
                return r < 0 ? r : -ENOMEM;
        join_by_address(p, &all->scene->table, keys);
        join_by_bytes(p, keys);
        return find_hosts(p, all);
}

const struct peer_end *peers_find(const struct peers *p, uint32_t host, uint64_t inode) {
        for (uint32_t i = p->first[host]; inode != 0 && i < p->first[host + 1]; i++)
                if (p->ends[i].socket->inode == inode)
                        return &p->ends[i];
        return NULL;
}

bool peers_watched(const struct peers *p, uint32_t host, const struct host_capture *c,
                   const struct captured_thread *t) {
        for (uint32_t k = 0; k < MIN(t->n_waits, WATCHED_MAX); k++) {
                const struct captured_wait *w = &c->waits[t->first_wait + k];
                const struct peer_end *end = w->kind == WAIT_SOCKET ? peers_find(p, host, w->number) : NULL;

                if (end && end->peer_host != PEER_NONE && end->peer_host != host)
                        return true;
        }
        return false;
}

bool peer_end_lost(const struct peers *p, const struct peer_end *end) {
        const struct captured_socket *s = end->socket;
        bool read = end->peer != PEER_NONE && p->ends[end->peer].socket->unread == 0;

        if (end->moved || end->peer_host == PEER_NONE || end->peer_host == end->host)
                return false;
        return s->unacknowledged > 0 && (s->retransmits >= RETRANSMITS_LOST ||
                                         (read && s->sent_ms >= SILENT_MS && s->sent_ms != SOCKET_MS_NONE));
}
