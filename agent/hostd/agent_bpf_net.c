/* SPDX-License-Identifier: Apache-2.0 */
/* The network's figures of BPF in the tick: metrics, and an event where drops tell of a shortage or a fault. */
#include <netinet/in.h>
#include <sys/socket.h>

#include "agent_bpf.h"
#include "agent_net.h"
#include "log.h"
#include "net_samples.h"

#define DROPS_TOLD 100                      /* packets in an interval, of one reason at one place */
#define TOLD_AGAIN (600 * USEC_PER_SEC)     /* the same */

struct agent_bpf_net {
        struct net_rows rows;
        usec_t looked; /* boot clock */
        struct {
                uint32_t reason;
                uint64_t location, packets; /* as of the last look */
                usec_t told;                /* boot clock; 0: not yet */
        } drops[NET_DROPS];
};

int agent_bpf_net_new(struct agent_bpf_net **ret) {
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

struct agent_bpf_net *agent_bpf_net_free(struct agent_bpf_net *n) {
        if (!n)
                return NULL;
        net_rows_clear(&n->rows);
        free(n);
        return NULL;
}

const struct net_rows *agent_bpf_net_rows(const struct agent_bpf_net *n) {
        return &n->rows;
}

static void tell_drops(struct agent *a, const struct net_figures *f, const struct net_drop *d, uint64_t packets,
                       usec_t interval) {
        const struct net_drop_meaning *m = net_drop_meaning(f, d);
        char place[NET_SYMBOL], message[400];
        const struct otlp_attribute body[] = {
                { .key = "reason", .text = m->reason },   { .key = "place", .text = place },
                { .key = "packets", .number = (int64_t) MIN(packets, (uint64_t) INT64_MAX) },
                { .key = "interval_usec", .number = (int64_t) MIN(interval, (usec_t) INT64_MAX) },
                { .key = "meaning", .text = m->meaning }, { .key = "remedy", .text = m->remedy },
        };

        net_drop_place(d, place);
        (void) snprintf(message, sizeof(message), "%" PRIu64 " packets dropped in %.1f s in %s (%s): %s; look at: %s", packets,
                        (double) interval / USEC_PER_SEC, place, m->reason, m->meaning, m->remedy);
        (void) agent_emit(a, EVENT_NET_DROPS, OTLP_WARN, message, body, ELEMENTSOF(body), NULL);
}

static void look_at_drops(struct agent *a, struct agent_bpf_net *n, const struct net_figures *f, usec_t now) {
        usec_t interval = now - n->looked;

        for (size_t i = 0; i < NET_DROPS; i++) {
                const struct net_drop *d = &f->dropped[i];
                uint64_t packets, more;

                if (__atomic_load_n(&f->drop_use[i], __ATOMIC_ACQUIRE) != NET_USED)
                        continue;
                packets = net_drop_packets(f, i);
                if (n->drops[i].reason != d->reason || n->drops[i].location != d->location) {
                        memset(&n->drops[i], 0, sizeof(n->drops[i]));
                        n->drops[i].reason = d->reason;
                        n->drops[i].location = d->location;
                }
                more = packets - MIN(packets, n->drops[i].packets);
                n->drops[i].packets = packets;
                if (more < DROPS_TOLD || (n->drops[i].told > 0 && now - n->drops[i].told < TOLD_AGAIN) ||
                    !net_drop_meaning(f, d))
                        continue;
                n->drops[i].told = now;
                tell_drops(a, f, d, more, interval);
        }
}

/* By worker, NIC and run where those are known. */
static void name_of(const struct net_peer_key *key, struct net_name *ret, void *userdata) {
        struct net_whose whose = { .peer = "" };
        uint8_t local[16], peer[16];
        bool v4;

        memcpy(local, key->local, sizeof(local));
        memcpy(peer, key->peer, sizeof(peer));
        v4 = IN6_IS_ADDR_V4MAPPED((const struct in6_addr *) (const void *) peer);
        agent_net_whose(userdata, v4 ? AF_INET : AF_INET6, local + (v4 ? 12 : 0), peer + (v4 ? 12 : 0), key->cgroup,
                        &whose);
        net_address_text(key->peer, ret->peer);
        if (whose.peer[0])
                (void) snprintf(ret->peer, sizeof(ret->peer), "%s", whose.peer);
        (void) snprintf(ret->nic, sizeof(ret->nic), "%s", whose.nic);
        (void) snprintf(ret->job, sizeof(ret->job), "%s", whose.job);
}

void agent_bpf_net_tick(struct agent *a, struct agent_bpf_net *n, const struct net_figures *f, struct sink *s) {
        usec_t now = host_now(a->host);
        int r = net_rows_look(&n->rows, f, name_of, a);

        if (r < 0)
                (void) log_warning_errno(r, "the network's figures cannot be read: %m");
        net_samples(&n->rows, f, s);
        if (n->looked > 0)
                look_at_drops(a, n, f, now);
        n->looked = now;
}
