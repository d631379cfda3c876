/* SPDX-License-Identifier: Apache-2.0 */
#include "paths.h"

#include "grow.h"

#define FINDINGS_OF_HOST 64u
#define OWNERS_MAX 8u /* ends whose owner is looked for by the hosts' own addresses */

struct text {
        const char *s;
        size_t len;
};

/* One connection, seen from `local`. */
struct pair {
        struct text local, peer;
        uint32_t host;
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

static int compare_texts(struct text a, struct text b) {
        int r = memcmp(a.s, b.s, MIN(a.len, b.len));

        return r != 0 ? r : a.len < b.len ? -1 : a.len > b.len;
}

/* By their two addresses, whichever of them is the local one. */
static int compare_pairs(const void *x, const void *y) {
        const struct pair *a = x, *b = y;
        int r = compare_texts(a->local, b->local);

        return r != 0 ? r : compare_texts(a->peer, b->peer);
}

static int add_pair(struct pairs *p, struct text local, struct text peer, uint32_t host) {
        int r = grow(&p->items, &p->size, p->n + 1, sizeof(*p->items));

        if (r == 0)
                p->items[p->n++] = (struct pair) { local, peer, host };
        return r;
}

/* Both directions, so that each end has all of its own side by side. */
static int gather(const struct evidence *e, struct pairs *p) {
        static const char start[] = "from ";
        int r = 0;

        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const struct host_capture *c = e->hosts[i].last;

                for (size_t k = 0; c && k < MIN(c->n_findings, (size_t) FINDINGS_OF_HOST) && r == 0; k++) {
                        const struct captured_finding *f = &c->findings[k];
                        const char *found = stack_table_text(&e->scene->table, f->found),
                                   *peer = stack_table_text(&e->scene->table, f->subject);
                        struct text local = { found + sizeof(start) - 1, 0 };

                        if (!streq(stack_table_text(&e->scene->table, f->check), PATH_CHECK) ||
                            !startswith(found, start))
                                continue;
                        local.len = strcspn(local.s, ",");
                        r = add_pair(p, local, (struct text) { peer, strlen(peer) }, i);
                        if (r == 0)
                                r = add_pair(p, (struct text) { peer, strlen(peer) }, local, STACK_NONE);
                }
        }
        return r;
}

/* Whose address it is when no connection of its own says so: the address that a host is known by. */
static uint32_t owner(const struct evidence *e, const struct path_end *end) {
        for (uint32_t i = 0; i < e->n_hosts; i++) {
                const char *address = e->hosts[i].who ? e->hosts[i].who->address : "";

                if (strlen(address) == end->len && memcmp(address, end->address, end->len) == 0)
                        return i;
        }
        return STACK_NONE;
}

static void count_ends(const struct pairs *p, struct paths *ret) {
        for (size_t i = 0; i < p->n; i++) {
                const struct pair *a = &p->items[i];
                bool same_end = i > 0 && compare_texts(a[-1].local, a->local) == 0;
                struct path_end *end;

                if (!same_end)
                        ret->ends[ret->n++] = (struct path_end) { a->local.s, a->local.len, STACK_NONE, 0 };
                end = &ret->ends[ret->n - 1];
                end->missing += !same_end || compare_texts(a[-1].peer, a->peer) != 0;
                end->host = MIN(end->host, a->host); /* STACK_NONE is the greatest */
        }
}

/* Who misses most, over all and of each host. */
static void rank_ends(const struct evidence *e, struct paths *p) {
        size_t asked = 0;

        for (size_t i = 0; i < p->n; i++) {
                struct path_end *end = &p->ends[i];

                if (end->host == STACK_NONE && asked++ < OWNERS_MAX)
                        end->host = owner(e, end);
        }
        for (size_t i = 0; i < p->n; i++) { /* a machine that everyone misses is no host's fault */
                uint32_t missing = p->ends[i].host == STACK_NONE ? 0 : p->ends[i].missing;

                p->n_most = missing > p->most ? 1 : p->n_most + (missing == p->most);
                p->most = MAX(p->most, missing);
        }
        for (size_t i = 0; i < p->n; i++) {
                struct path_end *end = &p->ends[i];

                if (end->host != STACK_NONE &&
                    (!p->worst[end->host] || end->missing > p->worst[end->host]->missing))
                        p->worst[end->host] = end;
        }
}

int paths_survey(const struct evidence *e, struct paths *ret) {
        struct paths found = PATHS_NULL;
        struct pairs p = { 0 };
        int r = gather(e, &p);

        if (r == 0) {
                found.ends = calloc(p.n + 1, sizeof(*found.ends));
                found.worst = calloc(e->n_hosts + 1, sizeof(struct path_end *));
                r = found.ends && found.worst ? 0 : -ENOMEM;
        }
        if (r == 0 && p.n > 0) {
                qsort(p.items, p.n, sizeof(*p.items), compare_pairs);
                count_ends(&p, &found);
                rank_ends(e, &found);
        }
        free(p.items);
        if (r < 0)
                paths_clear(&found);
        else
                *ret = found;
        return r;
}
