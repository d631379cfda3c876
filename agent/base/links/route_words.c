/* SPDX-License-Identifier: Apache-2.0 */
#include "route_words.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>

#include "texts.h"

static const struct {
        uint8_t number;
        const char *word, *owner;
} protocols[] = {
        { RTPROT_REDIRECT, "redirect", "an ICMP redirect" },
        { RTPROT_KERNEL, "kernel", "the kernel, from an address" },
        { RTPROT_BOOT, "boot", "ip(8), typed by a person or a script" },
        { RTPROT_STATIC, "static", "a network manager's configuration, or ip(8) with proto static" },
        { RTPROT_RA, "ra", "a router advertisement" },
        { RTPROT_ZEBRA, "zebra", "the routing daemon FRR" },
        { RTPROT_BIRD, "bird", "the routing daemon bird" },
        { RTPROT_DHCP, "dhcp", "a DHCP client" },
        { 18, "keepalived", "keepalived" },
        { ROUTE_PROTOCOL_OURS, "tpu-netcfg", "tpu-netcfg" },
        { 186, "bgp", "a routing daemon" },
        { 188, "ospf", "a routing daemon" },
};

static const char *const types[] = {
        [RTN_UNSPEC] = "unspec",       [RTN_UNICAST] = "unicast",         [RTN_LOCAL] = "local",
        [RTN_BROADCAST] = "broadcast", [RTN_ANYCAST] = "anycast",         [RTN_MULTICAST] = "multicast",
        [RTN_BLACKHOLE] = "blackhole", [RTN_UNREACHABLE] = "unreachable", [RTN_PROHIBIT] = "prohibit",
        [RTN_THROW] = "throw",
};

const char *route_type_word(uint8_t type, char buf[static ROUTE_WORD_MAX]) {
        if (type < ELEMENTSOF(types))
                (void) snprintf(buf, ROUTE_WORD_MAX, "%s", types[type]);
        else
                (void) snprintf(buf, ROUTE_WORD_MAX, "type %u", type);
        return buf;
}

const char *route_table_word(uint32_t table, char buf[static ROUTE_WORD_MAX]) {
        if (table == RT_TABLE_MAIN || table == RT_TABLE_LOCAL || table == RT_TABLE_DEFAULT)
                (void) snprintf(buf, ROUTE_WORD_MAX, "%s",
                                table == RT_TABLE_MAIN    ? "main" :
                                table == RT_TABLE_LOCAL   ? "local" :
                                                            "default");
        else
                (void) snprintf(buf, ROUTE_WORD_MAX, "%" PRIu32, table);
        return buf;
}

/* "dhcp", "boot", "tpu-netcfg"; the number for what no name is known. */
static const char *route_protocol_word(uint8_t protocol, char buf[static ROUTE_WORD_MAX]) {
        (void) snprintf(buf, ROUTE_WORD_MAX, "%u", protocol);
        for (size_t i = 0; i < ELEMENTSOF(protocols); i++)
                if (protocols[i].number == protocol)
                        (void) snprintf(buf, ROUTE_WORD_MAX, "%s", protocols[i].word);
        return buf;
}

const char *route_owner(uint8_t protocol) {
        for (size_t i = 0; i < ELEMENTSOF(protocols); i++)
                if (protocols[i].number == protocol)
                        return protocols[i].owner;
        return "a program that the kernel does not name";
}

/* --- Lines, put together word by word ------------------------------------------------------------------ */

#define add_word(buf, ...) text_append(buf, ROUTE_WORDS_MAX, "", __VA_ARGS__)

static void add_limit(const struct route *r, int metric, const char *name, bool typed,
                      char buf[static ROUTE_WORDS_MAX]) {
        bool locked = r->locks & (1U << metric);

        if (r->metrics[metric] == 0)
                return;
        if (typed)
                add_word(buf, " %s %s%" PRIu32, name, locked ? "lock " : "", r->metrics[metric]);
        else
                add_word(buf, ", %s %" PRIu32 "%s", name, r->metrics[metric], locked ? " locked" : "");
}

static void add_gateway(const struct route *r, char buf[static ROUTE_WORDS_MAX]) {
        char gateway[INET6_ADDRSTRLEN];

        if (r->has_gateway && inet_ntop(r->gateway_family, r->gateway, gateway, sizeof(gateway)))
                add_word(buf, " via %s%s", r->gateway_family != r->family ? "inet6 " : "", gateway);
}

const char *route_words(const struct route *r, const char *nic, char buf[static ROUTE_WORDS_MAX]) {
        char type[ROUTE_WORD_MAX], table[ROUTE_WORD_MAX], protocol[ROUTE_WORD_MAX], dst[ROUTE_DST_MAX];

        route_format_dst(r, dst);
        buf[0] = '\0';
        add_word(buf, "%s %s%s", route_type_word(r->type, type),
                 r->dst_len == 0 ? "default route" : "route to ", r->dst_len == 0 ? "" : dst);
        if (r->n_hops > 1)
                add_word(buf, " by %u next hops", r->n_hops);
        else if (nic && nic[0])
                add_word(buf, " by %s", nic);
        add_gateway(r, buf);
        add_word(buf, " from table %s, protocol %s", route_table_word(r->table, table),
                 route_protocol_word(r->protocol, protocol));
        if (r->priority > 0)
                add_word(buf, ", metric %" PRIu32, r->priority);
        add_limit(r, RTAX_MTU, "mtu", false, buf);
        add_limit(r, RTAX_ADVMSS, "advmss", false, buf);
        add_limit(r, RTAX_WINDOW, "window", false, buf);
        add_limit(r, RTAX_CWND, "cwnd", false, buf);
        return buf;
}

struct route route_to_subnet(const struct address *a) {
        struct route r = { .family = a->family,
                           .dst_len = a->prefix_len,
                           .type = RTN_UNICAST,
                           .protocol = RTPROT_KERNEL,
                           .scope = RT_SCOPE_LINK,
                           .table = RT_TABLE_MAIN,
                           .hops = { a->index },
                           .n_hops = 1,
                           .has_source = a->family == AF_INET };

        address_subnet(a, r.dst);
        memcpy(r.source, a->bytes, sizeof(r.source));
        return r;
}

#define WINDOW_MIN 1048576 /* 100 Gbit/s for 80 us */
#define CWND_MIN   128

bool route_is_slow(const struct route *r) {
        return (r->metrics[RTAX_WINDOW] > 0 && r->metrics[RTAX_WINDOW] < WINDOW_MIN) ||
               (r->locks & (1U << RTAX_CWND) && r->metrics[RTAX_CWND] < CWND_MIN);
}

static void add_scope(const struct route *r, char buf[static ROUTE_WORDS_MAX]) {
        if (r->family != AF_INET || r->type != RTN_UNICAST)
                return;
        if (r->scope == RT_SCOPE_LINK)
                add_word(buf, " scope link");
        else if (r->scope != RT_SCOPE_UNIVERSE)
                add_word(buf, " scope %u", r->scope);
}

const char *route_arguments(const struct route *r, const char *nic, bool limits,
                            char buf[static ROUTE_WORDS_MAX]) {
        char word[ROUTE_WORD_MAX], dst[ROUTE_DST_MAX], source[INET6_ADDRSTRLEN];
        bool leads = r->type == RTN_UNICAST;

        buf[0] = '\0';
        if (r->n_hops > 1 || r->special || (leads && (!nic || !nic[0])))
                return buf;
        route_format_dst(r, dst);
        if (!leads)
                add_word(buf, "%s ", route_type_word(r->type, word));
        add_word(buf, "%s", r->dst_len == 0 ? "default" : dst);
        if (r->tos > 0)
                add_word(buf, " tos 0x%02x", r->tos);
        if (leads) {
                add_gateway(r, buf);
                add_word(buf, " dev %s%s", nic, r->onlink ? " onlink" : "");
        }
        if (r->table != RT_TABLE_MAIN)
                add_word(buf, " table %" PRIu32, r->table);
        if (r->protocol == ROUTE_PROTOCOL_OURS)
                add_word(buf, " proto %u", r->protocol);
        else if (r->protocol != RTPROT_BOOT)
                add_word(buf, " proto %s", route_protocol_word(r->protocol, word));
        add_scope(r, buf);
        if (r->has_source && inet_ntop(r->family, r->source, source, sizeof(source)))
                add_word(buf, " src %s", source);
        if (r->priority > 0)
                add_word(buf, " metric %" PRIu32, r->priority);
        if (r->rto_min_ms > 0)
                add_word(buf, " rto_min %s%" PRIu32 "ms", r->rto_min_locked ? "lock " : "", r->rto_min_ms);
        if (limits) {
                add_limit(r, RTAX_MTU, "mtu", true, buf);
                add_limit(r, RTAX_ADVMSS, "advmss", true, buf);
                add_limit(r, RTAX_WINDOW, "window", true, buf);
                add_limit(r, RTAX_CWND, "cwnd", true, buf);
        }
        return buf;
}

const char *route_ip_family(const struct route *r) {
        return r->family == AF_INET6 ? "ip -6" : "ip";
}

/* --- Rules --------------------------------------------------------------------------------------------- */

static void add_prefix(const char *word, int family, const uint8_t *bytes, uint8_t len,
                       char buf[static ROUTE_WORDS_MAX]) {
        char text[INET6_ADDRSTRLEN];

        if (len > 0 && inet_ntop(family, bytes, text, sizeof(text)))
                add_word(buf, " %s %s/%u", word, text, len);
}

static void add_selectors(const struct rule *r, char buf[static ROUTE_WORDS_MAX]) {
        if (r->inverted)
                add_word(buf, " not");
        add_prefix("from", r->family, r->src, r->src_len, buf);
        add_prefix("to", r->family, r->dst, r->dst_len, buf);
}

const char *rule_words(const struct rule *r, char buf[static ROUTE_WORDS_MAX]) {
        char table[ROUTE_WORD_MAX], protocol[ROUTE_WORD_MAX];

        buf[0] = '\0';
        add_word(buf, "%" PRIu32 ":", r->priority);
        add_selectors(r, buf);
        if (r->src_len == 0 && r->dst_len == 0)
                add_word(buf, " from all");
        if (r->action == FR_ACT_TO_TBL)
                add_word(buf, " lookup %s", route_table_word(r->table, table));
        else if (r->action == FR_ACT_GOTO)
                add_word(buf, " goto %" PRIu32, r->target);
        else
                add_word(buf, " %s",
                         r->action == FR_ACT_BLACKHOLE   ? "blackhole" :
                         r->action == FR_ACT_UNREACHABLE ? "unreachable" :
                         r->action == FR_ACT_PROHIBIT    ? "prohibit" :
                                                           "nop");
        if (r->protocol != RTPROT_UNSPEC)
                add_word(buf, ", protocol %s", route_protocol_word(r->protocol, protocol));
        return buf;
}

const char *rule_arguments(const struct rule *r, char buf[static ROUTE_WORDS_MAX]) {
        buf[0] = '\0';
        add_word(buf, "priority %" PRIu32, r->priority);
        add_selectors(r, buf);
        if (r->action == FR_ACT_TO_TBL)
                add_word(buf, " table %" PRIu32, r->table);
        return buf;
}

const char *ip_family_option(int family) {
        return family == AF_INET6 ? "-6" : "-4";
}
