/* SPDX-License-Identifier: Apache-2.0 */
/* Source routing (source.h) as a part of a plan: from what is ours and what is wanted to writes and
 * verdicts. Pure. */
#include "check_words.h"
#include "route_words.h"
#include "source.h"

/* --- What to do --------------------------------------------------------------------------------------- */

static const struct plan_op *find_op(const struct plan *p, const struct plan_op *op) {
        for (size_t k = 0; k < p->n; k++)
                if (p->ops[k].kind == op->kind && p->ops[k].index == op->index &&
                    streq(p->ops[k].subject, op->subject) &&
                    (op->kind != OP_RULE || streq(p->ops[k].to, op->to)))
                        return &p->ops[k];
        return NULL;
}

static int add_change_op(struct plan *p, const struct plan_op *op, const char *from, const char *to,
                      const char *source) {
        struct plan_op change = *op;

        finding_set(change.from, "%s", from);
        finding_set(change.to, "%s", to);
        finding_set(change.source, "%s", source);
        return plan_add(p, &change);
}

/* A table's routes go default route first, its throws last. */
static int removal_stage(const struct plan_op *op) {
        return op->kind == OP_RULE          ? 0 :
               op->route.dst_len == 0       ? 1 :
               op->route.type != RTN_THROW ? 2 :
                                             3;
}

static int add_removals(struct plan *p, const struct plan *own, const struct plan *wanted,
                        const char *source) {
        for (int stage = 0; stage <= 3; stage++)
                for (size_t k = 0; k < own->n; k++) {
                        const struct plan_op *op = &own->ops[k];
                        int r;

                        if (removal_stage(op) != stage || (wanted && find_op(wanted, op)))
                                continue;
                        r = add_change_op(p, op, op->to, SOURCE_ABSENT, source);
                        if (r < 0)
                                return r;
                }
        return 0;
}

int source_add_removal(struct plan *p, const struct plan *own, const char *source) {
        return add_removals(p, own, NULL, source);
}

/* What is ours and what is wanted, and what is to be done. Returns as source_wanted(). */
static int compare_source(const struct intent *i, const struct found *f, struct plan *own,
                          struct plan *wanted, struct plan *due) {
        int r = source_found(&f->rules, &f->routes, &f->links, own);

        if (r == 0)
                r = source_wanted(i, f, wanted);
        if (r == 0)
                r = add_removals(due, own, wanted, "nothing asks for it any more");
        for (size_t k = 0; r == 0 && k < wanted->n; k++) {
                const struct plan_op *op = &wanted->ops[k], *now = find_op(own, op);

                if (!now || !streq(now->to, op->to))
                        r = add_change_op(due, op, now ? now->to : SOURCE_ABSENT, op->to, op->source);
        }
        return r;
}

int plan_add_source(struct plan *p, const struct intent *i, const struct found *f) {
        _cleanup_plan_ struct plan own = PLAN_NULL, wanted = PLAN_NULL;
        int r = source_error(f) < 0 ? 0 : compare_source(i, f, &own, &wanted, p);

        /* Half of them would lead astray, and what is there is of another time; the finding says so. */
        return r == -E2BIG ? source_add_removal(p, &own, "more would be needed than are handled") : r;
}

/* --- The verdict -------------------------------------------------------------------------------------- */

#define CHECK "route.source"

static const int families[] = { AF_INET, AF_INET6 };

/* What is to be done for one NIC, and what is there for it. */
struct account {
        size_t addresses, pending, rules, routes;
        bool no_default[ELEMENTSOF(families)]; /* it has addresses of the family, and no default route */
        const struct rule *foreign; /* for one of its addresses */
        const struct plan_op *first; /* of those that are pending */
};

static void count_ops(const struct link *nic, const struct plan *own, const struct plan *due,
                      struct account *a) {
        for (size_t k = 0; k < own->n; k++) {
                a->rules += own->ops[k].index == nic->index && own->ops[k].kind == OP_RULE;
                a->routes += own->ops[k].index == nic->index && own->ops[k].kind == OP_SOURCE_ROUTE;
        }
        for (size_t k = 0; k < due->n; k++)
                if (due->ops[k].index == nic->index) {
                        a->first = a->first ? a->first : &due->ops[k];
                        a->pending++;
                }
}

static void count_addresses(const struct found *f, const bool due[static ELEMENTSOF(families)],
                            const struct link *nic, const struct plan *wanted, struct account *a) {
        for (size_t n = 0; n < ELEMENTSOF(families); n++) {
                size_t had = a->addresses;

                if (!due[n])
                        continue;
                for (size_t k = 0; k < f->addresses.n; k++) {
                        const struct address *address = &f->addresses.addresses[k];

                        if (address->index != nic->index || address->family != families[n])
                                continue;
                        a->addresses++;
                        if (!a->foreign)
                                a->foreign = source_foreign_rule(f, address);
                }
                a->no_default[n] = a->addresses > had;
                for (size_t k = 0; k < wanted->n; k++) {
                        const struct plan_op *op = &wanted->ops[k];

                        if (op->kind == OP_SOURCE_ROUTE && op->index == nic->index &&
                            op->route.dst_len == 0 && op->route.family == families[n])
                                a->no_default[n] = false;
                }
        }
}

static void judge_nic(const struct intent *i, const struct link *nic, const struct account *a,
                      struct finding *ret) {
        char pending[24], words[ROUTE_WORDS_MAX];

        finding_init(ret, CHECK, nic->name);
        finding_set(ret->source, "%s", i->source_routing_source);
        finding_set(ret->found, "table %u: rules %zu, routes %zu", SOURCE_TABLE_BASE + (uint32_t) nic->index,
                    a->rules, a->routes);
        ret->verdict = VERDICT_OK;
        if (a->pending > 0) {
                (void) snprintf(pending, sizeof(pending), "%zu", a->pending);
                check_say(ret, WORDS_SOURCE_PENDING, pending, a->first->subject, a->first->from,
                          a->first->to);
        } else if (a->foreign) /* where it leads is route.foreign's to say */
                finding_set(ret->found, "left to rule %s", rule_words(a->foreign, words));
        else if (a->no_default[0] || a->no_default[1])
                check_say(ret, WORDS_SOURCE_NO_GATEWAY, a->no_default[0] ? "IPv4" : "IPv6",
                          a->no_default[0] ? "-4" : "-6");
}

static int judge_leftovers(const struct intent *i, const struct found *f, const struct plan *due,
                           struct finding_list *l) {
        bool wanted = i->source_routing && (source_is_due(i, f, AF_INET) || source_is_due(i, f, AF_INET6));
        struct finding finding;
        size_t n = 0;

        for (size_t k = 0; k < due->n; k++) {
                const struct link *nic = link_by_index(&f->links, due->ops[k].index);

                n += !wanted || !nic || !intent_is_data_nic(i, nic);
        }
        if (n == 0)
                return 0;
        check_tell(&finding, WORDS_SOURCE_LEFT, "");
        finding_set(finding.found, "%zu rules and routes of ours that nothing asks for any more", n);
        return finding_list_add(l, &finding);
}

static int judge_unread(const struct intent *i, const struct found *f, int error, struct finding_list *l) {
        struct finding finding;

        if (!i->source_routing || intent_count_data_nics(i, &f->links) < 2)
                return 0;
        finding_init(&finding, CHECK, "");
        finding_set(finding.source, "%s", i->source_routing_source);
        if (error == -E2BIG)
                finding_set(finding.reason,
                            "more routes, rules or addresses than are handled (%d): nothing is set",
                            SOURCE_MAX);
        else
                finding_set(finding.reason, "routes, rules or addresses cannot be read: %s",
                            strerror(-error));
        return finding_list_add(l, &finding);
}

static int judge_all(const struct intent *i, const struct found *f, const struct plan *own,
                     const struct plan *wanted, const struct plan *due, struct finding_list *l) {
        bool due_families[ELEMENTSOF(families)];
        struct finding finding;
        int r = 0;

        for (size_t n = 0; n < ELEMENTSOF(families); n++)
                due_families[n] = i->source_routing && source_is_due(i, f, families[n]);
        for (size_t k = 0; i->source_routing && r == 0 && k < f->links.n; k++) {
                const struct link *nic = &f->links.links[k];
                struct account a = { 0 };

                if (!intent_is_data_nic(i, nic))
                        continue;
                count_addresses(f, due_families, nic, wanted, &a);
                count_ops(nic, own, due, &a);
                if (a.addresses == 0)
                        continue;
                judge_nic(i, nic, &a, &finding);
                r = finding_list_add(l, &finding);
        }
        return r < 0 ? r : judge_leftovers(i, f, due, l);
}

int plan_judge_source(const struct intent *i, const struct found *f, struct finding_list *l) {
        _cleanup_plan_ struct plan own = PLAN_NULL, wanted = PLAN_NULL, due = PLAN_NULL;
        int r = source_error(f);

        if (r < 0)
                return judge_unread(i, f, r, l);
        r = compare_source(i, f, &own, &wanted, &due);
        if (r == -E2BIG)
                return judge_unread(i, f, r, l);
        return r < 0 ? r : judge_all(i, f, &own, &wanted, &due, l);
}
