/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A route or rule in words, and as ip(8) takes it: one form for checks, paths and tpu-netcfg. Names of
 * protocols are iproute2's (etc/iproute2/rt_protos). Pure.
 */
#include "addresses.h"
#include "routes.h"

#define ROUTE_PROTOCOL_OURS 147 /* tpu-netcfg's (netcfg/plan/source.h) */

#define ROUTE_WORDS_MAX 256

/* "unicast", "blackhole"; "type 17" for what no name is known. */
#define ROUTE_WORD_MAX 16
const char *route_type_word(uint8_t type, char buf[static ROUTE_WORD_MAX]);
/* "main", "847000003". */
const char *route_table_word(uint32_t table, char buf[static ROUTE_WORD_MAX]);
/* Who makes routes of that protocol, for a person: "a DHCP client". */
const char *route_owner(uint8_t protocol);
/* As ip route names a number of struct route's metrics: "mtu"; NULL: it has no name for it. */
const char *route_metric_word(int metric);
/* Whether a congestion control takes its share beside other traffic, as those do that data centres use.
 * Others yield to it on purpose, or are made for radio and satellites. */
bool congestion_keeps_up(const char *name);
/* Whether it holds connections to a window that no data-centre NIC is filled with ("ip route … window", or a
 * locked cwnd), lets them begin with less than Linux does, has them yield to all other traffic, or ends
 * packets after few hops. */
bool route_is_slow(const struct route *r);
/* What it has beside limits and the least retransmission time changes how connections by it behave. */
bool route_is_tuned(const struct route *r);
/* "mtu 1400 locked, advmss 1360": all but the least retransmission time. */
const char *route_settings(const struct route *r, char buf[static ROUTE_WORDS_MAX]);

/* "unicast route to 10.10.1.0/24 by eth1 via 10.10.1.1 from table main, protocol dhcp, metric 100, mtu 1400
 * locked, advmss 1360", with all that the kernel says that it carries, but for the least retransmission
 * time. nic: of its one next hop; NULL or empty: it has none, or it is not known. */
const char *route_words(const struct route *r, const char *nic, char buf[static ROUTE_WORDS_MAX]);

/* The route that the kernel makes to the subnet of an address. */
struct route route_to_subnet(const struct address *a);

/*
 * The same as ip(8) takes it behind "ip route del", "add" or "replace": "10.10.1.0/24 via 10.10.1.1 dev eth1
 * proto dhcp scope link src 10.10.1.5 metric 100", with "-6 " to be put behind "ip" for IPv6
 * (route_ip_family()). With limits, for "del": mtu, advmss, window and cwnd as well. Without, for "replace",
 * which takes away what is not said again: all but these, and but what makes the route slow
 * (route_is_slow()). A nexthop object is named by its number, for ip(8) knows such a route by nothing else.
 * Empty when the route is more than one line of a remedy says (several next hops, encapsulated).
 */
const char *route_arguments(const struct route *r, const char *nic, bool limits,
                            char buf[static ROUTE_WORDS_MAX]);
/* "ip", "ip -6". */
const char *route_ip_family(const struct route *r);

/* "500: from 10.10.1.10/32 lookup 77, protocol static"; ip(8) names no protocol. */
const char *rule_words(const struct rule *r, char buf[static ROUTE_WORDS_MAX]);
/* As ip(8) takes it behind "ip -4 rule del": "priority 500 from 10.10.1.10/32 table 77". */
const char *rule_arguments(const struct rule *r, char buf[static ROUTE_WORDS_MAX]);
/* "-4", "-6": behind "ip". */
const char *ip_family_option(int family);
