/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A machine of three data-centre NICs and a bridge; what its kernel does with packets and our writes. */
#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if_arp.h>

#include "source.h"
#include "test.h"

#define NICS 3 /* eth0 to eth2, of index 2 to 4; then br0 */
#define BRIDGE (NICS + 2)
#define ROOM 400

struct machine {
        struct link links[NICS + 1];
        struct route routes[ROOM];
        struct rule rules[ROOM];
        struct address addresses[2 * NICS];
        struct intent intent;
        struct found found; /* points into the above */
};

static inline uint32_t pick(uint32_t n) {
        return (uint32_t) random() % n;
}

static inline void init(struct machine *m) {
        *m = (struct machine) { .intent = { .source_routing = true, .source_routing_source = "a test" } };
        for (size_t k = 0; k <= NICS; k++) {
                m->links[k] =
                        (struct link) { .index = (int) k + 2, .arp_type = ARPHRD_ETHER, .address_len = 6,
                                        .up = true, .carrier = true };
                (void) snprintf(m->links[k].name, sizeof(m->links[k].name), k < NICS ? "eth%zu" : "br%zu",
                                k % NICS);
        }
        (void) snprintf(m->links[NICS].kind, sizeof(m->links[NICS].kind), "bridge");
        m->found.links = (struct link_table) { m->links, NICS + 1 };
        m->found.routes = (struct route_table) { .routes = m->routes };
        m->found.rules = (struct rule_table) { .rules = m->rules };
        m->found.addresses = (struct address_table) { .addresses = m->addresses };
}

static inline void add_route(struct machine *m, const struct route *r) {
        ASSERT_TRUE(m->found.routes.n < ROOM);
        m->routes[m->found.routes.n++] = *r;
}

static inline void add_rule(struct machine *m, const struct rule *r) {
        ASSERT_TRUE(m->found.rules.n < ROOM);
        m->rules[m->found.rules.n++] = *r;
}

static inline void add_address(struct machine *m, int index, const char *text, uint8_t prefix_len) {
        struct address a = { .family = strchr(text, ':') ? AF_INET6 : AF_INET,
                             .index = index,
                             .prefix_len = prefix_len };

        ASSERT_EQ(inet_pton(a.family, text, a.bytes), 1);
        m->addresses[m->found.addresses.n++] = a;
}

/* Into the main table; without a gateway when that is NULL. */
static inline struct route main_route(const char *dst, uint8_t len, int index, const char *gateway) {
        struct route r = { .family = strchr(dst, ':') ? AF_INET6 : AF_INET,
                           .dst_len = len,
                           .type = RTN_UNICAST,
                           .protocol = RTPROT_KERNEL,
                           .table = RT_TABLE_MAIN,
                           .n_hops = 1,
                           .hops = { index } };

        r.gateway_family = r.family;
        ASSERT_EQ(inet_pton(r.family, dst, r.dst), 1);
        r.has_gateway = gateway != NULL;
        if (gateway)
                ASSERT_EQ(inet_pton(r.family, gateway, r.gateway), 1);
        return r;
}

static inline void apply_rule(struct machine *m, const struct plan_op *op) {
        bool removal = streq(op->to, SOURCE_ABSENT);
        const struct rule *r = &op->rule;
        char text[64];
        size_t hit = ROOM;

        source_rule_subject(r, text);
        ASSERT_STREQ(text, op->subject);
        (void) snprintf(text, sizeof(text), "priority %u", r->priority);
        ASSERT_STREQ(text, removal ? op->from : op->to);
        ASSERT_TRUE(source_is_own_rule(r));
        ASSERT_STREQ(removal ? op->to : op->from, SOURCE_ABSENT);
        for (size_t k = 0; k < m->found.rules.n; k++)
                if (source_is_own_rule(&m->rules[k]) && m->rules[k].family == r->family &&
                    memcmp(m->rules[k].src, r->src, sizeof(r->src)) == 0 && m->rules[k].table == r->table &&
                    m->rules[k].priority == r->priority)
                        hit = k;
        ASSERT_EQ(hit < ROOM, removal);
        if (removal)
                m->rules[hit] = m->rules[--m->found.rules.n];
        else
                add_rule(m, r);
}

static inline void apply_route(struct machine *m, const struct plan_op *op) {
        bool removal = streq(op->to, SOURCE_ABSENT);
        const struct route *wanted = &op->route;
        struct route r = { .family = wanted->family,
                           .dst_len = wanted->dst_len,
                           .type = RTN_THROW,
                           .protocol = wanted->protocol,
                           .table = wanted->table,
                           .priority = wanted->priority };
        char text[64], value[96];
        size_t hit = ROOM;

        for (size_t k = 0; k < m->found.routes.n; k++) {
                source_route_subject(&m->routes[k], text);
                if (source_is_own_route(&m->routes[k]) && streq(text, op->subject))
                        hit = k;
        }
        ASSERT_EQ(hit == ROOM, streq(op->from, SOURCE_ABSENT));
        if (hit < ROOM) {
                source_route_value(&m->routes[hit], value);
                ASSERT_STREQ(value, op->from);
                m->routes[hit] = m->routes[--m->found.routes.n];
        }
        source_route_subject(wanted, text);
        ASSERT_STREQ(text, op->subject);
        ASSERT_TRUE(source_is_own_route(wanted));
        if (removal)
                return;
        source_route_value(wanted, value);
        ASSERT_STREQ(value, op->to);
        memcpy(r.dst, wanted->dst, sizeof(r.dst));
        add_route(m, wanted->type == RTN_THROW ? &r : wanted); /* a throw leads nowhere */
}

static inline void apply(struct machine *m, const struct plan_op *op) {
        ASSERT_TRUE(op_is_source(op->kind));
        if (op->kind == OP_RULE)
                apply_rule(m, op);
        else
                apply_route(m, op);
}

static inline bool matches(const struct route *r, int family, const uint8_t *to) {
        const struct rule as_rule = { .family = r->family, .src_len = r->dst_len };
        struct rule copy = as_rule;

        memcpy(copy.src, r->dst, sizeof(copy.src));
        return rule_covers(&copy, family, to);
}

static inline const struct route *look_up(const struct machine *m, uint32_t table, int family,
                                                 const uint8_t *to) {
        const struct route *best = NULL;

        for (size_t k = 0; k < m->found.routes.n; k++) {
                const struct route *r = &m->routes[k];

                if (r->table == table && matches(r, family, to) &&
                    (!best || r->dst_len > best->dst_len ||
                     (r->dst_len == best->dst_len && r->priority < best->priority)))
                        best = r;
        }
        return best && best->type == RTN_THROW ? NULL : best;
}

/* Where a packet from a to that address goes. */
static inline const struct route *route_of(const struct machine *m, const struct address *a,
                                                  const uint8_t *to) {
        for (size_t k = 0; k < m->found.rules.n; k++) {
                const struct rule *r = &m->rules[k];
                const struct route *found;

                if (r->protocol != SOURCE_PROTOCOL || !rule_covers(r, a->family, a->bytes))
                        continue;
                found = look_up(m, r->table, a->family, to);
                if (found)
                        return found;
        }
        return look_up(m, RT_TABLE_MAIN, a->family, to);
}
