/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/rtnetlink.h>

#include "finding.h"
#include "route_text.h"
#include "source.h"

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

bool plan_is_data_route(const struct intent *i, const struct link_table *links, const struct route *r) {
        if (r->type != RTN_UNICAST || r->n_hops == 0 || r->n_hops > ROUTE_HOPS_MAX || source_is_own_route(r))
                return false;
        for (unsigned k = 0; k < r->n_hops; k++) {
                const struct link *l = link_by_index(links, r->hops[k]);

                if (!l || !intent_is_data_nic(i, l))
                        return false;
        }
        return true;
}
