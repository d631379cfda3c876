/* SPDX-License-Identifier: Apache-2.0 */
#include "routes.h"

#include <arpa/inet.h>
#include <sys/socket.h>

#include "netlink.h"

static const struct nla_policy route_policy[RTA_MAX + 1] = {
        [RTA_TABLE] = { .type = NLA_U32 },   [RTA_PRIORITY] = { .type = NLA_U32 },
        [RTA_OIF] = { .type = NLA_U32 },     [RTA_METRICS] = { .type = NLA_NESTED },
        [RTA_CACHEINFO] = { .minlen = sizeof(struct rta_cacheinfo) },
        [RTA_NH_ID] = { .type = NLA_U32 },
};
static const struct nla_policy metric_policy[RTAX_MAX + 1] = {
        [RTAX_LOCK] = { .type = NLA_U32 },
        [RTAX_RTO_MIN] = { .type = NLA_U32 },
};

/* Copies an address of the family's length. -EBADMSG for any other. */
static int take_address(int family, const struct nlattr *a, size_t skip, uint8_t dest[16]) {
        size_t want = family == AF_INET ? 4 : 16;

        if (nla_len(a) < 0 || (size_t) nla_len(a) != want + skip)
                return -EBADMSG;
        memcpy(dest, (const uint8_t *) nla_data(a) + skip, want);
        return 0;
}

static int take_gateway(struct nlattr *const *a, struct route *r) {
        uint16_t family;

        if (a[RTA_GATEWAY]) {
                r->has_gateway = true;
                r->gateway_family = r->family;
                return take_address(r->family, a[RTA_GATEWAY], 0, r->gateway);
        }
        if (!a[RTA_VIA] || nla_len(a[RTA_VIA]) < (int) sizeof(family))
                return 0;
        memcpy(&family, nla_data(a[RTA_VIA]), sizeof(family));
        if (family != AF_INET && family != AF_INET6)
                return 0;
        r->has_gateway = true;
        r->gateway_family = family;
        return take_address(family, a[RTA_VIA], sizeof(family), r->gateway);
}

static int take_hops(const struct nlattr *multipath, struct route *r) {
        size_t left = (size_t) nla_len(multipath), step;
        const char *at = nla_data(multipath);
        struct rtnexthop hop;

        for (; left >= sizeof(hop); at += step, left -= step) {
                memcpy(&hop, at, sizeof(hop));
                if (hop.rtnh_len < sizeof(hop) || hop.rtnh_len > left)
                        return -EBADMSG;
                if (r->n_hops < ROUTE_HOPS_MAX)
                        r->hops[r->n_hops] = hop.rtnh_ifindex;
                r->n_hops++;
                step = MIN((size_t) RTNH_ALIGN(hop.rtnh_len), left);
        }
        return 0;
}

/* It is shown and typed: what no congestion control of Linux is called is left out. */
static void take_congestion(const struct nlattr *a, struct route *r) {
        static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

        (void) nla_strlcpy(r->congestion, a, sizeof(r->congestion)); /* none is longer */
        if (r->congestion[strspn(r->congestion, letters)])
                r->congestion[0] = '\0';
}

static int take_metrics(struct nlattr *metrics, struct route *r) {
        struct nlattr *m[RTAX_MAX + 1];

        if (nla_parse_nested(m, RTAX_MAX, metrics, metric_policy) < 0)
                return -EBADMSG;
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (m[k] && k != RTAX_CC_ALGO && nla_len(m[k]) == sizeof(uint32_t))
                        r->metrics[k] = nla_get_u32(m[k]);
        if (m[RTAX_CC_ALGO])
                take_congestion(m[RTAX_CC_ALGO], r);
        r->locks = m[RTAX_LOCK] ? nla_get_u32(m[RTAX_LOCK]) : 0;
        r->rto_min_ms = r->metrics[RTAX_RTO_MIN];
        r->rto_min_locked = r->locks & (1U << RTAX_RTO_MIN);
        return 0;
}

static int take_attributes(struct nlattr *const *a, struct route *r) {
        const struct rta_cacheinfo *cache = a[RTA_CACHEINFO] ? nla_data(a[RTA_CACHEINFO]) : NULL;
        int e = 0;

        if (a[RTA_TABLE])
                r->table = nla_get_u32(a[RTA_TABLE]);
        if (a[RTA_PRIORITY])
                r->priority = nla_get_u32(a[RTA_PRIORITY]);
        if (a[RTA_OIF])
                r->hops[r->n_hops++] = (int) nla_get_u32(a[RTA_OIF]);
        r->expires = cache && cache->rta_expires != 0;
        r->wraps = !r->special && (a[RTA_ENCAP] || a[RTA_ENCAP_TYPE]);
        r->special |= a[RTA_ENCAP] || a[RTA_ENCAP_TYPE];
        if (a[RTA_NH_ID])
                r->nexthop = nla_get_u32(a[RTA_NH_ID]);
        if (a[RTA_DST])
                e = take_address(r->family, a[RTA_DST], 0, r->dst);
        r->has_source = a[RTA_PREFSRC] != NULL;
        if (e == 0 && r->has_source)
                e = take_address(r->family, a[RTA_PREFSRC], 0, r->source);
        if (e == 0)
                e = take_gateway(a, r);
        if (e == 0 && a[RTA_MULTIPATH])
                e = take_hops(a[RTA_MULTIPATH], r);
        if (e == 0 && a[RTA_METRICS])
                e = take_metrics(a[RTA_METRICS], r);
        return e;
}

static bool is_link_local(const struct route *r) {
        return r->family == AF_INET6 && r->dst_len >= 10 && r->dst[0] == 0xfe && (r->dst[1] & 0xc0) == 0x80;
}

static bool is_wanted_type(uint8_t type) {
        return type == RTN_UNICAST || type == RTN_BLACKHOLE || type == RTN_UNREACHABLE ||
               type == RTN_PROHIBIT || type == RTN_THROW;
}

int route_parse_any(struct nlmsghdr *h, struct route *ret) {
        struct nlattr *a[RTA_MAX + 1];
        const struct rtmsg *m;
        struct route r = { 0 };
        int e;

        if (!nlmsg_valid_hdr(h, sizeof(*m)) || nlmsg_parse(h, sizeof(*m), a, RTA_MAX, route_policy) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if (m->rtm_family != AF_INET && m->rtm_family != AF_INET6)
                return 0;
        if (m->rtm_dst_len > (m->rtm_family == AF_INET ? 32 : 128))
                return -EBADMSG;
        r.family = m->rtm_family;
        r.dst_len = m->rtm_dst_len;
        r.tos = m->rtm_tos;
        r.type = m->rtm_type;
        r.protocol = m->rtm_protocol;
        r.scope = m->rtm_scope;
        r.onlink = m->rtm_flags & RTNH_F_ONLINK;
        r.special = m->rtm_src_len > 0;
        r.table = m->rtm_table;
        e = take_attributes(a, &r);
        if (e < 0)
                return e;
        *ret = r;
        return 1;
}

int route_parse_message(struct nlmsghdr *h, void *ret_item) {
        struct route r;
        int e;

        if (nlmsg_valid_hdr(h, sizeof(struct rtmsg)) &&
            (!is_wanted_type(((const struct rtmsg *) nlmsg_data(h))->rtm_type) ||
             (((const struct rtmsg *) nlmsg_data(h))->rtm_flags & RTM_F_CLONED)))
                return 0;
        e = route_parse_any(h, &r);
        if (e <= 0 || r.table == RT_TABLE_LOCAL || is_link_local(&r))
                return MIN(e, 0);
        *(struct route *) ret_item = r;
        return 1;
}

static int compare_places(const void *x, const void *y) {
        const struct route *a = *(struct route *const *) x, *b = *(struct route *const *) y;

        return COMPARE(a->family, b->family) ?: COMPARE(a->table, b->table) ?:
               COMPARE(a->priority, b->priority) ?: COMPARE(a->tos, b->tos) ?:
               COMPARE(a->dst_len, b->dst_len) ?: memcmp(a->dst, b->dst, sizeof(a->dst));
}

static int mark_ambiguous(struct route_table *t) {
        _cleanup_free_ struct route **sorted = calloc(t->n + 1, sizeof(*sorted));

        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < t->n; i++)
                sorted[i] = &t->routes[i];
        qsort(sorted, t->n, sizeof(*sorted), compare_places);
        for (size_t i = 1; i < t->n; i++)
                if (compare_places(&sorted[i - 1], &sorted[i]) == 0)
                        sorted[i - 1]->ambiguous = sorted[i]->ambiguous = true;
        return 0;
}

static int finish_routes(struct route_table *t) {
        int r = mark_ambiguous(t);

        if (r < 0)
                route_table_clear(t);
        return r;
}

static const struct dump_table table = {
        .request = { .type = RTM_GETROUTE,
                     .head = &(const struct rtmsg){ .rtm_family = AF_UNSPEC },
                     .head_size = sizeof(struct rtmsg),
                     .max = 4 * 1024 * 1024 },
        .recorded = "/netlink/routes",
        .answer = RTM_NEWROUTE,
        .item_size = sizeof(struct route),
        .items_max = ROUTES_MAX,
        .parse = route_parse_message,
};

int routes_parse(const void *data, size_t len, struct route_table *ret) {
        int r = dump_table_parse(data, len, &table, &ret->routes, &ret->n);

        return r < 0 ? r : finish_routes(ret);
}

int routes_read(const struct host *h, struct route_table *ret) {
        int r = dump_table_read(h, &table, &ret->routes, &ret->n);

        return r < 0 ? r : finish_routes(ret);
}

int routes_each(int (*message)(struct nlmsghdr *h, void *userdata), void *userdata) {
        int r = -EINTR;

        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++)
                r = dump_each(&table.request, message, userdata);
        return r;
}

void route_table_clear(struct route_table *t) {
        free(t->routes);
        *t = ROUTE_TABLE_NULL;
}

void route_format_dst(const struct route *r, char buf[static ROUTE_DST_MAX]) {
        char address[INET6_ADDRSTRLEN];

        if (r->dst_len == 0 || !inet_ntop(r->family, r->dst, address, sizeof(address)))
                (void) snprintf(buf, ROUTE_DST_MAX, r->family == AF_INET ? "default" : "default6");
        else
                (void) snprintf(buf, ROUTE_DST_MAX, "%s/%u", address, r->dst_len);
}

bool route_is_default(const struct route *r) {
        return r->type == RTN_UNICAST && r->dst_len == 0 && r->table == RT_TABLE_MAIN;
}
