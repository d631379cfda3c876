/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Addresses of NICs as the kernel tells them over rtnetlink (RTM_GETADDR): the global ones of IPv4 and IPv6,
 * without those that turned out to be another's (duplicate address detection). With a root other than "/"
 * they are read from the dump /netlink/addresses of that root, else -ENODATA.
 */
#include "base.h"
#include "host.h"

#define ADDRESSES_MAX 8192 /* a cluster gives each of its services one */

struct address {
        int family; /* AF_INET, AF_INET6 */
        int index;  /* of the NIC */
        uint8_t bytes[16], prefix_len;
        bool no_prefix_route; /* the kernel makes no route to its subnet */
};

struct address_table {
        struct address *addresses;
        size_t n;
};
#define ADDRESS_TABLE_NULL ((struct address_table) { 0 })

/* -ENODATA: this root has no dump; -E2BIG: more than ADDRESSES_MAX; -EBADMSG: malformed; -EINTR: they
 * changed under each of our reads. Clear with address_table_clear(). */
int addresses_read(const struct host *h, struct address_table *ret);
int addresses_parse(const void *data, size_t len, struct address_table *ret);
void address_table_clear(struct address_table *t);
#define _cleanup_addresses_ _cleanup_(address_table_clear)

/*
 * Policy rules as the kernel tells them over rtnetlink (RTM_GETRULE), IPv4 and IPv6. With a root other than
 * "/" they are read from the dump /netlink/rules of that root, else -ENODATA.
 */

#define RULES_MAX 4096 /* of others, and one for each address */

/* Whether what a rule asks for besides addresses fits what this host's programs send, unmarked and by no
 * certain device. */
enum rule_fit {
        RULE_FITS,
        RULE_MAY_FIT, /* it goes by user, protocol or port, or by what we do not know */
        RULE_NO_FIT,
};

struct rule {
        int family; /* AF_INET, AF_INET6 */
        uint8_t src[16], src_len, dst[16], dst_len;
        uint32_t table, priority;
        uint8_t action, protocol; /* FR_ACT_*; who made it (RTPROT_*), 0 where the kernel does not say */
        bool narrow;              /* it asks for more than a source, or is inverted */
        bool inverted;
        enum rule_fit fit;
        uint32_t target;   /* FR_ACT_GOTO: the priority of the rule it goes on with */
        uint8_t suppressed; /* 1 + the longest prefix of a route that it does not take; 0: it takes all */
};

struct rule_table {
        struct rule *rules;
        size_t n;
};
#define RULE_TABLE_NULL ((struct rule_table) { 0 })

/* -ENODATA: this root has no dump; -E2BIG: more than RULES_MAX; -EBADMSG: malformed; -EINTR: the rules
 * changed under each of our reads. Clear with rule_table_clear(). */
int rules_read(const struct host *h, struct rule_table *ret);
int rules_parse(const void *data, size_t len, struct rule_table *ret);
void rule_table_clear(struct rule_table *t);
#define _cleanup_rules_ _cleanup_(rule_table_clear)

/* The first one of that NIC (0: of any) with these bytes (4 or 16). NULL: there is none. */
const struct address *address_find(const struct address_table *t, int index, int family,
                                   const uint8_t *bytes);
/* The subnet it is in, host bits cleared. */
void address_subnet(const struct address *a, uint8_t ret[static 16]);
/* Whether an address (4 or 16 bytes) begins as the prefix does. */
bool prefix_covers(const uint8_t *prefix, uint8_t len, const uint8_t *address);
/* Whether what comes from this address (4 or 16 bytes) has this source. */
bool rule_covers(const struct rule *r, int family, const uint8_t *address);
