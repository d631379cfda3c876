/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which rule and route the kernel takes for what this host sends, worked out from dumps of both (Linux,
 * net/core/fib_rules.c and net/ipv4/fib_trie.c): rules by priority, in a table the longest prefix, then the
 * least metric. A destination may be a whole prefix: what is looked up is then what no longer prefix of the
 * table takes. Pure: one question over both tables, whoever asks.
 */
#include "op.h"

struct flow {
        int family;
        const uint8_t *source; /* NULL: the program binds none */
        const uint8_t *to;
        uint8_t to_len;
};

struct lookup {
        const struct rule *rule;   /* that decided; NULL: none did */
        const struct route *route; /* NULL: none, or the rule itself refuses */
};

/* taken: a rule that may fit (RULE_MAY_FIT) and does for this flow; NULL: none of those does. */
struct lookup lookup_flow(const struct found *f, const struct flow *flow, const struct rule *taken);
