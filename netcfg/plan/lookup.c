/* SPDX-License-Identifier: Apache-2.0 */
#include "lookup.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

static bool flow_is_within(const struct flow *flow, const uint8_t *prefix, uint8_t len) {
        return flow->to_len >= len && prefix_covers(prefix, len, flow->to);
}

static bool rule_takes(const struct rule *r, const struct flow *flow, const struct rule *taken) {
        bool fits = (r->fit == RULE_FITS || r == taken) && flow_is_within(flow, r->dst, r->dst_len) &&
                    (r->src_len == 0 || (flow->source && prefix_covers(r->src, r->src_len, flow->source)));

        if (r->family != flow->family || (r->fit == RULE_MAY_FIT && r != taken))
                return false;
        return fits != (r->inverted && r != taken);
}

static const struct route *look_up_table(const struct found *f, const struct flow *flow, uint32_t table) {
        const struct route *best = NULL;

        for (size_t k = 0; k < f->routes.n; k++) {
                const struct route *r = &f->routes.routes[k];

                if (r->table == table && r->family == flow->family && r->tos == 0 &&
                    (!r->special || r->wraps) && flow_is_within(flow, r->dst, r->dst_len) &&
                    (!best || r->dst_len > best->dst_len ||
                     (r->dst_len == best->dst_len && r->priority < best->priority)))
                        best = r;
        }
        return best && best->type == RTN_THROW ? NULL : best;
}

static bool has_target(const struct found *f, const struct rule *r) {
        for (size_t k = 0; k < f->rules.n; k++)
                if (f->rules.rules[k].family == r->family && f->rules.rules[k].priority == r->target)
                        return r->target > r->priority;
        return false;
}

static bool has_rules(const struct found *f, int family) {
        for (size_t k = 0; k < f->rules.n; k++)
                if (f->rules.rules[k].family == family)
                        return true;
        return false;
}

struct lookup lookup_flow(const struct found *f, const struct flow *flow, const struct rule *taken) {
        uint32_t from = 0; /* where a rule leads on to */

        if (!has_rules(f, flow->family)) /* a kernel without them: there is the main table alone */
                return (struct lookup) { NULL, look_up_table(f, flow, RT_TABLE_MAIN) };
        for (size_t k = 0; k < f->rules.n; k++) {
                const struct rule *r = &f->rules.rules[k];
                const struct route *route;

                if (r->priority < from || !rule_takes(r, flow, taken) || r->action == FR_ACT_NOP)
                        continue;
                if (r->action == FR_ACT_GOTO) {
                        from = has_target(f, r) ? r->target : from;
                        continue;
                }
                if (r->action != FR_ACT_TO_TBL)
                        return (struct lookup) { r, NULL };
                route = look_up_table(f, flow, r->table);
                if (route && route->dst_len >= r->suppressed)
                        return (struct lookup) { r, route };
        }
        return (struct lookup) { NULL, NULL };
}
