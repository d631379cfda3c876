/* SPDX-License-Identifier: Apache-2.0 */
#include "net_rows.h"

#include <arpa/inet.h>

#include "grow.h"

#define OTHER "other"

void net_address_text(const __u64 address[static 2], char ret[static NET_ROW_NAME]) {
        struct in6_addr a;

        memcpy(&a, address, sizeof(a));
        if (IN6_IS_ADDR_V4MAPPED(&a))
                (void) inet_ntop(AF_INET, &a.s6_addr[12], ret, NET_ROW_NAME);
        else
                (void) inet_ntop(AF_INET6, &a, ret, NET_ROW_NAME);
}

/* --- Rows ---------------------------------------------------------------------------------------------- */

static int add_row(struct net_rows *r, const struct net_name *w) {
        int error = grow(&r->rows, &r->size, r->n + 1, sizeof(*r->rows));

        if (error >= 0)
                r->rows[r->n++] = (struct net_row){ .name = *w };
        return error;
}

static bool same_name(const struct net_name *a, const struct net_name *b) {
        return streq(a->peer, b->peer) && streq(a->nic, b->nic) && streq(a->job, b->job);
}

/* What has no row of its own is the first's. */
static struct net_row *find_row(struct net_rows *r, const struct net_name *w) {
        for (size_t i = 1; i < r->n; i++)
                if (same_name(&r->rows[i].name, w))
                        return &r->rows[i];
        return r->n <= NET_ROWS_MAX && add_row(r, w) == 0 ? &r->rows[r->n - 1] : &r->rows[0];
}

static void add_counts(struct net_row *row, const struct net_counts *c) {
        for (size_t k = 0; k < _NET_RETRANSMIT_MAX; k++)
                row->retransmits[k] += c->retransmits[k];
        row->timeouts += c->events[NET_RTO];
        row->resets_sent += c->resets_sent;
        row->resets_received += c->resets_received;
        row->connects += c->connects;
        row->connect_failures += c->connect_failures;
}

static void forget_unseen(struct net_rows *r) {
        size_t kept = 1;

        for (size_t i = 1; i < r->n; i++)
                if (r->rows[i].look == r->look)
                        r->rows[kept++] = r->rows[i];
        r->n = kept;
}

int net_rows_look(struct net_rows *r, const struct net_figures *f, net_name_t name, void *userdata) {
        static const struct net_name others = { .peer = OTHER };
        int error = r->n == 0 ? add_row(r, &others) : 0;

        if (error < 0)
                return error;
        r->look++;
        for (size_t i = 0; i < r->n; i++)
                r->rows[i] = (struct net_row){ .name = r->rows[i].name, .look = r->rows[i].look };
        for (size_t i = 0; i < NET_PEERS; i++) {
                struct net_name w = { .peer = "" };
                struct net_row *row;

                if (__atomic_load_n(&f->peer_use[i], __ATOMIC_ACQUIRE) != NET_USED)
                        continue;
                name(&f->peers[i].key, &w, userdata);
                row = find_row(r, &w);
                row->look = r->look;
                add_counts(row, &f->peers[i].counts);
        }
        forget_unseen(r);
        return 0;
}

void net_rows_clear(struct net_rows *r) {
        free(r->rows);
        *r = (struct net_rows){ 0 };
}
