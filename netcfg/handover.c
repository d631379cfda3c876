/* SPDX-License-Identifier: Apache-2.0 */
#include <pwd.h>

#include "io.h"
#include "handover.h"
#include "local.pb-c.h"
#include "log.h"
#include "network.h"
#include "paths.h"
#include "texts.h"

#define WHY_MAX 160

uid_t handover_user(const struct host *h) {
        _cleanup_fclose_ FILE *f = NULL;
        const struct passwd *p;

        if (host_open_stream(h, "/etc/passwd", &f) < 0)
                return (uid_t) -1;
        while ((p = fgetpwent(f)))
                if (streq(p->pw_name, USER_HOSTD))
                        return p->pw_uid;
        return (uid_t) -1;
}

bool handover_permits(uid_t uid, uid_t hostd) {
        return uid == 0 || (hostd != (uid_t) -1 && uid == hostd);
}

struct answer {
        uint32_t taken;
        bool changed;
        size_t n_refused;
        char refused[INTENT_NETWORKS_MAX][WHY_MAX];
        char *lines[INTENT_NETWORKS_MAX];
};

/*
 * The MTU of a NIC is changed so often on tpu-hostd's word (intent_network.moved), and then no more within
 * the hour: each change sets the NIC's queues up anew. Whoever owns hostd shall not own the host's NICs.
 */
#define MOVES_WINDOW (3600 * USEC_PER_SEC)

static int note_move(const struct intent *i, struct intent_network *offer, usec_t now, char *why) {
        const struct intent_network *known = intent_network_of(i, offer->mac);
        size_t last = ELEMENTSOF(offer->moved) - 1;

        if (!known)
                return 0;
        memcpy(offer->moved, known->moved, sizeof(offer->moved));
        if (known->mtu == offer->mtu)
                return 0;
        if (offer->moved[0] > 0 && now - offer->moved[0] < MOVES_WINDOW) {
                char mac[MAC_TEXT_MAX];

                return text_fail(why, WHY_MAX, -EBUSY,
                                 "NIC %s: %u instead of %u: changed %zu times within an hour already",
                                 mac_text(offer->mac, mac), offer->mtu, known->mtu,
                                 ELEMENTSOF(offer->moved));
        }
        memmove(offer->moved, offer->moved + 1, last * sizeof(offer->moved[0]));
        offer->moved[last] = now;
        return 0;
}

static bool same_networks(const struct intent *a, const struct intent *b) {
        bool same = a->n_networks == b->n_networks;

        for (size_t k = 0; same && k < a->n_networks; k++)
                same = memcmp(a->networks[k].mac, b->networks[k].mac, sizeof(a->networks[k].mac)) == 0 &&
                       a->networks[k].mtu == b->networks[k].mtu &&
                       streq(a->networks[k].source, b->networks[k].source);
        return same;
}

static void take_network(struct intent *i, const struct link_table *t, const Local__NetworkMtuEntry *e,
                     usec_t now, struct answer *a) {
        struct intent_network offer = { .mtu = e->mtu };
        char *why = a->refused[a->n_refused];
        int r = -EINVAL;

        if (e->mac.len != sizeof(offer.mac))
                (void) snprintf(why, WHY_MAX, "a MAC address of %zu bytes", e->mac.len);
        else if (strlen(e->source) >= sizeof(offer.source))
                (void) snprintf(why, WHY_MAX, "a source of %zu bytes", strlen(e->source));
        else {
                memcpy(offer.mac, e->mac.data, sizeof(offer.mac));
                memcpy(offer.source, e->source, strlen(e->source) + 1);
                r = note_move(i, &offer, now, why);
                if (r == 0)
                        r = intent_networks_take(i, t, &offer, why);
        }
        if (r == 0) {
                a->taken++;
                return;
        }
        log_warning("tpu-hostd's network MTU is refused: %s", why);
        a->lines[a->n_refused++] = why;
}

/* Kept over our own restarts; without the file it holds until the next one. */
static void save_networks(const struct netcfg *n) {
        char text[INTENT_NETWORKS_TEXT_MAX];
        int r = intent_networks_format(&n->intent, n->boot_id, text);

        if (r >= 0)
                r = durable_write(n->runtime_fd, INTENT_NETWORKS_FILE, text, (size_t) r, 0644);
        if (r < 0)
                (void) log_warning_errno(r, PATH_NETCFG_RUNTIME
                                         "/" INTENT_NETWORKS_FILE
                                         " cannot be written, a restart will forget it: %m");
}

static int take_all(struct netcfg *n, const Local__NetworkMtu *m, struct answer *a) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;
        struct intent before = n->intent;
        int r;

        r = links_read(&n->host, &links);
        if (r < 0)
                return r;
        for (size_t k = 0; k < m->n_entry; k++)
                take_network(&n->intent, &links, m->entry[k], host_now(&n->host), a);
        a->changed = !same_networks(&before, &n->intent);
        if (a->changed)
                save_networks(n);
        return 0;
}

int handover_take(struct netcfg *n, struct frame_peer *p, const struct frame *f, const char **ret_why) {
        Local__NetworkMtuReply reply = LOCAL__NETWORK_MTU_REPLY__INIT;
        Local__NetworkMtu *m = local__network_mtu__unpack(NULL, f->len, f->data);
        struct answer a = { 0 };
        int r = -EBADMSG;

        if (m && m->n_entry <= INTENT_NETWORKS_MAX)
                r = take_all(n, m, &a);
        if (m)
                local__network_mtu__free_unpacked(m, NULL);
        if (r < 0)
                *ret_why = r == -EBADMSG ? "not a NetworkMtu message with at most 32 entries" :
                                           "the NICs of this host cannot be read";
        if (r < 0)
                return r;
        reply.taken = a.taken;
        reply.n_refused = a.n_refused;
        reply.refused = a.lines;
        r = frame_peer_send(p, LOCAL__KIND__KIND_NETWORK_MTU_REPLY, &reply.base);
        return a.changed ? 1 : r; /* planned with, whether or not the sender still listens */
}
