/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "netlink.h"
#include "source.h"
#include "source_write.h"

static int address_size(int family) {
        return family == AF_INET ? 4 : 16;
}

static bool removes(const struct op *op) {
        return streq(op->to, SOURCE_ABSENT);
}

/* What the machine has now of the op's subject must be what the op wanted. */
static int verify(const struct host *h, const struct op *op) {
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL; /* no names are needed: empty */
        _cleanup_routes_ struct route_table routes = ROUTE_TABLE_NULL;
        _cleanup_rules_ struct rule_table rules = RULE_TABLE_NULL;
        _cleanup_plan_ struct plan own = PLAN_NULL;
        const char *gone = removes(op) ? op->from : op->to;
        bool there = false;
        int r;

        r = op->kind == OP_RULE ? rules_read(h, &rules) : routes_read(h, &routes);
        if (r == 0)
                r = source_found(&rules, &routes, &links, &own);
        if (r < 0)
                return r;
        for (size_t k = 0; k < own.n; k++)
                there |= streq(own.ops[k].subject, op->subject) && streq(own.ops[k].to, gone);
        return there == !removes(op) ? 0 : -EIO;
}

/* --- Rules -------------------------------------------------------------------------------------------- */

static int put_rule(struct nl_msg *m, const struct rule *r) {
        const struct fib_rule_hdr head = { .family = (uint8_t) r->family,
                                           .src_len = r->src_len,
                                           .table = RT_TABLE_UNSPEC, /* FRA_TABLE says it */
                                           .action = r->action };

        if (nlmsg_append(m, (void *) (uintptr_t) &head, sizeof(head), NLMSG_ALIGNTO) < 0 ||
            nla_put(m, FRA_SRC, address_size(r->family), r->src) < 0 ||
            nla_put_u32(m, FRA_TABLE, r->table) < 0 || nla_put_u32(m, FRA_PRIORITY, r->priority) < 0 ||
            nla_put_u8(m, FRA_PROTOCOL, r->protocol) < 0)
                return -ENOMEM;
        return 0;
}

int source_write_rule(const struct host *h, const struct op *op) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = nlmsg_alloc_simple(
                removes(op) ? RTM_DELRULE : RTM_NEWRULE,
                NLM_F_REQUEST | NLM_F_ACK | (removes(op) ? 0 : NLM_F_CREATE | NLM_F_EXCL));
        int r = m ? put_rule(m, &op->rule) : -ENOMEM;

        if (r == 0)
                r = netlink_do(m);
        return r < 0 ? r : verify(h, op);
}

/* --- Routes ------------------------------------------------------------------------------------------- */

static int put_metrics(struct nl_msg *m, const struct route *r) {
        struct nlattr *nested = nla_nest_start(m, RTA_METRICS);

        if (!nested || (r->locks && nla_put_u32(m, RTAX_LOCK, r->locks) < 0))
                return -ENOMEM;
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (r->metrics[k] && nla_put_u32(m, k, r->metrics[k]) < 0)
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

int source_write_route(const struct host *h, const struct op *op) {
        int how = streq(op->from, SOURCE_ABSENT) ? NLM_F_EXCL : NLM_F_REPLACE;
        _cleanup_(nlmsg_freep) struct nl_msg *m =
                nlmsg_alloc_simple(removes(op) ? RTM_DELROUTE : RTM_NEWROUTE,
                                   NLM_F_REQUEST | NLM_F_ACK | (removes(op) ? 0 : NLM_F_CREATE | how));
        int r = !m            ? -ENOMEM :
                removes(op) ? put_destination(m, &op->route, RT_SCOPE_NOWHERE) :
                              put_route(m, &op->route);

        if (r == 0)
                r = netlink_do(m);
        return r < 0 ? r : verify(h, op);
}
