/* SPDX-License-Identifier: Apache-2.0 */
#include "server_turn.h"

static unsigned connections(struct MHD_Daemon *d) {
        const union MHD_DaemonInfo *i = MHD_get_daemon_info(d, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

        return i ? i->num_connections : 0;
}

int server_turn(struct MHD_Daemon *d, sd_event_source *timer) {
        MHD_UNSIGNED_LONG_LONG ms;
        unsigned before, after = connections(d);
        int r;

        /*
         * At its limit of connections libmicrohttpd stops to listen, and begins again at the start of a run
         * (daemon.c, MHD_epoll()): when the run in which the last of them ended were the last one, nobody
         * would be heard any more.
         */
        do {
                before = after;
                (void) MHD_run(d); /* fails only when the daemon has a thread of its own */
                after = connections(d);
        } while (after < before);
        if (MHD_get_timeout(d, &ms) != MHD_YES)
                return sd_event_source_set_enabled(timer, SD_EVENT_OFF);
        r = sd_event_source_set_time_relative(timer, (usec_t) ms * USEC_PER_MSEC);
        return r < 0 ? r : sd_event_source_set_enabled(timer, SD_EVENT_ONESHOT);
}
