/* SPDX-License-Identifier: Apache-2.0 */
#include "capture_peers.h"

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

void capture_peers_answered(const struct reach *r, struct finding_list *ret) {
        say(reach_tell(r, ret), "whether the peers of this host could be reached");
}
