/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Timers of an event loop that are set again and again. 0 or -errno; one that is there can be set as long as
 * its loop lives. */
#include <systemd/sd-event.h>

#include "base.h"

/* It is off. accuracy 0: sd_event's usual one. */
static inline int loop_timer_new(sd_event *e, clockid_t clock, usec_t accuracy, const char *name,
                                 sd_event_time_handler_t on, void *userdata, sd_event_source **ret) {
        _cleanup_(sd_event_source_disable_unrefp) sd_event_source *t = NULL;
        int r = sd_event_add_time(e, &t, clock, 0, accuracy, on, userdata);

        if (r >= 0)
                r = sd_event_source_set_description(t, name);
        if (r >= 0)
                r = sd_event_source_set_enabled(t, SD_EVENT_OFF);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

/* Once, at this time of its clock; USEC_INFINITY: never. */
static inline int loop_timer_at(sd_event_source *t, usec_t at) {
        bool never = at == USEC_INFINITY;
        int r = never ? 0 : sd_event_source_set_time(t, at);

        if (r >= 0)
                r = sd_event_source_set_enabled(t, never ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        return MIN(r, 0);
}

/* Once, so long from now; USEC_INFINITY: never. */
static inline int loop_timer_in(sd_event_source *t, usec_t span) {
        bool never = span == USEC_INFINITY;
        int r = never ? 0 : sd_event_source_set_time_relative(t, span);

        if (r >= 0)
                r = sd_event_source_set_enabled(t, never ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        return MIN(r, 0);
}
