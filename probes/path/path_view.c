/* SPDX-License-Identifier: Apache-2.0 */
#include "path_view.h"

#include "addresses.h"
#include "check_words.h"
#include "neighbour.h"
#include "netlink.h"
#include "tcp_figures.h"

#define ALL_OF_TCP 40 /* headers of IPv4 and TCP; 20 more of IPv6 */

void path_viewer_clear(struct path_viewer *v) {
        route_table_clear(&v->routes);
        v->routes_known = false;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static const uint8_t *bytes_of(const union path_address *a) {
        return a->sa.sa_family == AF_INET ? (const uint8_t *) &a->in.sin_addr :
                                            (const uint8_t *) &a->in6.sin6_addr;
}

static bool prefix_has(int family, const uint8_t *prefix, uint8_t len, const union path_address *a) {
        return family == a->sa.sa_family && prefix_covers(prefix, len, bytes_of(a));
}

/* What the kernel answers to a lookup that such a route ends. */
static bool rejects_with(uint8_t type, int error) {
        return (type == RTN_BLACKHOLE && error == -EINVAL) || (type == RTN_PROHIBIT && error == -EACCES) ||
               (type == RTN_UNREACHABLE && (error == -EHOSTUNREACH || error == -ENETUNREACH));
}

static void know_routes(struct path_viewer *v) {
        if (!v->routes_known && routes_read(v->host, &v->routes) == 0)
                v->routes_known = true;
}

/* tpu-netcfg copies what the main table has: the route there is the one to speak of. */
static void find_original(struct path_viewer *v, struct route *r) {
        const struct route copy = *r;

        if (copy.protocol != ROUTE_PROTOCOL_OURS)
                return;
        know_routes(v);
        for (size_t i = 0; i < v->routes.n; i++) {
                const struct route *o = &v->routes.routes[i];

                if (o->table == RT_TABLE_MAIN && o->family == copy.family && o->dst_len == copy.dst_len &&
                    memcmp(o->dst, copy.dst, sizeof(o->dst)) == 0 && o->n_hops == 1 &&
                    o->hops[0] == copy.hops[0])
                        *r = *o;
        }
}

/* The lookup's answer does not name the route that rejects: the longest of those that can. */
static void find_rejecting(struct path_viewer *v, const union path_address *to, struct path_view *ret) {
        know_routes(v);
        for (size_t i = 0; i < v->routes.n; i++) {
                const struct route *r = &v->routes.routes[i];

                if (rejects_with(r->type, ret->error) && prefix_has(r->family, r->dst, r->dst_len, to) &&
                    (!ret->matched || r->dst_len > ret->route.dst_len)) {
                        ret->route = *r;
                        ret->matched = true;
                }
        }
}

static const char *name_of(const struct link_table *links, int index) {
        const struct link *l = link_by_index(links, index);

        return l ? l->name : "another NIC";
}

static void find_owner(const struct path_viewer *v, const union path_address *to, struct path_view *ret) {
        const struct address *a = address_find(v->addresses, 0, to->sa.sa_family, bytes_of(to));

        if (a)
                (void) snprintf(ret->owner, sizeof(ret->owner), "%s", name_of(v->links, a->index));
}

bool path_view_in_subnet(const struct path_viewer *v, const struct link *nic, const union path_address *to,
                         char subnet[static ROUTE_WORDS_MAX]) {
        bool found = false;

        for (size_t i = 0; i < v->addresses->n; i++) {
                const struct address *a = &v->addresses->addresses[i];
                struct route r;

                if (a->index != nic->index || a->prefix_len >= (a->family == AF_INET ? 32 : 128) ||
                    !prefix_has(a->family, a->bytes, a->prefix_len, to))
                        continue;
                r = route_to_subnet(a);
                found = true;
                (void) route_arguments(&r, nic->name, false, subnet);
        }
        return found;
}

/* The main table has the route that decides for this NIC, too: behind it. */
static bool has_own_route(struct path_viewer *v, const struct link *nic, const struct route *r) {
        know_routes(v);
        for (size_t i = 0; i < v->routes.n; i++) {
                const struct route *o = &v->routes.routes[i];

                if (o->table == RT_TABLE_MAIN && o->family == r->family && o->dst_len == r->dst_len &&
                    memcmp(o->dst, r->dst, sizeof(o->dst)) == 0 && o->n_hops == 1 &&
                    o->hops[0] == nic->index)
                        return true;
        }
        return false;
}

void path_view_read(struct path_viewer *v, const struct link *nic, const union path_address *from,
                    const union path_address *to, struct path_view *ret) {
        struct path_route route = { 0 };

        *ret = (struct path_view){ .nic_mtu = nic ? nic->mtu : 0 };
        ret->error = path_route_ask(v->kernel, from, to, &route);
        if (ret->error < 0) {
                find_rejecting(v, to, ret);
                return;
        }
        ret->local = route.local;
        ret->mtu = route.mtu;
        ret->matched = path_route_match(v->kernel, from, to, &ret->route) == 0;
        if (ret->matched)
                find_original(v, &ret->route);
        if (route.local)
                find_owner(v, to, ret);
        else
                (void) snprintf(ret->by, sizeof(ret->by), "%s", name_of(v->links, route.nic));
        if (nic && !route.local && path_view_in_subnet(v, nic, to, ret->subnet)) {
                ret->diverted = route.nic != nic->index;
                ret->has_own = ret->diverted && has_own_route(v, nic, &ret->route);
                ret->bent = !ret->diverted && ret->matched && ret->route.has_gateway;
        }
}

bool path_view_is_of(const struct tcp_connection *c, const union path_address *from,
                     const union path_address *to) {
        size_t size = from->sa.sa_family == AF_INET ? 4 : 16;

        return c->family == from->sa.sa_family && memcmp(c->local, bytes_of(from), size) == 0 &&
               memcmp(c->peer, bytes_of(to), size) == 0;
}

void path_view_add_connection(struct path_view *v, const struct tcp_connection *c) {
        struct tcp_figures info;

        if (!c->info)
                return;
        tcp_connection_info(c, &info, sizeof(info));
        if (v->connected && info.segs_out <= v->sent)
                return;
        v->connected = true;
        v->pmtu = info.pmtu;
        v->mss = info.snd_mss;
        v->sent = info.segs_out;
        v->resent = info.total_retrans;
        v->received = info.segs_in;
        v->disordered = info.rcv_ooopack;
}

void path_view_add_hop(struct path_view *v, const struct host *h, int nic, const union path_address *to) {
        union path_address hop = *to;
        struct neighbour n;

        v->hop_is_gateway = v->matched && v->route.has_gateway;
        if (v->hop_is_gateway)
                address_fill(&hop, (uint8_t) v->route.gateway_family, v->route.gateway);
        if (neighbour_read(h, nic, hop.sa.sa_family, bytes_of(&hop), &n) < 0)
                return;
        (void) address_text(&hop, v->hop);
        v->hop_silent = neighbour_is_silent(&n);
        v->hop_fixed = neighbour_is_fixed(&n);
        if (v->hop_fixed)
                (void) mac_text(n.mac, v->hop_mac);
}

void path_view_add_qdisc(struct path_view *v, int nic, const struct qdisc_table *before,
                         const struct qdisc_table *after) {
        const struct qdisc *limit = qdisc_that_limits(after, nic);
        uint64_t was = qdisc_drops(before, nic), is = qdisc_drops(after, nic);

        if (limit)
                (void) qdisc_words(limit, v->qdisc);
        v->dropped = is > was ? is - was : 0;
}

/* --- Words --------------------------------------------------------------------------------------------- */

/* "sudo ip route del …" of the route that decides; to look at it, where no line says it. */
static void removal_of(const struct path_view *v, const char *to, char buf[static 320]) {
        char arguments[ROUTE_WORDS_MAX];

        if (v->matched && route_arguments(&v->route, v->by, true, arguments)[0])
                (void) snprintf(buf, 320, "sudo %s route del %s", route_ip_family(&v->route), arguments);
        else
                (void) snprintf(buf, 320, "ip route get %s fibmatch", to);
}

static void words_of(const struct path_view *v, char buf[static ROUTE_WORDS_MAX]) {
        if (v->matched)
                (void) route_words(&v->route, v->by, buf);
        else
                (void) snprintf(buf, ROUTE_WORDS_MAX, "a route or rule that the kernel does not name");
}

static const char *owner_of(const struct path_view *v) {
        return v->matched ? route_owner(v->route.protocol) : "ip rule shows the rules";
}

static void say_rejected(const struct path_view *v, const char *to, struct finding *f) {
        char words[ROUTE_WORDS_MAX], remedy[320];

        words_of(v, words);
        removal_of(v, to, remedy);
        finding_set(f->found, "this host's kernel sends nothing there (%s)", strerror(-v->error));
        check_say(f, WORDS_PATH_REJECTED, words, owner_of(v), remedy);
}

static void say_kept(const struct path_view *v, const char *to, struct finding *f) {
        char words[ROUTE_WORDS_MAX], remedy[320];

        words_of(v, words);
        finding_set(f->found, "this host keeps the packets for itself");
        if (v->owner[0])
                check_say(f, WORDS_PATH_KEPT_ADDRESS, to, v->owner, strchr(to, ':') ? "128" : "32");
        else {
                removal_of(v, to, remedy);
                check_say(f, WORDS_PATH_KEPT, words, owner_of(v), remedy);
        }
}

static void say_diverted(const struct path_view *v, const char *nic, const char *to, struct finding *f) {
        char words[ROUTE_WORDS_MAX], remedy[320], subnet[ROUTE_DST_MAX] = "";
        bool same;

        words_of(v, words);
        if (v->matched)
                route_format_dst(&v->route, subnet);
        /* Where the subnet's own route was replaced there is none to fall back to. */
        same = !v->has_own && subnet[0] && startswith(v->subnet, subnet) && v->subnet[strlen(subnet)] == ' ';
        if (same)
                (void) snprintf(remedy, sizeof(remedy), "sudo %s route replace %s",
                                route_ip_family(&v->route), v->subnet);
        else
                removal_of(v, to, remedy);
        finding_set(f->found, "packets leave by %s", v->by);
        check_say(f, WORDS_PATH_DIVERTED, to, v->by, nic, words, owner_of(v), remedy);
}

static uint32_t full_mss(const struct path_view *v) {
        return v->nic_mtu - ALL_OF_TCP - (v->route.family == AF_INET6 ? 20 : 0);
}

/* Smaller packets than the NIC could send or take. */
static bool is_held(const struct path_view *v) {
        return (v->connected && v->pmtu > 0 && v->pmtu < v->nic_mtu) ||
               (v->mtu > 0 && v->mtu < v->nic_mtu) ||
               (v->matched && v->route.metrics[RTAX_ADVMSS] > 0 && v->nic_mtu > 100 &&
                v->route.metrics[RTAX_ADVMSS] < full_mss(v));
}

static void say_held(const struct path_view *v, struct finding *f) {
        char words[ROUTE_WORDS_MAX], arguments[ROUTE_WORDS_MAX], remedy[320], most[16];
        uint32_t advmss = v->matched ? v->route.metrics[RTAX_ADVMSS] : 0, own;
        bool limited;

        words_of(v, words);
        own = v->matched ? v->route.metrics[RTAX_MTU] : 0;
        limited = advmss > 0 || (own > 0 && own <= v->mtu);
        (void) snprintf(most, sizeof(most), "%" PRIu32,
                        v->connected && v->pmtu > 0 ? MIN(v->pmtu, v->nic_mtu) :
                        v->mtu > 0                  ? v->mtu :
                                                      v->nic_mtu);
        if (advmss > 0 && advmss < full_mss(v))
                finding_set(f->found, "this host's route holds connections to packets of %s, segments of "
                            "%" PRIu32, most, advmss);
        else
                finding_set(f->found, "this host's kernel holds connections to packets of %s", most);
        if (!limited) {
                check_say(f, WORDS_PATH_REMEMBERED, most, v->route.family == AF_INET6 ? "-6" : "-4");
                return;
        }
        /* A route to one host alone is not needed; any other stays, without its limits. */
        if (v->route.dst_len == (v->route.family == AF_INET ? 32 : 128) &&
            v->route.protocol != RTPROT_KERNEL)
                removal_of(v, "", remedy);
        else if (route_arguments(&v->route, v->by, false, arguments)[0])
                (void) snprintf(remedy, sizeof(remedy), "sudo %s route replace %s",
                                route_ip_family(&v->route), arguments);
        else
                (void) snprintf(remedy, sizeof(remedy), "ip -d route show table all");
        check_say(f, WORDS_PATH_HELD, words, route_owner(v->route.protocol), remedy);
}

#define SEGMENTS_MIN 100 /* fewer prove no direction */

const char *path_view_direction(const struct path_view *v) {
        bool there = v->sent >= SEGMENTS_MIN && v->resent >= v->sent / 50;
        bool back = v->received >= SEGMENTS_MIN && v->disordered >= v->received / 50;

        if (v->qdisc[0] && v->dropped > 0)
                return "this host's own queueing discipline dropped some";
        if (there != back)
                return there ? "a connection's own segments are lost towards the peer" :
                               "a connection's segments are lost from the peer";
        return there ? "a connection loses segments in both directions" :
                       "direction UNKNOWN: an echo goes there and back";
}

/* The peer is next door, and its packets are handed to a gateway that does not bring them there. */
static void say_bent(const struct path_view *v, const char *nic, struct finding *f) {
        char words[ROUTE_WORDS_MAX], remedy[320];

        words_of(v, words);
        removal_of(v, "", remedy);
        check_say(f, WORDS_PATH_BENT, nic, words, owner_of(v), remedy);
}

bool path_view_say_hop(const struct path_view *v, const char *nic, struct finding *f) {
        if (v->bent)
                say_bent(v, nic, f);
        else if (v->hop_fixed)
                check_say(f, WORDS_PATH_HOP_FIXED, v->hop, nic, v->hop_mac);
        else if (v->hop_silent)
                check_say(f, v->hop_is_gateway ? WORDS_PATH_GATEWAY_SILENT : WORDS_PATH_HOP_SILENT, v->hop,
                          nic);
        return v->bent || v->hop_fixed || v->hop_silent;
}

bool path_view_say_dropped(const struct path_view *v, const char *nic, struct finding *f) {
        char dropped[24];

        if (!v->qdisc[0] || v->dropped == 0)
                return false;
        (void) snprintf(dropped, sizeof(dropped), "%" PRIu64, v->dropped);
        check_say(f, WORDS_PATH_QDISC, nic, v->qdisc, dropped);
        return true;
}

/* Options of TCP take 12 bytes of each segment, or up to 40; less than that is a smaller offer. */
#define OPTIONS_MAX 40

static bool is_small(const struct path_view *v) {
        return v->connected && v->mss > 0 && v->sent >= SEGMENTS_MIN && v->nic_mtu > 1000 &&
               v->mss + OPTIONS_MAX < full_mss(v);
}

static void say_small(const struct path_view *v, const char *to, struct finding *f) {
        char mss[16];

        (void) snprintf(mss, sizeof(mss), "%" PRIu32, v->mss);
        finding_set(f->found, "a connection's segments have %s bytes", mss);
        check_say(f, WORDS_PATH_SMALL_SEGMENTS, mss, to);
}

bool path_view_say(const struct path_view *v, const char *nic, const union path_address *to,
                   struct finding *f) {
        char text[ADDRESS_TEXT_MAX];

        (void) address_text(to, text);
        if (v->error < 0 && v->error != -ENETUNREACH && v->error != -ENODEV)
                say_rejected(v, text, f);
        else if (v->error < 0 && v->matched)
                say_rejected(v, text, f);
        else if (v->error < 0)
                return false;
        else if (v->local)
                say_kept(v, text, f);
        else if (v->diverted)
                say_diverted(v, nic, text, f);
        else if (streq(v->by, nic) && is_held(v))
                say_held(v, f);
        else if (streq(v->by, nic) && is_small(v))
                say_small(v, text, f);
        else
                return false;
        return true;
}
