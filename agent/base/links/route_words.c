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

#define WINDOW_MIN 1048576 /* 100 Gbit/s for 80 us */
#define CWND_MIN   128
#define BEGIN_MIN  10 /* segments: what Linux begins with, and RFC 6928 */
#define HOPS_MIN   32 /* of 64, which Linux begins with; a path through a site has some twenty */

static const struct metric {
        const char *word;
        uint32_t least;   /* what is below makes the route slow; 0: nothing does */
        bool if_locked;   /* only then does TCP heed it */
        bool never_locks; /* ip(8) takes no "lock" before it */
        bool limit;       /* a remedy takes it away */
} metrics[RTAX_MAX + 1] = {
        [RTAX_MTU] = { .word = "mtu", .limit = true },
        [RTAX_WINDOW] = { .word = "window", .least = WINDOW_MIN, .limit = true },
        [RTAX_RTT] = { .word = "rtt" },
        [RTAX_RTTVAR] = { .word = "rttvar" },
        [RTAX_SSTHRESH] = { .word = "ssthresh" },
        [RTAX_CWND] = { .word = "cwnd", .least = CWND_MIN, .if_locked = true, .limit = true },
        [RTAX_ADVMSS] = { .word = "advmss", .limit = true },
        [RTAX_REORDERING] = { .word = "reordering" },
        [RTAX_HOPLIMIT] = { .word = "hoplimit", .least = HOPS_MIN },
        [RTAX_INITCWND] = { .word = "initcwnd", .least = BEGIN_MIN },
        [RTAX_FEATURES] = { .word = "features", .never_locks = true },
        [RTAX_RTO_MIN] = { .word = "rto_min", .never_locks = true }, /* it locks by itself */
        [RTAX_INITRWND] = { .word = "initrwnd", .least = BEGIN_MIN },
        [RTAX_QUICKACK] = { .word = "quickack", .never_locks = true },
        [RTAX_CC_ALGO] = { .word = "congctl" },
        [RTAX_FASTOPEN_NO_COOKIE] = { .word = "fastopen_no_cookie", .never_locks = true },
};

const char *route_metric_word(int metric) {
        return metric > 0 && metric <= RTAX_MAX ? metrics[metric].word : NULL;
}

static bool is_locked(const struct route *r, int metric) {
        return r->locks & (1U << metric);
}

static bool is_slow_by(const struct route *r, int metric) {
        const struct metric *m = &metrics[metric];

        return r->metrics[metric] > 0 && r->metrics[metric] < m->least &&
               (!m->if_locked || is_locked(r, metric));
}

bool congestion_keeps_up(const char *name) {
        static const char *const known[] = { "cubic", "reno", "dctcp", "htcp" };

        for (size_t i = 0; i < ELEMENTSOF(known); i++)
                if (streq(name, known[i]))
                        return true;
        return startswith(name, "bbr"); /* bbr2, bbr3 of kernels that have them */
}

static bool yields(const struct route *r) {
        return r->congestion[0] && !congestion_keeps_up(r->congestion);
}

bool route_is_slow(const struct route *r) {
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (is_slow_by(r, k))
                        return true;
        return yields(r);
}

bool route_is_tuned(const struct route *r) {
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (metrics[k].word && k != RTAX_RTO_MIN && !metrics[k].limit && r->metrics[k] > 0)
                        return true;
        return r->congestion[0] || r->wraps;
}

const char *route_settings(const struct route *r, char buf[static ROUTE_WORDS_MAX]) {
        buf[0] = '\0';
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (metrics[k].word && k != RTAX_RTO_MIN && r->metrics[k] > 0)
                        text_append(buf, ROUTE_WORDS_MAX, ", ", "%s %" PRIu32 "%s", metrics[k].word,
                                    r->metrics[k], is_locked(r, k) ? " locked" : "");
        if (r->congestion[0])
                text_append(buf, ROUTE_WORDS_MAX, ", ", "%s %s", metrics[RTAX_CC_ALGO].word, r->congestion);
        if (r->wraps)
                text_append(buf, ROUTE_WORDS_MAX, ", ", "encapsulated");
        return buf;
}

static void type_setting(const struct route *r, int metric, char buf[static ROUTE_WORDS_MAX]) {
        const struct metric *m = &metrics[metric];

        if (metric == RTAX_FEATURES) { /* by name, of which ip(8) has had this one all along */
                if (r->metrics[metric] & RTAX_FEATURE_ECN)
                        add_word(buf, " features ecn");
                return;
        }
        add_word(buf, " %s %s%" PRIu32 "%s", m->word, is_locked(r, metric) && !m->never_locks ? "lock " : "",
                 r->metrics[metric], metric == RTAX_RTO_MIN ? "ms" : "");
}

static bool is_typed(const struct route *r, int metric, bool limits) {
        bool limit = metrics[metric].limit;

        if (!metrics[metric].word || r->metrics[metric] == 0)
                return false;
        return metric == RTAX_RTO_MIN || (limits ? limit : !limit && !is_slow_by(r, metric));
}

static void type_settings(const struct route *r, bool limits, char buf[static ROUTE_WORDS_MAX]) {
        for (int k = RTAX_LOCK + 1; k <= RTAX_MAX; k++)
                if (is_typed(r, k, limits))
                        type_setting(r, k, buf);
        if (!limits && r->congestion[0] && !yields(r))
                add_word(buf, " %s %s%s", metrics[RTAX_CC_ALGO].word,
                         is_locked(r, RTAX_CC_ALGO) ? "lock " : "", r->congestion);
}

static void add_gateway(const struct route *r, char buf[static ROUTE_WORDS_MAX]) {
        char gateway[INET6_ADDRSTRLEN];

        if (r->has_gateway && inet_ntop(r->gateway_family, r->gateway, gateway, sizeof(gateway)))
                add_word(buf, " via %s%s", r->gateway_family != r->family ? "inet6 " : "", gateway);
}

const char *route_words(const struct route *r, const char *nic, char buf[static ROUTE_WORDS_MAX]) {
        char type[ROUTE_WORD_MAX], table[ROUTE_WORD_MAX], protocol[ROUTE_WORD_MAX], dst[ROUTE_DST_MAX];
        char settings[ROUTE_WORDS_MAX];

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
        if (route_settings(r, settings)[0])
                add_word(buf, ", %s", settings);
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

static void add_scope(const struct route *r, char buf[static ROUTE_WORDS_MAX]) {
        if (r->family != AF_INET || r->type != RTN_UNICAST)
                return;
        if (r->scope == RT_SCOPE_LINK)
                add_word(buf, " scope link");
        else if (r->scope != RT_SCOPE_UNIVERSE)
                add_word(buf, " scope %u", r->scope);
}

/* What is longer would be cut in a remedy, behind its command (finding.h). */
#define ARGUMENTS_MAX 220

static bool one_line_says(const struct route *r, const char *nic) {
        if (r->nexthop > 0)
                return !r->special || r->wraps;
        return r->n_hops <= 1 && !r->special && (r->type != RTN_UNICAST || (nic && nic[0]));
}

static void add_destination(const struct route *r, const char *nic, char buf[static ROUTE_WORDS_MAX]) {
        char word[ROUTE_WORD_MAX], dst[ROUTE_DST_MAX];

        route_format_dst(r, dst);
        if (r->type != RTN_UNICAST && r->nexthop == 0)
                add_word(buf, "%s ", route_type_word(r->type, word));
        add_word(buf, "%s", r->dst_len == 0 ? "default" : dst);
        if (r->tos > 0)
                add_word(buf, " tos 0x%02x", r->tos);
        if (r->nexthop > 0)
                add_word(buf, " nhid %" PRIu32, r->nexthop);
        else if (r->type == RTN_UNICAST) {
                add_gateway(r, buf);
                add_word(buf, " dev %s%s", nic, r->onlink ? " onlink" : "");
        }
}

const char *route_arguments(const struct route *r, const char *nic, bool limits,
                            char buf[static ROUTE_WORDS_MAX]) {
        char word[ROUTE_WORD_MAX], source[INET6_ADDRSTRLEN];

        buf[0] = '\0';
        if (!one_line_says(r, nic))
                return buf;
        add_destination(r, nic, buf);
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
        type_settings(r, limits, buf);
        if (strlen(buf) > ARGUMENTS_MAX)
                buf[0] = '\0';
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
