/* SPDX-License-Identifier: Apache-2.0 */
#include "net_drops.h"

#include <math.h>

#include "probe.h"

/* --- Time to connect ----------------------------------------------------------------------------------- */

static void put_connect_time(const struct net_counts *c, struct sink *s) {
        put_buckets(s, METRIC_KERNEL_CONNECT_TIME, c->connect_histogram, NET_CONNECT_BUCKETS, c->connect_ns,
                    NULL, NULL);
}

/* --- Drops --------------------------------------------------------------------------------------------- */

void net_drop_reason(const struct net_figures *f, const struct net_drop *d,
                     char ret[static NET_REASON_NAME]) {
        if (d->reason < NET_REASONS && f->reasons[d->reason][0])
                (void) snprintf(ret, NET_REASON_NAME, "%.*s", NET_REASON_NAME - 1, f->reasons[d->reason]);
        else if (d->reason > 0)
                (void) snprintf(ret, NET_REASON_NAME, "%u", d->reason);
        else
                ret[0] = '\0';
}

/* Of "function+0x12/0x34 [module]" the function: where in it is another number in every build of a
 * kernel. */
void net_drop_place(const struct net_drop *d, char ret[static NET_SYMBOL]) {
        size_t n = strnlen(d->symbol, NET_SYMBOL - 1);
        const char *plus = memchr(d->symbol, '+', n);

        if (n > 0)
                (void) snprintf(ret, NET_SYMBOL, "%.*s", (int) (plus ? (size_t) (plus - d->symbol) : n),
                                d->symbol);
        else
                (void) snprintf(ret, NET_SYMBOL, "0x%llx", d->location);
}

uint64_t net_uncounted(const struct net_figures *f) {
        return f->peers_lost + f->drops_lost + f->connects_lost;
}

uint64_t net_dropped(const struct net_figures *f) {
        uint64_t n = f->drops_lost;

        for (size_t i = 0; i < NET_DROPS; i++)
                n += net_drop_packets(f, i);
        return n;
}

static void put_drops(const struct net_figures *f, struct sink *s) {
        uint64_t others = f->drops_lost;
        size_t n = 0;

        for (size_t i = 0; i < NET_DROPS; i++) {
                const struct net_drop *d = &f->dropped[i];
                char reason[NET_REASON_NAME], place[NET_SYMBOL];

                if (__atomic_load_n(&f->drop_use[i], __ATOMIC_ACQUIRE) != NET_USED)
                        continue;
                if (++n > NET_DROP_SERIES) {
                        others += net_drop_packets(f, i);
                        continue;
                }
                net_drop_reason(f, d, reason);
                net_drop_place(d, place);
                put_uint(s, METRIC_KERNEL_DROPS, net_drop_packets(f, i), reason, place, NULL);
        }
        if (others > 0)
                put_uint(s, METRIC_KERNEL_DROPS, others, "other", "", NULL);
}

const struct net_drop_meaning *net_drop_meaning(const struct net_figures *f, const struct net_drop *d) {
        /* Names of include/net/dropreason-core.h; its comments say when each happens. */
        static const struct net_drop_meaning meanings[] = {
                { "SOCKET_RCVBUFF",
                  "the receive buffer of a socket was full: its program does not read fast enough",
                  "ss -tunmp; sysctl net.ipv4.tcp_rmem net.core.rmem_max" },
                { "SOCKET_BACKLOG", "the backlog of a socket was full while its program held it",
                  "ss -tmp; nstat -az TcpExtTCPBacklogDrop" },
                { "PROTO_MEM", "TCP or UDP was out of memory for all sockets together",
                  "sysctl net.ipv4.tcp_mem; cat /proc/net/sockstat" },
                { "CPU_BACKLOG", "a CPU's queue of received packets was full",
                  "sysctl net.core.netdev_max_backlog; cat /proc/net/softnet_stat" },
                { "FULL_RING", "a ring of a network device was full", "ethtool -g; ethtool -S" },
                { "NOMEM", "the kernel had no memory for a packet", "cat /proc/buddyinfo; dmesg | tail" },
                { "QDISC_DROP", "a queueing discipline was full", "tc -s qdisc" },
                { "NEIGH_FAILED", "the next host did not answer address resolution", "ip neigh" },
                { "NEIGH_QUEUEFULL", "too many packets waited for address resolution", "ip neigh" },
                { "PKT_TOO_BIG", "packets were larger than the path's MTU", "tpuctl check path; ip link" },
                { "TCP_CSUM", "TCP checksums were wrong: packets are damaged in transit",
                  "ethtool -S; ethtool -k" },
                { "UDP_CSUM", "UDP checksums were wrong: packets are damaged in transit",
                  "ethtool -S; ethtool -k" },
                { "IP_CSUM", "IP checksums were wrong: packets are damaged in transit",
                  "ethtool -S; ethtool -k" },
                { "IP_RPFILTER", "packets came in by another NIC than answers would go out by",
                  "tpuctl check rp_filter; ip route" },
        };
        char reason[NET_REASON_NAME];

        net_drop_reason(f, d, reason);
        for (size_t i = 0; i < ELEMENTSOF(meanings); i++)
                if (streq(meanings[i].reason, reason))
                        return &meanings[i];
        return NULL;
}

void net_drop_samples(const struct net_figures *f, struct sink *s) {
        put_connect_time(&f->all, s);
        put_drops(f, s);
        if (f->drops_unplaced > 0)
                put_uint(s, METRIC_KERNEL_DROPS_UNPLACED, f->drops_unplaced, NULL, NULL,
                        NULL);
        put_uint(s, METRIC_KERNEL_NET_LOST, net_uncounted(f), NULL, NULL, NULL);
}
