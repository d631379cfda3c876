/* SPDX-License-Identifier: Apache-2.0 */
/* Any answer to a dump of links and of routes, and any recorded one. */
#include <sys/socket.h>

#include "links.h"
#include "routes.h"

static void check_links(const uint8_t *data, size_t size) {
        _cleanup_links_ struct link_table t = LINK_TABLE_NULL;

        if (links_parse(data, size, &t) < 0)
                return;
        if (t.n > LINKS_MAX)
                abort();
        for (size_t i = 0; i < t.n; i++) {
                const struct link *l = &t.links[i];

                if ((i > 0 && l->index < l[-1].index) || strlen(l->name) >= sizeof(l->name) ||
                    strlen(l->kind) >= sizeof(l->kind) || strlen(l->bus) >= sizeof(l->bus) ||
                    l->address_len > sizeof(l->address))
                        abort();
                if (link_is_data_nic(l) && !link_is_ethernet(l))
                        abort();
                (void) link_stated_mtu(l);
        }
}

static void check_routes(const uint8_t *data, size_t size) {
        _cleanup_routes_ struct route_table t = ROUTE_TABLE_NULL;

        if (routes_parse(data, size, &t) < 0)
                return;
        if (t.n > ROUTES_MAX)
                abort();
        for (size_t i = 0; i < t.n; i++) {
                const struct route *r = &t.routes[i];
                char text[ROUTE_DST_MAX];

                if (r->dst_len > (r->family == AF_INET ? 32 : 128))
                        abort();
                route_format_dst(r, text);
                if (!text[0] || strlen(text) >= sizeof(text))
                        abort();
                (void) route_is_default(r);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        check_links(data, size);
        check_routes(data, size);
        return 0;
}
