/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Timers of an event loop that are set again and again. Answers are sd_event's: below 0, -errno. */
#include <systemd/sd-event.h>

#include "base.h"

/* It is off. accuracy 0: sd_event's usual one. */
static inline int loop_timer_new(sd_event *e, clockid_t clock, usec_t accuracy, const char *name,
                                 sd_event_time_handler_t on, void *userdata, sd_event_source **ret) {
        int r = sd_event_add_time(e, ret, clock, 0, accuracy, on, userdata);

        if (r >= 0)
                r = sd_event_source_set_description(*ret, name);
        return r < 0 ? r : sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

/* Once, at this time of its clock; USEC_INFINITY: never. */
static inline int loop_timer_at(sd_event_source *t, usec_t at) {
        int r;

        if (at == USEC_INFINITY)
                return sd_event_source_set_enabled(t, SD_EVENT_OFF);
        r = sd_event_source_set_time(t, at);
        return r < 0 ? r : sd_event_source_set_enabled(t, SD_EVENT_ONESHOT);
}

/* Likewise, so long from now. */
static inline int loop_timer_in(sd_event_source *t, usec_t span) {
        int r;

        if (span == USEC_INFINITY)
                return sd_event_source_set_enabled(t, SD_EVENT_OFF);
        r = sd_event_source_set_time_relative(t, span);
        return r < 0 ? r : sd_event_source_set_enabled(t, SD_EVENT_ONESHOT);
}
