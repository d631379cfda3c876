/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_timer.h"

#include <stdint.h>
#include <time.h>

void journal_timer_arm(sd_event *e, sd_journal *j, sd_event_source **timer, const char *name,
                       sd_event_time_handler_t handler, void *userdata) {
        uint64_t at = UINT64_MAX;
        int r = sd_journal_get_timeout(j, &at);

        if (r < 0 || at == UINT64_MAX) {
                *timer = sd_event_source_disable_unref(*timer);
                return;
        }
        if (!*timer) {
                if (sd_event_add_time(e, timer, CLOCK_MONOTONIC, at, 0, handler, userdata) >= 0)
                        (void) sd_event_source_set_description(*timer, name);
        } else if (sd_event_source_set_time(*timer, at) >= 0)
                (void) sd_event_source_set_enabled(*timer, SD_EVENT_ONESHOT);
}
