/* SPDX-License-Identifier: Apache-2.0 */
#include "route_write.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "main_rule.h"
#include "netlink.h"
#include "source.h"

/* --- One metric of one route ----------------------------------------------------------------------- */

/* What a dump says of the hardware's state, no one may say when setting. */
#define SETTABLE_HOP_FLAGS (RTNH_F_ONLINK | RTNH_F_PERVASIVE)

static int put_changed_metrics(struct nl_msg *m, struct nlattr *old, uint32_t ms, bool lock) {
        struct nlattr *nested = nla_nest_start(m, RTA_METRICS), *a;
        uint32_t locks = 0;
        int left;

        if (!nested)
                return -ENOMEM;
        if (old)
                nla_for_each_nested(a, old, left) {
                        if (nla_type(a) == RTAX_LOCK && nla_len(a) == sizeof(locks))
                                locks = nla_get_u32(a);
                        else if (nla_type(a) != RTAX_RTO_MIN &&
                                 nla_put(m, nla_type(a), nla_len(a), nla_data(a)) < 0)
                                return -ENOMEM;
                }
        locks = lock ? locks | (1U << RTAX_RTO_MIN) : locks & ~(1U << RTAX_RTO_MIN);
        if ((locks && nla_put_u32(m, RTAX_LOCK, locks) < 0) ||
            (ms > 0 && nla_put_u32(m, RTAX_RTO_MIN, ms) < 0))
                return -ENOMEM;
        return nla_nest_end(m, nested) < 0 ? -ENOMEM : 0;
}

static int put_hops(struct nl_msg *m, const struct nlattr *old) {
        size_t left = (size_t) nla_len(old), step;
        struct nlattr *copy = nla_reserve(m, RTA_MULTIPATH, nla_len(old));
        struct rtnexthop *hop;
        char *at;

        if (!copy)
                return -ENOMEM;
        memcpy(nla_data(copy), nla_data(old), left);
        at = nla_data(copy);
        for (; left >= sizeof(*hop);
             at += step, left -= step) { /* the lengths were checked when it was parsed */
                hop = (struct rtnexthop *) (void *) at;
                hop->rtnh_flags &= SETTABLE_HOP_FLAGS;
                step = MIN((size_t) RTNH_ALIGN(hop->rtnh_len), left);
        }
        return 0;
}

/* Attributes that only describe, or that a nexthop object (RTA_NH_ID) stands for, do not go back. */
static bool goes_back(const struct nlattr *a, bool by_object) {
        switch (nla_type(a)) {
        case RTA_METRICS:
        case RTA_CACHEINFO:
        case RTA_EXPIRES:
                return false;
        case RTA_OIF:
        case RTA_GATEWAY:
        case RTA_VIA:
        case RTA_MULTIPATH:
                return !by_object;
        default:
                return true;
        }
}

static int put_changed_route(struct nl_msg *m, struct nlmsghdr *h, uint32_t ms, bool lock) {
        struct rtmsg head = *(struct rtmsg *) nlmsg_data(h);
        struct nlattr *a, *old = nlmsg_find_attr(h, sizeof(head), RTA_METRICS);
        bool by_object = nlmsg_find_attr(h, sizeof(head), RTA_NH_ID) != NULL;
        int left, r = 0;

        head.rtm_flags &= SETTABLE_HOP_FLAGS;
        if (nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO) < 0)
                return -ENOMEM;
        nlmsg_for_each_attr(a, h, sizeof(head), left) {
                if (r < 0)
                        break;
                if (!goes_back(a, by_object))
                        continue;
                if (nla_type(a) == RTA_MULTIPATH)
                        r = put_hops(m, a);
                else if (nla_put(m, nla_type(a), nla_len(a), nla_data(a)) < 0)
                        r = -ENOMEM;
        }
        return r < 0 ? r : put_changed_metrics(m, old, ms, lock);
}

/* The route of that subject, as the kernel tells it, is put together again into a message that replaces
 * it. */
struct replacing {
        const struct link_table *links;
        const char *subject;
        struct nl_msg *message;
        uint32_t ms;
        bool lock;
};

static int take_route(struct nlmsghdr *h, void *userdata) {
        struct replacing *x = userdata;
        char text[64];
        struct route r;
        int k = h->nlmsg_type == RTM_NEWROUTE ? route_parse_message(h, &r) : -EBADMSG;

        if (k <= 0)
                return k;
        route_subject(&r, x->links, text);
        if (!streq(text, x->subject))
                return 0;
        k = put_changed_route(x->message, h, x->ms, x->lock);
        return k < 0 ? k : 1;
}

static int replace_route(const struct link_table *links, const char *subject, uint32_t ms, bool lock) {
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                nlmsg_alloc_simple(RTM_NEWROUTE, NLM_F_REQUEST | NLM_F_ACK | NLM_F_REPLACE);
        struct replacing x = { .links = links, .subject = subject, .message = m, .ms = ms, .lock = lock };
        int r = m ? routes_each(take_route, &x) : -ENOMEM;

        return r < 0 ? r : r == 0 ? -ENODEV : netlink_do(m);
}

/* -ENODEV: none of that subject, -EEXIST: several at one place. */
static int find_route(const struct route_table *t, const struct link_table *links, const char *subject,
                const struct route **ret) {
        *ret = route_by_subject(t, links, subject);
        return !*ret ? -ENODEV : (*ret)->ambiguous || (*ret)->expires ? -EEXIST : 0;
}

int route_set(const struct host *h, const struct link_table *links, const char *subject, const char *value) {
        _cleanup_routes_ struct route_table before = ROUTE_TABLE_NULL, after = ROUTE_TABLE_NULL;
        const struct route *route = NULL;
        char now[ROUTE_VALUE_MAX];
        uint32_t ms = 0;
        bool lock = false;
        int r;

        if (!route_parse_value(value, &ms, &lock))
                return -EINVAL;
        r = routes_read(h, &before);
        if (r == 0)
                r = find_route(&before, links, subject, &route);
        if (r == 0)
                r = replace_route(links, subject, ms, lock);
        if (r == 0)
                r = routes_read(h, &after);
        if (r == 0)
                r = find_route(&after, links, subject, &route);
        if (r < 0)
                return r;
        route_value(route, now);
        return streq(now, value) ? 0 : -EIO;
}

/* --- Source routing -------------------------------------------------------------------------------- */

static int address_size(int family) {
        return family == AF_INET ? 4 : 16;
}

static bool is_removal(const struct plan_op *op) {
        return streq(op->to, SOURCE_ABSENT);
}

/* What the machine has now of the op's subject must be what the op wanted. */
static int verify_source(const struct host *h, const struct plan_op *op) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL; /* no names are needed: empty */
        _cleanup_routes_ struct route_table routes = ROUTE_TABLE_NULL;
        _cleanup_rules_ struct rule_table rules = RULE_TABLE_NULL;
        _cleanup_plan_ struct plan own = PLAN_NULL;
        const char *gone = is_removal(op) ? op->from : op->to;
        bool there = false;
        int r;

        r = op->kind == OP_SOURCE_ROUTE ? routes_read(h, &routes) : rules_read(h, &rules);
        if (op->kind == OP_MAIN_RULE)
                return r < 0 || rules_lead_to_main(&rules, op->rule.family) ? r :
                       op->rule.table == RT_TABLE_MAIN                      ? -EIO :
                                                                              0;
        if (r == 0)
                r = source_found(&rules, &routes, &links, &own);
        if (r < 0)
                return r;
        for (size_t k = 0; k < own.n; k++)
                there |= streq(own.ops[k].subject, op->subject) && streq(own.ops[k].to, gone);
        return there == !is_removal(op) ? 0 : -EIO;
}

/* --- Rules of source routing --------------------------------------------------------------------------- */

static int put_rule(struct nl_msg *m, const struct rule *r) {
        const struct fib_rule_hdr head = { .family = (uint8_t) r->family,
                                           .src_len = r->src_len,
                                           .table = RT_TABLE_UNSPEC, /* FRA_TABLE says it */
                                           .action = r->action };

        if (nlmsg_append(m, (void *) (uintptr_t) &head, sizeof(head), NLMSG_ALIGNTO) < 0 ||
            (r->src_len > 0 && nla_put(m, FRA_SRC, address_size(r->family), r->src) < 0) ||
            nla_put_u32(m, FRA_TABLE, r->table) < 0 || nla_put_u32(m, FRA_PRIORITY, r->priority) < 0 ||
            nla_put_u8(m, FRA_PROTOCOL, r->protocol) < 0)
                return -ENOMEM;
        return 0;
}

int source_write_rule(const struct host *h, const struct plan_op *op) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(
                is_removal(op) ? RTM_DELRULE : RTM_NEWRULE,
                NLM_F_REQUEST | NLM_F_ACK | (is_removal(op) ? 0 : NLM_F_CREATE | NLM_F_EXCL));
        int r = m ? put_rule(m, &op->rule) : -ENOMEM;

        if (r == 0)
                r = netlink_do(m);
        return r < 0 ? r : verify_source(h, op);
}

/* --- Routes of source routing -------------------------------------------------------------------------- */

static int put_metrics(struct nl_msg *m, const struct route *r) {
        struct nlattr *nested = nla_nest_start(m, RTA_METRICS);

        if (!nested || (r->locks && nla_put_u32(m, RTAX_LOCK, r->locks) < 0))
                return -ENOMEM;
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (r->metrics[k] && nla_put_u32(m, k, r->metrics[k]) < 0)
                        return -ENOMEM;
        if (r->congestion[0] && nla_put_string(m, RTAX_CC_ALGO, r->congestion) < 0)
                return -ENOMEM;
        return nla_nest_end(m, nested) < 0 ? -ENOMEM : 0;
}

static int put_gateway(struct nl_msg *m, const struct route *r) {
        uint8_t via[sizeof(uint16_t) + 16];
        uint16_t family = (uint16_t) r->gateway_family;
        int size = address_size(r->gateway_family);

        if (r->gateway_family == r->family)
                return nla_put(m, RTA_GATEWAY, size, r->gateway) < 0 ? -ENOMEM : 0;
        memcpy(via, &family, sizeof(family));
        memcpy(via + sizeof(family), r->gateway, (size_t) size);
        return nla_put(m, RTA_VIA, (int) sizeof(family) + size, via) < 0 ? -ENOMEM : 0;
}

static int put_destination(struct nl_msg *m, const struct route *r, uint8_t scope) {
        struct rtmsg head = { .rtm_family = (uint8_t) r->family,
                              .rtm_dst_len = r->dst_len,
                              .rtm_table = RT_TABLE_UNSPEC, /* RTA_TABLE says it */
                              .rtm_protocol = r->protocol,
                              .rtm_scope = scope,
                              .rtm_type = r->type,
                              .rtm_flags = r->onlink ? RTNH_F_ONLINK : 0 };

        if (nlmsg_append(m, &head, sizeof(head), NLMSG_ALIGNTO) < 0 ||
            (r->dst_len > 0 && nla_put(m, RTA_DST, address_size(r->family), r->dst) < 0) ||
            nla_put_u32(m, RTA_TABLE, r->table) < 0 || nla_put_u32(m, RTA_PRIORITY, r->priority) < 0)
                return -ENOMEM;
        return 0;
}

static int put_route(struct nl_msg *m, const struct route *r) {
        bool throw = r->type == RTN_THROW;
        int e = put_destination(m, r, throw || r->has_gateway ? RT_SCOPE_UNIVERSE : RT_SCOPE_LINK);

        if (e < 0 || throw)
                return e;
        if (nla_put_u32(m, RTA_OIF, (uint32_t) r->hops[0]) < 0)
                return -ENOMEM;
        if (r->has_gateway)
                e = put_gateway(m, r);
        return e < 0 ? e : put_metrics(m, r);
}

int source_write_route(const struct host *h, const struct plan_op *op) {
        int how = streq(op->from, SOURCE_ABSENT) ? NLM_F_EXCL : NLM_F_REPLACE;
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                nlmsg_alloc_simple(is_removal(op) ? RTM_DELROUTE : RTM_NEWROUTE,
                                   NLM_F_REQUEST | NLM_F_ACK | (is_removal(op) ? 0 : NLM_F_CREATE | how));
        int r = !m            ? -ENOMEM :
                is_removal(op) ? put_destination(m, &op->route, RT_SCOPE_NOWHERE) :
                              put_route(m, &op->route);

        if (r == 0)
                r = netlink_do(m);
        return r < 0 ? r : verify_source(h, op);
}
