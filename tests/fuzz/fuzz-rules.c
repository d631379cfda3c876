/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policy rules, addresses, routes and TCP connections as the kernel tells them. The first byte says as what
 * the rest is read.
 */
#include <assert.h>

#include "addresses.h"
#include "routes.h"
#include "source.h"
#include "unanswered.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

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
                break;
        }
        return 0;
}
