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

static bool parse_u32(const char *text, uint32_t max, uint32_t *ret) {
        char *end;
        unsigned long long v;

        if (text[0] < '0' || text[0] > '9')
                return false;
        errno = 0;
        v = strtoull(text, &end, 10);
        if (*end || errno || v > max)
                return false;
        *ret = (uint32_t) v;
        return true;
}

static bool parse_address(const char *text, int *ret_family, uint8_t ret[16]) {
        *ret_family = strchr(text, ':') ? AF_INET6 : AF_INET;
        return inet_pton(*ret_family, text, ret) == 1;
}

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

bool source_rule_parse(const char *subject, struct rule *ret) {
        struct rule r = { .action = FR_ACT_TO_TBL,
                          .protocol = SOURCE_PROTOCOL,
                          .priority = SOURCE_PRIORITY };
        char address[INET6_ADDRSTRLEN], table[16], more;

        if (sscanf(subject, "from %45s lookup %15s%c", address, table, &more) != 2 ||
            !parse_address(address, &r.family, r.src) || !parse_u32(table, UINT32_MAX, &r.table) ||
            !is_own_table(r.table))
                return false;
        r.src_len = r.family == AF_INET ? 32 : 128;
        *ret = r;
        return true;
}

bool source_rule_parse_priority(const char *value, uint32_t *ret) {
        return startswith(value, "priority ") && parse_u32(value + strlen("priority "), UINT32_MAX, ret);
}

/* --- Routes ------------------------------------------------------------------------------------------- */

void source_route_subject(const struct route *r, char buf[static 64]) {
        char dst[ROUTE_DST_MAX];

        route_format_dst(r, dst);
        finding_format(buf, 64, "table %u %s", r->table, dst);
}

static bool parse_dst(char *text, struct route *r) {
        char *slash = strchr(text, '/');
        uint32_t len = 0;

        if (streq(text, "default") || streq(text, "default6")) {
                r->family = streq(text, "default") ? AF_INET : AF_INET6;
                return true;
        }
        if (!slash)
                return false;
        *slash = '\0';
        if (!parse_address(text, &r->family, r->dst) ||
            !parse_u32(slash + 1, r->family == AF_INET ? 32 : 128, &len) || len == 0)
                return false;
        r->dst_len = (uint8_t) len;
        return true;
}

bool source_route_parse_subject(const char *subject, struct route *ret) {
        struct route r = { .protocol = SOURCE_PROTOCOL, .priority = SOURCE_METRIC };
        char table[16], dst[ROUTE_DST_MAX], more;

        if (sscanf(subject, "table %15s %63s%c", table, dst, &more) != 2 ||
            !parse_u32(table, UINT32_MAX, &r.table) || !is_own_table(r.table) || !parse_dst(dst, &r))
                return false;
        *ret = r;
        return true;
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

static bool cut_end(char *text, const char *end) {
        size_t n = strlen(text), m = strlen(end);

        if (n < m || !streq(text + n - m, end))
                return false;
        text[n - m] = '\0';
        return true;
}

static bool parse_metric(const char *name, char *value, struct route *r) {
        bool locked = cut_end(value, ",lock");

        for (unsigned k = 0; k <= RTAX_MAX; k++) {
                if (!metric_names[k] || !streq(metric_names[k], name))
                        continue;
                r->locks |= locked ? 1U << k : 0;
                if (k == RTAX_RTO_MIN && !cut_end(value, "ms"))
                        return false;
                return r->metrics[k] == 0 && parse_u32(value, UINT32_MAX, &r->metrics[k]) &&
                       r->metrics[k] > 0;
        }
        return false;
}

static bool parse_words(char *at, struct route *r) {
        char *word, *value;

        while ((word = strsep(&at, " "))) {
                if (streq(word, "onlink")) {
                        r->onlink = true;
                        continue;
                }
                value = strsep(&at, " ");
                if (!value || !parse_metric(word, value, r))
                        return false;
        }
        return true;
}

bool source_route_parse_value(const char *value, struct route *r) {
        char copy[96], *at = copy, *word;

        if (strlen(value) >= sizeof(copy))
                return false;
        (void) snprintf(copy, sizeof(copy), "%s", value);
        if (streq(value, "throw")) {
                r->type = RTN_THROW;
                return true;
        }
        r->type = RTN_UNICAST;
        r->n_hops = 1;
        r->hops[0] = (int) (r->table - SOURCE_TABLE_BASE);
        word = strsep(&at, " ");
        if (streq(word, "via")) {
                word = strsep(&at, " ");
                r->has_gateway = word && parse_address(word, &r->gateway_family, r->gateway);
                if (!r->has_gateway)
                        return false;
        } else if (!streq(word, "link"))
                return false;
        return !at || parse_words(at, r);
}
