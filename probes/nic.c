/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <net/if_arp.h>

#include "neighbour.h"
#include "nic_setting.h"
#include "contested.h"
#include "plan.h"
#include "tpu_sysfs.h"
#include "words.h"

/* Checks nic.feature and nic.private_flag: the settings of data-centre NICs that the profile wants.
 * -ENOMEM. */
static int look_at_settings(const struct host *h, const struct intent *i, struct found *f, struct sink *s) {
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;
        int r;

        f->nic_settings_error = nic_settings_read(h, i, &f->links, &f->nic_settings);
        r = plan_judge_nic_settings(i, f, &list); /* the same words as tpu-netcfg's */
        if (r == 0)
                probe_tell_all(h, s, &list);
        return r;
}

/* The device behind a data-centre NIC: driver, speed and queues by sysfs, and how many NICs there should
 * be. */

#define NET "/sys/class/net"

struct queues {
        unsigned rx, tx;
};

static int count_queue(const char *name, void *userdata) {
        struct queues *q = userdata;

        q->rx += startswith(name, "rx-");
        q->tx += startswith(name, "tx-");
        return 0;
}

/*
 * nic.driver, nic.speed and nic.queues, as far as there is a device (a veth has none) and it says so:
 * reported for comparison between hosts, judged by nobody, since no source wants a value.
 */
static void nic_look_at_device(const struct host *h, const char *nic, struct sink *s) {
        struct queues q = { 0 };
        char path[128], text[64], why[256];
        uint64_t mbit;
        int r;

        (void) snprintf(path, sizeof(path), NET "/%s/device/driver", nic);
        r = host_link_name(h, path, text, sizeof(text));
        if (r == -ENOENT)
                return; /* a veth has no device */
        (void) snprintf(why, sizeof(why), "%s cannot be read: %s", path, strerror(-r));
        probe_tell(s, r == 0 ? WORDS_NIC_DRIVER : WORDS_NIC_DRIVER_UNREADABLE, nic, why, "%s",
                   r == 0 ? text : "");
        (void) snprintf(path, sizeof(path), NET "/%s/speed", nic);
        /* A driver that does not know its speed answers -1, or an error. */
        if (host_read_u64(h, path, &mbit) == 0 && mbit > 0 && mbit < 10000000)
                probe_tell(s, WORDS_NIC_SPEED, nic, NULL, "%" PRIu64 " Mbit/s", mbit);
        (void) snprintf(path, sizeof(path), NET "/%s/queues", nic);
        if (host_list(h, path, count_queue, &q) == 0 && q.rx + q.tx > 0)
                probe_tell(s, WORDS_NIC_QUEUES, nic, NULL, "%u receive, %u transmit", q.rx, q.tx);
}

/* nic.count: found (at least 1) against the machine type. */
static void nic_check_count(const struct host *h, size_t found, const struct probe_context *c,
                            struct sink *s) {
        struct machine_type m = { 0 };
        struct finding f;

        (void) machine_of(h, c, &m); /* unknown: no number is wanted */
        finding_init(&f, "nic.count", NULL);
        finding_set(f.found, "%zu", found);
        f.verdict = VERDICT_OK;
        if (m.nics > 0) {
                finding_set(f.wanted, "%u", m.nics);
                finding_set(f.source, "%s", m.source);
        }
        if (found < m.nics)
                check_say(&f, WORDS_NIC_FEW);
        s->finding(s, &f);
}

/* nic.count of Nics=, in the same words as tpu-netcfg's. */
static void check_names(const struct probe_context *c, const struct link_table *t, struct sink *s) {
        struct finding f;

        if (!c->intent || c->intent->no_tpu || !intent_judge_names(c->intent, t, &f))
                return;
        (void) make_printable(f.found);
        s->finding(s, &f);
}

/* Every data-centre NIC: link, carrier, MTU against the rule and its other settings. */

static void check_mtu(const struct host *h, const struct probe_context *c, const struct link *l,
                      const char *nic, struct sink *s) {
        struct finding f;

        if (l->mtu == 0)
                probe_tell(s, WORDS_NIC_MTU_UNSAID, nic, NULL, "%s", "");
        else if (!c->intent)
                probe_tell(s, WORDS_NIC_MTU_NO_PROFILE, nic, NULL, "%u", l->mtu);
        else {
                intent_judge_mtu(c->intent, l, &f); /* the same words as tpu-netcfg's */
                (void) make_printable(f.subject);
                contested_explain(h, &f);
                s->finding(s, &f);
        }
}

#define ARP_NEVER 8 /* ip-sysctl.rst, arp_ignore: "do not reply for all local addresses" */

/* The kernel takes the greater of both. */
static bool answers_no_arp(const struct host *h, const char *nic) {
        const char *const of[] = { "all", nic };

        for (size_t i = 0; i < ELEMENTSOF(of); i++) {
                char path[80];
                uint64_t v;

                (void) snprintf(path, sizeof(path), "/proc/sys/net/ipv4/conf/%s/arp_ignore", of[i]);
                if (host_read_u64(h, path, &v) == 0 && v == ARP_NEVER)
                        return true;
        }
        return false;
}

static void look_at(const struct host *h, const struct probe_context *c, const struct link *l,
                    struct sink *s) {
        char nic[IF_NAMESIZE], xdp[16];
        bool mute;

        memcpy(nic, l->name, sizeof(nic));
        nic[sizeof(nic) - 1] = '\0';
        mute = answers_no_arp(h, nic);
        (void) make_printable(nic);
        (void) snprintf(xdp, sizeof(xdp), "%" PRIu32, l->xdp);
        probe_tell(s,
                   !l->up      ? WORDS_NIC_DOWN :
                   l->no_arp   ? WORDS_NIC_NO_ARP :
                   !l->carrier ? WORDS_NIC_NO_CARRIER :
                   mute        ? WORDS_NIC_ARP_IGNORED :
                   l->xdp > 0  ? WORDS_NIC_LINK_XDP :
                                 WORDS_NIC_LINK,
                   nic, xdp, "%s",
                   !l->up      ? "down" :
                   l->no_arp   ? "up, without ARP" :
                   !l->carrier ? "up, no carrier" :
                   mute        ? "up, answers no ARP" :
                   l->xdp > 0  ? "up, with an XDP program" :
                                 "up");
        check_mtu(h, c, l, nic, s);
        put_int(s, METRIC_NIC_UP, l->up && l->carrier, nic, nic, NULL);
        if (l->mtu != 0)
                put_int(s, METRIC_NIC_MTU, l->mtu, nic, NULL, NULL);
        nic_look_at_device(h, nic, s);
}

static bool has_address(const struct address_table *t, int index) {
        for (size_t i = 0; i < t->n; i++)
                if (t->addresses[i].index == index)
                        return true;
        return false;
}

/* A NIC that somebody put into a bridge, a bond or a VRF is none of ours any more; with addresses it was. */
static void look_at_ports(const struct host *h, const struct link_table *t, struct sink *s) {
        struct address_table addresses = { 0 };

        if (addresses_read(h, &addresses) < 0)
                return;
        for (size_t i = 0; i < t->n; i++) {
                const struct link *l = &t->links[i], *master = link_by_index(t, l->master);
                bool vrf = master && streq(master->kind, "vrf");
                struct link alone = *l;

                alone.master = 0;
                if (l->master != 0 && master && link_is_data_nic(&alone) &&
                    has_address(&addresses, l->index))
                        probe_tell(s, vrf ? WORDS_NIC_IN_VRF : WORDS_NIC_PORT, l->name, master->name,
                                   "a port of %s (%s)", master->name, master->kind);
        }
        address_table_clear(&addresses);
}

/* While one port of a bond is up the bond is, too, and carries as much less as the others did. */
static void look_at_bonds(const struct probe_context *c, const struct link_table *t, struct sink *s) {
        for (size_t i = 0; c->intent && i < t->n; i++) {
                const struct link *l = &t->links[i], *bond = link_by_index(t, l->master);

                if (bond && (streq(bond->kind, "bond") || streq(bond->kind, "team")) &&
                    intent_is_data_nic(c->intent, bond) && (!l->up || !l->carrier))
                        probe_tell(s, l->up ? WORDS_NIC_PORT_NO_CARRIER : WORDS_NIC_PORT_DOWN, l->name,
                                   bond->name, "%s", l->up ? "up, no carrier" : "down");
        }
}

/* An address that is not there cannot be bound. */
static bool has_localhost(void) {
        const struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        _cleanup_close_ int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

        return fd < 0 || bind(fd, (const struct sockaddr *) &a, sizeof(a)) == 0 || errno != EADDRNOTAVAIL;
}

/* lo carries what the programs of this host say to each other. */
static void look_at_loopback(const struct host *h, const struct link_table *t, struct sink *s) {
        for (size_t i = 0; i < t->n; i++) {
                const struct link *l = &t->links[i];

                if (l->arp_type == ARPHRD_LOOPBACK && !l->up)
                        probe_tell(s, WORDS_LOOPBACK_DOWN, l->name, NULL, "down");
                else if (l->arp_type == ARPHRD_LOOPBACK && h->real_root && !has_localhost())
                        probe_tell(s, WORDS_LOOPBACK_BARE, l->name, NULL, "no address");
        }
}

/* nic.qdisc. */
static void look_at_qdiscs(const struct host *h, const struct probe_context *c, const struct link_table *t,
                           struct sink *s) {
        _cleanup_qdiscs_ struct qdisc_table q = QDISC_TABLE_NULL;
        struct finding f;
        int r = qdiscs_read(h, &q);

        if (r < 0 && r != -ENODATA) /* a recorded machine without them */
                probe_tell(s, WORDS_NIC_QDISC_UNREAD, NULL, strerror(-r), "%s", "");
        if (r < 0)
                return;
        for (size_t i = 0; i < t->n; i++) {
                const struct link *l = &t->links[i];
                bool data = c->intent ? intent_carries_data(c->intent, t, l) : link_is_data_nic(l);

                if (!data || !nic_qdisc_judge(&q, l, &f))
                        continue;
                (void) make_printable(f.subject);
                (void) make_printable(f.found);
                s->finding(s, &f);
        }
}

/* nic.gateway, as far as the kernel has asked for it: no packet is sent for this. */
static void look_at_gateway(const struct host *h, const struct route *r, const char *nic, struct sink *s) {
        char address[INET6_ADDRSTRLEN];
        struct neighbour n;

        if (neighbour_read(h, r->hops[0], r->gateway_family, r->gateway, &n) < 0 ||
            !inet_ntop(r->gateway_family, r->gateway, address, sizeof(address)))
                return;
        probe_tell(s,
                   neighbour_is_silent(&n) ? WORDS_GATEWAY_SILENT :
                   neighbour_is_fixed(&n)  ? WORDS_GATEWAY_FIXED :
                                             WORDS_GATEWAY,
                   nic, address, "%s%s", address, neighbour_is_silent(&n) ? " is silent" : "");
}

static void look_at_gateways(const struct host *h, const struct probe_context *c, const struct link_table *t,
                             struct sink *s) {
        _cleanup_routes_ struct route_table routes = ROUTE_TABLE_NULL;

        if (!h->real_root || routes_read(h, &routes) < 0)
                return;
        for (size_t i = 0; i < routes.n; i++) {
                const struct route *r = &routes.routes[i];
                const struct link *l = r->n_hops == 1 ? link_by_index(t, r->hops[0]) : NULL;

                if (l && route_is_default(r) && r->has_gateway &&
                    (c->intent ? intent_is_data_nic(c->intent, l) : link_is_data_nic(l)))
                        look_at_gateway(h, r, l->name, s);
        }
}

int probe_nic(const struct host *h, const struct probe_context *c, struct sink *s) {
        _cleanup_found_ struct found f = FOUND_NULL;
        const struct link_table *t = &f.links;
        char n_links[24];
        size_t found = 0;
        int r = links_read(h, &f.links);

        if (r < 0)
                return r;
        for (size_t i = 0; i < t->n; i++)
                if (c->intent ? intent_is_data_nic(c->intent, &t->links[i])
                              : link_is_data_nic(&t->links[i])) {
                        look_at(h, c, &t->links[i], s);
                        found++;
                }
        check_names(c, t, s);
        look_at_loopback(h, t, s);
        look_at_ports(h, t, s);
        look_at_bonds(c, t, s);
        look_at_qdiscs(h, c, t, s);
        look_at_gateways(h, c, t, s);
        (void) snprintf(n_links, sizeof(n_links), "%zu", t->n);
        if (found == 0)
                probe_tell(s, WORDS_NO_DATA_NIC, NULL, n_links, "no data-centre NIC");
        else
                nic_check_count(h, found, c, s);
        return c->intent ? look_at_settings(h, c->intent, &f, s) : 0;
}
