/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>

#include "capture_peers.h"

#include "addresses.h"
#include "links.h"
#include "log.h"

static void say(int error, const char *what) {
        if (error < 0 && error != -ENODATA && error != -ENOENT)
                (void) log_debug_errno(error, "%s cannot be looked at: %m", what);
}

void capture_peers_unanswered(const struct host *h, struct finding_list *ret) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r = unanswered_read(h, &t);

        if (r >= 0)
                r = unanswered_tell(&t, ret);
        say(r, "the connections of this host");
}

void capture_peers_ask(const struct host *h, struct reach **ret) {
        say(reach_begin(h, ret), "whether the peers of this host can be reached");
}

void capture_peers_answered(const struct reach *r, struct finding_list *ret, uint32_t *ret_reached) {
        size_t answered;
        int k = reach_tell(r, ret, &answered);

        say(k, "whether the peers of this host could be reached");
        if (k == 0)
                *ret_reached = (uint32_t) answered;
}

void capture_peers_own(const struct host *h, struct capture_own *ret) {
        _cleanup_addresses_ struct address_table t = ADDRESS_TABLE_NULL;
        _cleanup_links_ struct link_table links = LINK_TABLE_NULL;
        int r = links_read(h, &links);

        ret->n = 0;
        if (r >= 0)
                r = addresses_read(h, &t);
        say(r, "the addresses of this host");
        for (size_t i = 0; r >= 0 && i < t.n && ret->n < CAPTURE_OWN_MAX; i++) {
                const struct link *l = link_by_index(&links, t.addresses[i].index);
                char text[INET6_ADDRSTRLEN];

                if (l && inet_ntop(t.addresses[i].family, t.addresses[i].bytes, text, sizeof(text)))
                        (void) snprintf(ret->items[ret->n++], sizeof(ret->items[0]), "%s %s", l->name, text);
        }
}
