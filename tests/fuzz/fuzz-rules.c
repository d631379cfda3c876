/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy rules, addresses, routes and TCP connections as the kernel tells them, and the texts of source
 * routing. The first byte says as what the rest is read.
 */
#include <assert.h>

#include "addresses.h"
#include "reach.h"
#include "routes.h"
#include "rules.h"
#include "source.h"
#include "unanswered.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What can be read is written as text that is read as the same again. */
static void texts(const uint8_t *data, size_t size) {
        char text[256], again[96], value[96];
        struct route r = { .table = SOURCE_TABLE_BASE + 3 }, back;
        struct rule rule;
        uint32_t priority;

        (void) snprintf(text, sizeof(text), "%.*s", (int) MIN(size, sizeof(text) - 1), (const char *) data);
        (void) source_rule_parse_priority(text, &priority);
        if (source_rule_parse(text, &rule))
                source_rule_subject(&rule, again);
        if (source_route_parse_subject(text, &r))
                source_route_subject(&r, again);
        r = back = (struct route) { .table = SOURCE_TABLE_BASE + 3 };
        if (!source_route_parse_value(text, &r))
                return;
        source_route_value(&r, value);
        assert(source_route_parse_value(value, &back));
        source_route_value(&back, again);
        assert(streq(value, again));
}

static void routes(const uint8_t *data, size_t size) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;
        char subject[64], value[96];

        if (routes_parse(data, size, &t) < 0)
                return;
        for (size_t k = 0; k < t.n; k++) {
                source_route_subject(&t.routes[k], subject);
                source_route_value(&t.routes[k], value);
        }
}

static void connections(const uint8_t *data, size_t size) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        _cleanup_finding_list_ struct finding_list list = FINDING_LIST_NULL;

        struct reach_pair pairs[REACH_MAX];
        size_t n = 0;

        (void) reach_parse(data, size, pairs, &n);
        assert(n <= REACH_MAX);
        if (unanswered_parse(data, size, &t) == 0)
                assert(unanswered_tell(&t, &list) == 0 && list.n == t.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        _cleanup_rules_ struct rule_table rules = RULE_TABLE_NULL;
        _cleanup_addresses_ struct address_table addresses = ADDRESS_TABLE_NULL;

        if (size == 0)
                return 0;
        switch (data[0]) {
        case 'r':
                (void) rules_parse(data + 1, size - 1, &rules);
                break;
        case 'a':
                (void) addresses_parse(data + 1, size - 1, &addresses);
                break;
        case 't':
                connections(data + 1, size - 1);
                break;
        case 'w':
                routes(data + 1, size - 1);
                break;
        default:
                texts(data, size);
        }
        return 0;
}
