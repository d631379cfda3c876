/* SPDX-License-Identifier: Apache-2.0 */
#include "source.h"

#include <arpa/inet.h>
#include <assert.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "route_words.h"

static bool is_own_table(uint32_t table) {
        return table > SOURCE_TABLE_BASE && table - SOURCE_TABLE_BASE <= INT32_MAX;
}

bool source_is_own_route(const struct route *r) {
        return r->protocol == SOURCE_PROTOCOL && r->priority == SOURCE_METRIC && r->tos == 0 &&
               is_own_table(r->table);
}

bool source_is_own_rule(const struct rule *r) {
        return r->protocol == SOURCE_PROTOCOL && r->action == FR_ACT_TO_TBL && !r->narrow &&
               r->src_len == (r->family == AF_INET ? 32 : 128) && is_own_table(r->table);
}

bool source_is_data_route(const struct intent *i, const struct link_table *links, const struct route *r) {
        if (r->type != RTN_UNICAST || r->n_hops == 0 || r->n_hops > ROUTE_HOPS_MAX || source_is_own_route(r))
                return false;
        for (unsigned k = 0; k < r->n_hops; k++) {
                const struct link *l = link_by_index(links, r->hops[k]);

                if (!l || !intent_is_data_nic(i, l))
                        return false;
        }
        return true;
}

/* --- Rules -------------------------------------------------------------------------------------------- */

void source_rule_subject(const struct rule *r, char buf[static 64]) {
        char address[INET6_ADDRSTRLEN] = "?";

        (void) inet_ntop(r->family, r->src, address, sizeof(address));
        finding_format(buf, 64, "from %s lookup %u", address, r->table);
}

/* --- Routes ------------------------------------------------------------------------------------------- */

void source_route_subject(const struct route *r, char buf[static 64]) {
        char dst[ROUTE_DST_MAX];

        route_format_dst(r, dst);
        finding_format(buf, 64, "table %u %s", r->table, dst);
}

static bool has_metric(const struct route *r, int k) {
        return k == RTAX_CC_ALGO ? r->congestion[0] : r->metrics[k] > 0;
}

/* One more metric, when the text has room for it: without it a route still leads to the right NIC. */
static void add_metric(char buf[static 96], int k, const struct route *r) {
        size_t used = strlen(buf);
        char value[24], text[64];

        (void) snprintf(value, sizeof(value), "%" PRIu32 "%s", r->metrics[k], k == RTAX_RTO_MIN ? "ms" : "");
        (void) snprintf(text, sizeof(text), " %s %s%s", route_metric_word(k),
                        k == RTAX_CC_ALGO ? r->congestion : value, r->locks & (1U << k) ? ",lock" : "");
        if (used + strlen(text) < 96)
                (void) snprintf(buf + used, 96 - used, "%s", text);
}

void source_route_value(const struct route *r, char buf[static 96]) {
        char gateway[INET6_ADDRSTRLEN] = "?";

        if (r->type == RTN_THROW) {
                (void) snprintf(buf, 96, "throw");
                return;
        }
        if (r->has_gateway)
                (void) inet_ntop(r->gateway_family, r->gateway, gateway, sizeof(gateway));
        (void) snprintf(buf, 96, "%s%s%s", r->has_gateway ? "via " : "link", r->has_gateway ? gateway : "",
                        r->onlink ? " onlink" : "");
        if (r->type != RTN_UNICAST || r->special || r->n_hops != 1 ||
            r->hops[0] != (int) (r->table - SOURCE_TABLE_BASE)) /* not what is ever wanted */
                (void) snprintf(buf, 96, "type %u, elsewhere", r->type);
        if (r->metrics[RTAX_RTO_MIN]) /* first: it always has room */
                add_metric(buf, RTAX_RTO_MIN, r);
        for (int k = 0; k <= RTAX_MAX; k++)
                if (route_metric_word(k) && k != RTAX_RTO_MIN && has_metric(r, k))
                        add_metric(buf, k, r);
}

/* --- What is ours ---------------------------------------------------------------------------------- */

static void name_nic(struct plan_op *op, const struct link_table *links) {
        const struct link *l = link_by_index(links, op->index);

        if (l)
                (void) snprintf(op->nic, sizeof(op->nic), "%s", l->name);
}

int source_found(const struct rule_table *rules, const struct route_table *routes,
                 const struct link_table *links, struct plan *ret) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        int r = 0;

        for (size_t k = 0; r == 0 && k < rules->n; k++) {
                struct plan_op op = { .kind = OP_RULE, .rule = rules->rules[k] };

                if (!source_is_own_rule(&rules->rules[k]))
                        continue;
                op.index = (int) (rules->rules[k].table - SOURCE_TABLE_BASE);
                name_nic(&op, links);
                source_rule_subject(&rules->rules[k], op.subject);
                finding_set(op.to, "priority %u", rules->rules[k].priority);
                r = plan_add(&p, &op);
        }
        for (size_t k = 0; r == 0 && k < routes->n; k++) {
                struct plan_op op = { .kind = OP_SOURCE_ROUTE, .route = routes->routes[k] };

                if (!source_is_own_route(&routes->routes[k]))
                        continue;
                op.index = (int) (routes->routes[k].table - SOURCE_TABLE_BASE);
                name_nic(&op, links);
                source_route_subject(&routes->routes[k], op.subject);
                source_route_value(&routes->routes[k], op.to);
                r = plan_add(&p, &op);
        }
        if (r < 0)
                return r;
        *ret = p;
        p = PLAN_NULL;
        return 0;
}

static const int families[] = { AF_INET, AF_INET6 };

/* --- What a table of ours holds ----------------------------------------------------------------------- */

enum use {
        USE_NOT,
        USE_COPY,  /* it leads out by the NIC alone */
        USE_THROW, /* it leads elsewhere than to data-centre NICs */
};

/* Whether it leads to a part of a subnet that the NIC has an address in. */
static bool in_subnet_of(const struct found *f, const struct link *nic, const struct route *r) {
        for (size_t k = 0; k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];
                uint8_t subnet[16];

                if (a->index != nic->index || a->family != r->family || a->prefix_len == 0 ||
                    a->prefix_len > r->dst_len)
                        continue;
                address_subnet(a, subnet);
                if (prefix_covers(subnet, a->prefix_len, r->dst))
                        return true;
        }
        return false;
}

/* Of another data-centre NIC, and not of this one: what leads there by this one was not meant so. */
static bool in_subnet_of_another(const struct intent *i, const struct found *f, const struct link *nic,
                                 const struct route *r) {
        for (size_t k = 0; k < f->links.n; k++) {
                const struct link *l = &f->links.links[k];

                if (l->index != nic->index && intent_is_data_nic(i, l) && in_subnet_of(f, l, r))
                        return !in_subnet_of(f, nic, r);
        }
        return false;
}

static bool single_hop(const struct route *r) {
        return r->type == RTN_UNICAST && r->n_hops == 1 && !r->special;
}

static enum use use_of_route(const struct intent *i, const struct found *f, const struct link *nic,
                       const struct route *r) {
        const struct link *l;

        if (r->table != RT_TABLE_MAIN || r->tos != 0)
                return USE_NOT;
        l = single_hop(r) ? link_by_index(&f->links, r->hops[0]) : NULL;
        if (l && l->index == nic->index)
                return in_subnet_of_another(i, f, nic, r) ? USE_NOT : USE_COPY;
        if (r->dst_len == 0 || (l && intent_is_data_nic(i, l)))
                return USE_NOT;
        /* What takes the NIC's own subnet from it is not followed; one host in it may be a container's. */
        if (l && r->dst_len < (r->family == AF_INET ? 32 : 128) && in_subnet_of(f, nic, r))
                return USE_NOT;
        return USE_THROW;
}

struct pick {
        const struct route *route;
        enum use use;
};

static int compare_destinations(const struct route *a, const struct route *b) {
        return a->dst_len != b->dst_len ? a->dst_len - b->dst_len : memcmp(a->dst, b->dst, sizeof(a->dst));
}

/* Of two for the same destination, the one that the main table takes comes first. */
static int compare_picks(const void *a, const void *b) {
        const struct pick *x = a, *y = b;

        return compare_destinations(x->route, y->route) ?:
               COMPARE(x->route->priority, y->route->priority) ?:
               COMPARE(y->use == USE_COPY, x->use == USE_COPY) ?:
               memcmp(x->route->gateway, y->route->gateway, sizeof(x->route->gateway));
}

/* What goes into the table, one for each destination. Picks has room for all routes. Returns how many. */
static size_t pick_routes(const struct intent *i, const struct found *f, const struct link *nic, int family,
                   struct pick *picks) {
        size_t all = 0, n = 0;

        for (size_t k = 0; k < f->routes.n; k++) {
                const struct route *r = &f->routes.routes[k];
                enum use use = r->family == family ? use_of_route(i, f, nic, r) : USE_NOT;

                if (use != USE_NOT)
                        picks[all++] = (struct pick) { r, use };
        }
        if (all > 0)
                qsort(picks, all, sizeof(*picks), compare_picks);
        for (size_t k = 0; k < all; k++)
                if (n == 0 || compare_destinations(picks[n - 1].route, picks[k].route) != 0)
                        picks[n++] = picks[k];
        return n;
}

/* The order in which they are written. */
enum stage {
        STAGE_THROW,
        STAGE_LINK,
        STAGE_GATEWAY,
        STAGE_DEFAULT,
        _STAGE_MAX,
};

static enum stage stage_of(const struct route *r) {
        return r->type == RTN_THROW ? STAGE_THROW :
               r->dst_len == 0      ? STAGE_DEFAULT :
               r->has_gateway       ? STAGE_GATEWAY :
                                      STAGE_LINK;
}

static struct route our_copy(const struct intent *i, const struct link *nic, const struct route *r,
                             enum use use) {
        struct route copy = *r;

        assert(nic->index > 0);
        copy.table = SOURCE_TABLE_BASE + (uint32_t) nic->index;
        copy.protocol = SOURCE_PROTOCOL;
        copy.priority = SOURCE_METRIC;
        /* The gateway is beside the NIC, for the main table has it there: the copy needs no second look at
         * it, which would fail where its subnet has gone since. */
        copy.onlink = copy.has_gateway && use == USE_COPY;
        copy.nexthop = 0; /* it stays when the object goes */
        for (int k = 0; k <= RTAX_MAX; k++)
                copy.locks &= ~(has_metric(&copy, k) ? 0 : 1U << k);
        if (use == USE_THROW)
                copy.type = RTN_THROW;
        else if (i->rto_min > 0) {
                copy.metrics[RTAX_RTO_MIN] = (uint32_t) (i->rto_min / USEC_PER_MSEC);
                copy.locks |= 1U << RTAX_RTO_MIN;
        }
        return copy;
}

static int add_route(const struct intent *i, const struct link *nic, const struct route *copy,
                     struct plan *p) {
        struct plan_op op = { .kind = OP_SOURCE_ROUTE,
                         .index = nic->index,
                         .carrier_changes = nic->carrier_changes,
                         .route = *copy };

        if (p->n == SOURCE_MAX)
                return -E2BIG;
        (void) snprintf(op.nic, sizeof(op.nic), "%s", nic->name);
        source_route_subject(&op.route, op.subject);
        source_route_value(&op.route, op.to);
        finding_set(op.source, "%s", i->source_routing_source);
        return plan_add(p, &op);
}

/* One of at least that prefix. */
static bool nic_has_address(const struct found *f, const struct link *nic, int family, uint8_t prefix_len) {
        for (size_t k = 0; k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];

                if (a->index == nic->index && a->family == family && a->prefix_len >= prefix_len)
                        return true;
        }
        return false;
}

static int add_default_by_host(const struct intent *i, const struct found *f, const struct link *nic,
                               int family, struct plan *p) {
        const uint8_t whole = family == AF_INET ? 32 : 128; /* an address of its own, without a subnet */
        const struct route *host = NULL; /* the one that is beside it */
        struct route r = { .family = family, .type = RTN_UNICAST, .has_gateway = true, .n_hops = 1,
                           .hops = { nic->index }, .gateway_family = family };

        for (size_t k = 0; k < f->routes.n; k++) {
                const struct route *other = &f->routes.routes[k];

                if (other->family != family || use_of_route(i, f, nic, other) != USE_COPY ||
                    other->has_gateway || other->dst_len != whole)
                        continue;
                /* The kernel itself adds a route to an address that has no subnet: that is no gateway. */
                if (address_find(&f->addresses, 0, family, other->dst))
                        continue;
                if (host && memcmp(host->dst, other->dst, sizeof(host->dst)) != 0)
                        return 0; /* which of them is it? */
                host = other;
        }
        if (!host || !nic_has_address(f, nic, family, whole))
                return 0;
        memcpy(r.gateway, host->dst, sizeof(r.gateway));
        r = our_copy(i, nic, &r, USE_COPY);
        return add_route(i, nic, &r, p);
}

/* Whether the main table has a route of that destination. */
static bool is_taken(const struct found *f, const struct route *r) {
        for (size_t k = 0; k < f->routes.n; k++)
                if (f->routes.routes[k].table == RT_TABLE_MAIN && f->routes.routes[k].family == r->family &&
                    compare_destinations(&f->routes.routes[k], r) == 0)
                        return true;
        return false;
}

static bool has_pick(const struct pick *picks, size_t n, const struct route *r) {
        for (size_t k = 0; k < n; k++)
                if (compare_destinations(picks[k].route, r) == 0)
                        return true;
        return false;
}

/* The kernel's routes to the NIC's own subnets, where someone else's stand in their place in the main table:
 * what is sent from its addresses still leaves by it. made has room for one for each address. */
static size_t pick_own_subnets(const struct found *f, const struct link *nic, int family,
                               struct pick *picks, size_t n, struct route *made) {
        for (size_t k = 0; nic->up && k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];
                struct route *r = &made[k];

                if (a->index != nic->index || a->family != family || a->no_prefix_route ||
                    a->prefix_len == 0 || a->prefix_len >= (family == AF_INET ? 32 : 128))
                        continue;
                *r = route_to_subnet(a);
                if (is_taken(f, r) && !has_pick(picks, n, r))
                        picks[n++] = (struct pick) { r, USE_COPY };
        }
        return n;
}

static int add_table(const struct intent *i, const struct found *f, const struct link *nic, int family,
                     struct plan *p) {
        _cleanup_free_ struct pick *picks = calloc(f->routes.n + f->addresses.n + 1, sizeof(*picks));
        _cleanup_free_ struct route *made = calloc(f->addresses.n + 1, sizeof(*made));
        bool leads_out = false, has_default = false;
        size_t n;
        int r = 0;

        if (!picks || !made)
                return -ENOMEM;
        n = pick_routes(i, f, nic, family, picks);
        n = pick_own_subnets(f, nic, family, picks, n, made);
        for (size_t k = 0; k < n; k++) {
                leads_out |= picks[k].use == USE_COPY;
                has_default |= picks[k].route->dst_len == 0;
        }
        if (!leads_out)
                return 0; /* the link is down, say: an empty table, and the main one goes on */
        for (enum stage s = 0; s < _STAGE_MAX; s++)
                for (size_t k = 0; r == 0 && k < n; k++) {
                        struct route copy = our_copy(i, nic, picks[k].route, picks[k].use);

                        if (stage_of(&copy) == s)
                                r = add_route(i, nic, &copy, p);
                }
        return r < 0 || has_default ? r : add_default_by_host(i, f, nic, family, p);
}

/* --- What is wanted ----------------------------------------------------------------------------------- */

const struct rule *source_foreign_rule(const struct found *f, const struct address *a) {
        for (size_t k = 0; k < f->rules.n; k++) {
                const struct rule *r = &f->rules.rules[k];

                if (r->src_len > 0 && !r->narrow && !source_is_own_rule(r) &&
                    rule_covers(r, a->family, a->bytes))
                        return r;
        }
        return NULL;
}

bool source_is_due(const struct intent *i, const struct found *f, int family) {
        int first = 0; /* the index of one that has; no NIC's is 0 */

        for (size_t k = 0; k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];
                const struct link *nic;

                if (a->family != family || a->index == first)
                        continue;
                nic = link_by_index(&f->links, a->index);
                if (!nic || !intent_is_data_nic(i, nic))
                        continue;
                if (first != 0)
                        return true;
                first = a->index;
        }
        return false;
}

/* One address with two prefixes has one rule. */
static bool earlier_too(const struct found *f, const struct address *a) {
        return address_find(&f->addresses, a->index, a->family, a->bytes) != a;
}

static int add_rules(const struct intent *i, const struct found *f, int family, struct plan *p) {
        for (size_t k = 0; k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];
                const struct link *nic = link_by_index(&f->links, a->index);
                struct plan_op op = { .kind = OP_RULE,
                                 .index = a->index,
                                 .rule = { .family = family,
                                           .src_len = family == AF_INET ? 32 : 128,
                                           .table = SOURCE_TABLE_BASE + (uint32_t) a->index,
                                           .priority = SOURCE_PRIORITY,
                                           .action = FR_ACT_TO_TBL,
                                           .protocol = SOURCE_PROTOCOL } };
                int r;

                if (a->family != family || !nic || !intent_is_data_nic(i, nic) || earlier_too(f, a) ||
                    source_foreign_rule(f, a))
                        continue;
                if (p->n == SOURCE_MAX)
                        return -E2BIG;
                memcpy(op.rule.src, a->bytes, sizeof(op.rule.src));
                (void) snprintf(op.nic, sizeof(op.nic), "%s", nic->name);
                source_rule_subject(&op.rule, op.subject);
                finding_set(op.to, "priority %u", SOURCE_PRIORITY);
                finding_set(op.source, "%s", i->source_routing_source);
                r = plan_add(p, &op);
                if (r < 0)
                        return r;
        }
        return 0;
}

int source_error(const struct found *f) {
        return f->links_error < 0     ? f->links_error :
               f->addresses_error < 0 ? f->addresses_error :
               f->rules_error < 0     ? f->rules_error :
                                        f->routes_error;
}

int source_wanted(const struct intent *i, const struct found *f, struct plan *ret) {
        _cleanup_plan_ struct plan p = PLAN_NULL;
        bool known = i->source_routing && source_error(f) == 0, due[ELEMENTSOF(families)];
        int r = 0;

        for (size_t n = 0; n < ELEMENTSOF(families); n++)
                due[n] = known && source_is_due(i, f, families[n]);
        for (size_t n = 0; n < ELEMENTSOF(families); n++)
                for (size_t k = 0; due[n] && r == 0 && k < f->links.n; k++)
                        if (nic_has_address(f, &f->links.links[k], families[n], 0) &&
                            intent_is_data_nic(i, &f->links.links[k]))
                                r = add_table(i, f, &f->links.links[k], families[n], &p);
        for (size_t n = 0; r == 0 && n < ELEMENTSOF(families); n++)
                if (due[n])
                        r = add_rules(i, f, families[n], &p);
        if (r < 0)
                return r;
        *ret = p;
        p = PLAN_NULL;
        return 0;
}
