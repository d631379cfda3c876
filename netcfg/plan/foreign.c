/* SPDX-License-Identifier: Apache-2.0 */
#include "foreign.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "check_words.h"
#include "lookup.h"
#include "main_rule.h"
#include "nic_setting.h"
#include "route_words.h"
#include "source.h"

static uint8_t whole_len(int family) {
        return family == AF_INET ? 32 : 128;
}

/* The NIC that a route leads out by; empty: none, or of several the first is not known. */
static const char *nic_of(const struct found *f, const struct route *r) {
        const struct link *l =
                r->type == RTN_UNICAST && r->n_hops > 0 ? link_by_index(&f->links, r->hops[0]) : NULL;

        return l ? l->name : "";
}

/* --- Who takes the run's traffic ---------------------------------------------------------------------- */

#define SAID_MAX 64

struct judging {
        const struct intent *i;
        const struct found *f;
        struct finding_list *l;
        const void *said[SAID_MAX]; /* routes, rules and addresses that have a finding */
        size_t n_said;
        int error;
};

/* An address of a data-centre NIC, and its subnet. */
struct home {
        const struct link *nic;
        const struct address *address;
        uint8_t subnet[16];
        bool has_subnet;
};

static struct home home_of(const struct link *nic, const struct address *a) {
        struct home h = { .nic = nic, .address = a,
                          .has_subnet = a->prefix_len > 0 && a->prefix_len < whole_len(a->family) };

        address_subnet(a, h.subnet);
        return h;
}

/* Another data-centre NIC in the same subnet is as good. */
static bool is_at_home(const struct judging *j, const struct home *h, int index) {
        const struct link *l = link_by_index(&j->f->links, index);

        if (index == h->nic->index)
                return true;
        if (!l || !intent_is_data_nic(j->i, l) || !h->has_subnet)
                return false;
        for (size_t k = 0; k < j->f->addresses.n; k++) {
                const struct address *a = &j->f->addresses.addresses[k];

                if (a->index == index && a->family == h->address->family &&
                    prefix_covers(h->subnet, h->address->prefix_len, a->bytes))
                        return true;
        }
        return false;
}

/* What is wrapped goes to who unwraps it, whatever NIC it leaves by. */
static bool leads_home(const struct judging *j, const struct home *h, const struct route *r) {
        if (r->type != RTN_UNICAST || r->n_hops == 0 || r->wraps)
                return false;
        for (unsigned k = 0; k < MIN(r->n_hops, (unsigned) ROUTE_HOPS_MAX); k++)
                if (!is_at_home(j, h, r->hops[k]))
                        return false;
        return true;
}

/* A host route to a device of this host: a container behind it. */
static bool is_local_host(const struct judging *j, const struct route *r) {
        const struct link *l = link_by_index(&j->f->links, r->hops[0]);

        return r->type == RTN_UNICAST && r->dst_len == whole_len(r->family) &&
               !(l && intent_is_data_nic(j->i, l));
}

static bool is_in_subnet(const struct home *h, int family, const uint8_t *prefix, uint8_t len) {
        return h->has_subnet && family == h->address->family && len >= h->address->prefix_len &&
               prefix_covers(h->subnet, h->address->prefix_len, prefix);
}

static bool is_foreign_rule(const struct rule *r) {
        return !source_is_own_rule(r) &&
               !(r->action == FR_ACT_TO_TBL && (r->table == RT_TABLE_MAIN || r->table == RT_TABLE_DEFAULT));
}

static bool is_new(struct judging *j, const void *culprit) {
        for (size_t k = 0; k < j->n_said; k++)
                if (j->said[k] == culprit)
                        return false;
        if (j->n_said == SAID_MAX)
                return false;
        j->said[j->n_said++] = culprit;
        return true;
}

static void add_foreign(struct judging *j, const struct finding *finding) {
        if (j->error == 0)
                j->error = finding_list_add(j->l, finding);
}

/* "10.10.1.0/24 dev eth1 proto kernel scope link src 10.10.1.10 metric 0" */
static void own_route_arguments(const struct home *h, uint32_t priority, char buf[static ROUTE_WORDS_MAX]) {
        struct route r = route_to_subnet(h->address);

        r.priority = priority;
        (void) route_arguments(&r, h->nic->name, false, buf);
}

static bool has_own_route(const struct judging *j, const struct home *h) {
        for (size_t k = 0; k < j->f->routes.n; k++) {
                const struct route *r = &j->f->routes.routes[k];

                if (r->table == RT_TABLE_MAIN && r->dst_len == h->address->prefix_len &&
                    is_in_subnet(h, r->family, r->dst, r->dst_len) && leads_home(j, h, r))
                        return true;
        }
        return false;
}

/* out: what to say of a route to other networks; _WORDS_MAX: it takes the NIC's own subnet. */
static void blame_route(struct judging *j, const struct home *h, const struct route *r,
                        enum check_words out) {
        char arguments[ROUTE_WORDS_MAX], words[ROUTE_WORDS_MAX], dst[ROUTE_DST_MAX];
        const char *option = ip_family_option(r->family), *nic = nic_of(j->f, r);
        struct finding finding;

        if (!is_new(j, r))
                return;
        route_format_dst(r, dst);
        (void) route_arguments(r, nic, true, arguments);
        if (!arguments[0]) /* of several next hops, say */
                (void) snprintf(arguments, sizeof(arguments), "%s table %" PRIu32 " metric %" PRIu32,
                                r->dst_len == 0 ? "default" : dst, r->table, r->priority);
        if (out != _WORDS_MAX)
                check_tell(&finding, out, h->nic->name, route_owner(r->protocol), option, arguments);
        else if (r->table == RT_TABLE_MAIN && r->dst_len == h->address->prefix_len && !has_own_route(j, h)) {
                own_route_arguments(h, r->priority, arguments);
                check_tell(&finding, WORDS_FOREIGN_INSTEAD, h->nic->name, route_owner(r->protocol), option,
                           arguments);
        } else
                check_tell(&finding, WORDS_FOREIGN_ROUTE, h->nic->name, route_owner(r->protocol), option,
                           arguments);
        finding_set(finding.found, "%s", route_words(r, nic, words));
        add_foreign(j, &finding);
}

static void blame_rule(struct judging *j, const struct home *h, const struct rule *r, enum check_words w) {
        char words[ROUTE_WORDS_MAX], arguments[ROUTE_WORDS_MAX];
        struct finding finding;

        if (!is_new(j, r))
                return;
        check_tell(&finding, w, h->nic->name, route_owner(r->protocol), ip_family_option(r->family),
                   rule_arguments(r, arguments));
        finding_set(finding.found, "rule %s", rule_words(r, words));
        add_foreign(j, &finding);
}

static void blame_nobody(struct judging *j, const struct home *h, const struct route *taken) {
        char arguments[ROUTE_WORDS_MAX], words[ROUTE_WORDS_MAX];
        struct finding finding;

        if (!rules_lead_to_main(&j->f->rules, h->address->family) || !is_new(j, h->address))
                return;
        own_route_arguments(h, h->address->family == AF_INET ? 0 : 256, arguments);
        check_tell(&finding, WORDS_FOREIGN_GONE, h->nic->name, ip_family_option(h->address->family),
                   arguments);
        finding_set(finding.found, "%s",
                    taken ? route_words(taken, nic_of(j->f, taken), words) : "no route");
        add_foreign(j, &finding);
}

/* To a part of the NIC's own subnet. */
static void judge_home_flow(struct judging *j, const struct home *h, const struct flow *flow,
                            const struct rule *taken) {
        struct lookup k = lookup_flow(j->f, flow, taken);

        if ((taken && k.rule != taken) || (k.route && (leads_home(j, h, k.route) ||
                                                       is_local_host(j, k.route) ||
                                                       source_is_own_route(k.route))))
                return;
        if (taken)
                blame_rule(j, h, taken, WORDS_FOREIGN_RULE_SOME);
        else if (k.route && is_in_subnet(h, k.route->family, k.route->dst, k.route->dst_len))
                blame_route(j, h, k.route, _WORDS_MAX);
        else if (k.rule && is_foreign_rule(k.rule))
                blame_rule(j, h, k.rule, WORDS_FOREIGN_RULE);
        else
                blame_nobody(j, h, k.route);
}

/* From no address and from the NIC's own, by each rule that may fit. */
static void judge_home_prefix(struct judging *j, const struct home *h, const uint8_t *to, uint8_t len) {
        struct flow flow = { h->address->family, NULL, to, len };

        for (int bound = 0; bound <= 1; bound++) {
                flow.source = bound ? h->address->bytes : NULL;
                judge_home_flow(j, h, &flow, NULL);
                for (size_t k = 0; k < j->f->rules.n; k++)
                        if (j->f->rules.rules[k].fit == RULE_MAY_FIT)
                                judge_home_flow(j, h, &flow, &j->f->rules.rules[k]);
        }
}

/* The subnet, and what routes and rules make parts of it. */
static void judge_home(struct judging *j, const struct home *h) {
        judge_home_prefix(j, h, h->subnet, h->address->prefix_len);
        for (size_t k = 0; k < j->f->routes.n; k++) {
                const struct route *r = &j->f->routes.routes[k];

                if (r->dst_len > h->address->prefix_len && r->type != RTN_THROW &&
                    is_in_subnet(h, r->family, r->dst, r->dst_len) && !leads_home(j, h, r) &&
                    !is_local_host(j, r) && !source_is_own_route(r))
                        judge_home_prefix(j, h, r->dst, r->dst_len);
        }
        for (size_t k = 0; k < j->f->rules.n; k++) {
                const struct rule *r = &j->f->rules.rules[k];

                if (r->dst_len > h->address->prefix_len && r->fit != RULE_NO_FIT &&
                    is_in_subnet(h, r->family, r->dst, r->dst_len))
                        judge_home_prefix(j, h, r->dst, r->dst_len);
        }
}

/* Google Cloud gives a NIC an address without its subnet. The longest route that covers the address leads
 * to the subnet, or to a part of it; by a data-centre NIC it leads where the default routes do. */
static void judge_around(struct judging *j, const struct home *h) {
        const struct address *a = h->address;
        const struct flow around = { a->family, NULL, a->bytes, (uint8_t) (whole_len(a->family) - 1) };
        struct lookup k = lookup_flow(j->f, &around, NULL);
        const struct route *r = k.route;

        if (r && (r->dst_len == 0 || source_is_own_route(r) ||
                  (source_is_data_route(j->i, &j->f->links, r) && !r->wraps)))
                return;
        if (r)
                blame_route(j, h, r, _WORDS_MAX);
        else if (k.rule && is_foreign_rule(k.rule))
                blame_rule(j, h, k.rule, WORDS_FOREIGN_RULE);
}

static bool has_default(const struct judging *j, const struct home *h) {
        for (size_t k = 0; k < j->f->routes.n; k++) {
                const struct route *r = &j->f->routes.routes[k];

                if (r->family == h->address->family && r->dst_len == 0 && leads_home(j, h, r))
                        return true;
        }
        return false;
}

/* From its address to other networks: of several data-centre NICs, what our own rules see to; of one, what
 * its default route does. */
static void judge_way_out(struct judging *j, const struct home *h) {
        static const uint8_t anywhere[16];
        const struct address *a = h->address;
        const struct flow flow = { a->family, a->bytes, anywhere, 0 };
        bool alone = intent_count_data_nics(j->i, &j->f->links) < 2;
        struct lookup k;

        if (!has_default(j, h) || (!alone && !j->i->source_routing))
                return;
        k = lookup_flow(j->f, &flow, NULL);
        if (k.route && leads_home(j, h, k.route))
                return;
        if (k.rule && is_foreign_rule(k.rule))
                blame_rule(j, h, k.rule, WORDS_FOREIGN_RULE_OUT);
        else if (source_foreign_rule(j->f, a)) /* which is why there is none of ours */
                blame_rule(j, h, source_foreign_rule(j->f, a), WORDS_FOREIGN_RULE_OUT);
        else if (alone && k.route && !source_is_own_route(k.route))
                blame_route(j, h, k.route, WORDS_FOREIGN_DEFAULT);
}

/* Bits of a prefix that no network has for itself: IPv6's global addresses are 2000::/3. */
#define HALF_MAX(family) ((family) == AF_INET ? 7 : 3)

static const struct route *default_of_main(const struct found *f, int family) {
        const struct route *best = NULL;

        for (size_t k = 0; k < f->routes.n; k++) {
                const struct route *r = &f->routes.routes[k];

                if (r->family == family && r->table == RT_TABLE_MAIN && r->dst_len == 0 &&
                    r->type == RTN_UNICAST && (!best || r->priority < best->priority))
                        best = r;
        }
        return best;
}

/* Half of all addresses by another NIC: so VPNs go before the default route without touching it. */
static void judge_halves(struct judging *j, const struct home *h) {
        const struct route *first = default_of_main(j->f, h->address->family);

        if (!first || first->n_hops == 0 || first->hops[0] != h->nic->index)
                return;
        for (size_t k = 0; k < j->f->routes.n; k++) {
                const struct route *r = &j->f->routes.routes[k];

                if (r->family == h->address->family && r->table == RT_TABLE_MAIN && r->dst_len > 0 &&
                    r->dst_len <= HALF_MAX(r->family) && r->type == RTN_UNICAST && !leads_home(j, h, r))
                        blame_route(j, h, r, WORDS_FOREIGN_HALF);
        }
}

static int judge_unreadable(const struct found *f, struct finding_list *l) {
        struct finding finding;

        if (source_error(f) == -ENODATA)
                return 0; /* a recorded machine without them */
        finding_init(&finding, "route.foreign", "");
        finding_set(finding.reason, "routes, rules or addresses cannot be read: %s",
                    strerror(-source_error(f)));
        return finding_list_add(l, &finding);
}

int plan_judge_foreign(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct judging j = { .i = i, .f = f, .l = l };
        struct finding finding;

        if (i->no_tpu)
                return 0;
        if (source_error(f) < 0)
                return judge_unreadable(f, l);
        for (size_t k = 0; k < f->addresses.n; k++) {
                const struct address *a = &f->addresses.addresses[k];
                const struct link *nic = link_by_index(&f->links, a->index);
                struct home h;

                /* Without a link, its routes are gone, which is said of the NIC. */
                if (!nic || !intent_is_data_nic(i, nic) || !nic->up || !nic->carrier)
                        continue;
                h = home_of(nic, a);
                if (h.has_subnet)
                        judge_home(&j, &h);
                else
                        judge_around(&j, &h);
                judge_way_out(&j, &h);
                judge_halves(&j, &h);
        }
        if (j.error < 0 || j.n_said > 0)
                return j.error;
        check_tell(&finding, WORDS_FOREIGN_NONE, "");
        finding_set(finding.found, "none takes the run's traffic");
        return finding_list_add(l, &finding);
}

/* --- What routes carry -------------------------------------------------------------------------------- */

static bool is_link_local4(const struct route *r) {
        return r->family == AF_INET && r->dst_len >= 16 && r->dst[0] == 169 && r->dst[1] == 254;
}

/* What the NIC is to carry, or does where nothing is wanted. */
static uint32_t nic_mtu(const struct intent *i, const struct link *l) {
        uint32_t wanted = intent_mtu(i, l, NULL);

        return wanted > 0 ? wanted : l->mtu;
}

static bool is_narrow(const struct intent *i, const struct found *f, const struct route *r) {
        uint32_t headers = r->family == AF_INET ? 40 : 60, mtu;

        if (is_link_local4(r) || !source_is_data_route(i, &f->links, r))
                return false;
        mtu = nic_mtu(i, link_by_index(&f->links, r->hops[0]));
        return route_is_slow(r) || (r->metrics[RTAX_MTU] > 0 && r->metrics[RTAX_MTU] < mtu) ||
               (r->metrics[RTAX_ADVMSS] > 0 && r->metrics[RTAX_ADVMSS] + headers < mtu);
}

static void judge_narrow(const struct intent *i, const struct found *f, const struct route *r,
                         struct finding *ret) {
        const struct link *l = link_by_index(&f->links, r->hops[0]);
        char subject[64], words[ROUTE_WORDS_MAX], arguments[ROUTE_WORDS_MAX], mtu[16];

        (void) snprintf(mtu, sizeof(mtu), "%" PRIu32, nic_mtu(i, l));
        route_subject(r, &f->links, subject);
        (void) route_arguments(r, l->name, false, arguments);
        if (arguments[0])
                check_tell(ret, WORDS_ROUTE_NARROW, subject, mtu, route_owner(r->protocol),
                           ip_family_option(r->family), arguments);
        else
                check_tell(ret, WORDS_ROUTE_NARROW_HOPS, subject, mtu, route_owner(r->protocol),
                           ip_family_option(r->family));
        finding_set(ret->found, "%s", route_words(r, l->name, words));
}

/* What others have given routes that is no limit is a person's will, and named all the same. */
static void name_tuned(const struct found *f, const struct route *first, size_t n, struct finding *ret) {
        char subject[64], settings[ROUTE_WORDS_MAX], more[40] = "";

        finding_set(ret->found, "no route carries less than its NIC");
        if (n == 0)
                return;
        route_subject(first, &f->links, subject);
        if (n > 1)
                (void) snprintf(more, sizeof(more), " (and %zu more)", n - 1);
        finding_set(ret->found, "no route carries less than its NIC; %s has %s%s", subject,
                    route_settings(first, settings), more);
}

int plan_judge_route_mtus(const struct intent *i, const struct found *f, struct finding_list *l) {
        const struct route *tuned = NULL;
        struct finding finding;
        size_t narrow = 0, n = 0;
        int r = 0;

        if (i->no_tpu || f->links_error < 0 || f->routes_error < 0)
                return 0; /* which route.foreign says */
        for (size_t k = 0; r == 0 && k < f->routes.n; k++) {
                const struct route *route = &f->routes.routes[k];

                if (route_is_tuned(route) && !is_link_local4(route) &&
                    source_is_data_route(i, &f->links, route)) {
                        tuned = tuned ? tuned : route;
                        n++;
                }
                if (!is_narrow(i, f, route))
                        continue;
                narrow++;
                judge_narrow(i, f, route, &finding);
                r = finding_list_add(l, &finding);
        }
        if (r < 0 || narrow > 0)
                return r;
        check_tell(&finding, WORDS_ROUTE_WIDE, "");
        name_tuned(f, tuned, n, &finding);
        return finding_list_add(l, &finding);
}

/* --- What queues let pass ----------------------------------------------------------------------------- */

int plan_judge_qdiscs(const struct intent *i, const struct found *f, struct finding_list *l) {
        struct finding finding;
        int r = 0;

        if (i->no_tpu)
                return 0;
        if (f->qdiscs_error < 0) {
                check_tell(&finding, WORDS_NIC_QDISC_UNREAD, "", strerror(-f->qdiscs_error));
                return finding_list_add(l, &finding);
        }
        for (size_t k = 0; r == 0 && k < f->links.n; k++)
                if (intent_carries_data(i, &f->links, &f->links.links[k]) &&
                    nic_qdisc_judge(&f->qdiscs, &f->links.links[k], &finding))
                        r = finding_list_add(l, &finding);
        return r;
}

int plan_judge_others(const struct intent *i, const struct found *f, struct finding_list *l) {
        int r = plan_judge_main_rules(i, f, l);

        if (r == 0)
                r = plan_judge_foreign(i, f, l);
        return r < 0 ? r : plan_judge_route_mtus(i, f, l);
}
