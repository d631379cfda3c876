/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "source.h"

/* As ip route names them. */
static const char *const metric_names[RTAX_MAX + 1] = {
        [RTAX_MTU] = "mtu",           [RTAX_WINDOW] = "window",     [RTAX_RTT] = "rtt",
        [RTAX_RTTVAR] = "rttvar",     [RTAX_SSTHRESH] = "ssthresh", [RTAX_CWND] = "cwnd",
        [RTAX_ADVMSS] = "advmss",     [RTAX_REORDERING] = "reordering",
        [RTAX_HOPLIMIT] = "hoplimit", [RTAX_INITCWND] = "initcwnd", [RTAX_FEATURES] = "features",
        [RTAX_RTO_MIN] = "rto_min",   [RTAX_INITRWND] = "initrwnd", [RTAX_QUICKACK] = "quickack",
};

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

/* One more metric, when the text has room for it: without it a route still leads the right way. */
static void add_metric(char buf[static 96], unsigned k, const struct route *r) {
        size_t used = strlen(buf);
        char text[40];

        (void) snprintf(text, sizeof(text), " %s %u%s%s", metric_names[k], r->metrics[k],
                        k == RTAX_RTO_MIN ? "ms" : "", r->locks & (1U << k) ? ",lock" : "");
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
        for (unsigned k = 0; k <= RTAX_MAX; k++)
                if (metric_names[k] && k != RTAX_RTO_MIN && r->metrics[k])
                        add_metric(buf, k, r);
}
