/* SPDX-License-Identifier: Apache-2.0 */
#include "op.h"

#include <linux/rtnetlink.h>

#include "finding.h"
#include "grow.h"

void found_clear(struct found *f) {
        link_table_clear(&f->links);
        found_nic_settings_clear(&f->nic_settings);
        route_table_clear(&f->routes);
        rule_table_clear(&f->rules);
        address_table_clear(&f->addresses);
        qdisc_table_clear(&f->qdiscs);
        *f = FOUND_NULL;
}

void plan_clear(struct plan *p) {
        free(p->ops);
        *p = PLAN_NULL;
}

int plan_add(struct plan *p, const struct plan_op *op) {
        if (grow_by_one(&p->ops, p->n, sizeof(*p->ops)) < 0)
                return -ENOMEM;
        p->ops[p->n++] = *op;
        return 0;
}

const char *op_bit_name(const char *subject) {
        const char *blank = strchr(subject, ' '); /* the kernel gives no NIC a name with one */

        return blank && blank[1] ? blank + 1 : NULL;
}

const char *op_check(enum op_kind k) {
        static const char *const names[] = { [OP_SYSCTL] = "sysctl", [OP_PARAMETER] = "module.parameter",
                                             [OP_MTU] = "nic.mtu",
                                             [OP_ROUTE] = "route.rto_min", [OP_RULE] = "route.source",
                                             [OP_SOURCE_ROUTE] = "route.source",
                                             [OP_MAIN_RULE] = "route.rules" };

        _Static_assert(ELEMENTSOF(names) == OP_NIC_SETTING, "every kind has a name");
        if (k >= OP_NIC_SETTING)
                return nic_setting_check((enum nic_setting_kind) (k - OP_NIC_SETTING));
        return names[k];
}

const char *op_label(enum op_kind kind) {
        static const char *const labels[] = {
                [OP_SYSCTL] = "",
                [OP_PARAMETER] = "parameter ",
                [OP_MTU] = "MTU of ",
                [OP_ROUTE] = "least RTO of ",
                [OP_RULE] = "rule ",
                [OP_SOURCE_ROUTE] = "route ",
                [OP_MAIN_RULE] = "rule ",
                [OP_NIC_SETTING + NIC_FEATURE] = "feature of ",
                [OP_NIC_SETTING + NIC_PRIVATE_FLAG] = "private_flag of ",
        };

        _Static_assert(ELEMENTSOF(labels) == _OP_KIND_MAX, "every kind has a label");
        return labels[kind];
}

bool op_is_source(enum op_kind k) {
        return k == OP_RULE || k == OP_SOURCE_ROUTE || k == OP_MAIN_RULE;
}

/* --- Routes by name -------------------------------------------------------------------------------- */

void route_subject(const struct route *r, const struct link_table *links, char buf[static 64]) {
        const struct link *l = r->n_hops > 0 ? link_by_index(links, r->hops[0]) : NULL;
        char dst[ROUTE_DST_MAX], table[24] = "", tos[16] = "", metric[24] = "";

        route_format_dst(r, dst);
        if (r->table != RT_TABLE_MAIN)
                (void) snprintf(table, sizeof(table), " table %u", r->table);
        if (r->tos)
                (void) snprintf(tos, sizeof(tos), " tos %u", r->tos);
        if (r->priority)
                (void) snprintf(metric, sizeof(metric), " metric %u", r->priority);
        finding_format(buf, 64, "%s dev %s%s%s%s", dst, l ? l->name : "?", table, tos, metric);
}

const struct route *route_by_subject(const struct route_table *t, const struct link_table *links,
                                     const char *subject) {
        char text[64];

        for (size_t i = 0; i < t->n; i++) {
                route_subject(&t->routes[i], links, text);
                if (streq(text, subject))
                        return &t->routes[i];
        }
        return NULL;
}

void route_value(const struct route *r, char buf[static ROUTE_VALUE_MAX]) {
        if (r->rto_min_ms == 0)
                (void) snprintf(buf, ROUTE_VALUE_MAX, "none");
        else
                (void) snprintf(buf, ROUTE_VALUE_MAX, "%ums%s", r->rto_min_ms,
                                r->rto_min_locked ? ",lock" : "");
}

bool route_parse_value(const char *text, uint32_t *ret_ms, bool *ret_lock) {
        char *end;
        unsigned long ms;

        if (streq(text, "none")) {
                *ret_ms = 0;
                *ret_lock = false;
                return true;
        }
        if (text[0] < '1' || text[0] > '9')
                return false;
        ms = strtoul(text, &end, 10);
        if (ms > 3600 * 1000 || (!streq(end, "ms") && !streq(end, "ms,lock")))
                return false;
        *ret_ms = (uint32_t) ms;
        *ret_lock = streq(end, "ms,lock");
        return true;
}
