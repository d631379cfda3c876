/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/socket.h>
#include <time.h>

#include "api_deadline.h"
#include "log.h"

#define ACCURACY USEC_PER_SEC

static usec_t now(const struct api_deadlines *all) {
        usec_t usec = 0;

        (void) sd_event_now(all->event, CLOCK_BOOTTIME, &usec); /* fails only in a forked child */
        return usec;
}

static void arm(struct api_deadlines *all) {
        usec_t first = USEC_INFINITY;
        int r;

        if (!all->timer)
                return;
        for (const struct api_deadline *d = all->first; d; d = d->next)
                first = MIN(first, d->at);
        r = first == USEC_INFINITY ? 0 : sd_event_source_set_time(all->timer, first);
        if (r >= 0)
                r = sd_event_source_set_enabled(all->timer,
                                                first == USEC_INFINITY ? SD_EVENT_OFF : SD_EVENT_ONESHOT);
        if (r < 0)
                (void) log_warning_errno(r, "slow API connections may stay open: %m");
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct api_deadlines *all = userdata;
        usec_t t = now(all);

        (void) source;
        (void) usec;
        for (struct api_deadline *d = all->first; d; d = d->next)
                if (d->at <= t) {
                        d->at = USEC_INFINITY;
                        (void) shutdown(d->fd, SHUT_RDWR); /* fails when the other side is gone already */
                }
        arm(all);
        return 0;
}

int api_deadlines_init(struct api_deadlines *all, sd_event *e, const char *name) {
        int r;

        *all = (struct api_deadlines) { .event = e };
        r = sd_event_add_time(e, &all->timer, CLOCK_BOOTTIME, USEC_INFINITY, ACCURACY, on_timer, all);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(all->timer, name);
        return sd_event_source_set_enabled(all->timer, SD_EVENT_OFF);
}

void api_deadlines_clear(struct api_deadlines *all) {
        all->timer = sd_event_source_disable_unref(all->timer);
}

void api_deadline_add(struct api_deadlines *all, struct api_deadline *d, int fd, usec_t from_now) {
        *d = (struct api_deadline) { .fd = fd, .next = all->first, .previous = &all->first };
        if (d->next)
                d->next->previous = &d->next;
        all->first = d;
        api_deadline_set(all, d, from_now);
}

void api_deadline_set(struct api_deadlines *all, struct api_deadline *d, usec_t from_now) {
        d->at = from_now == USEC_INFINITY ? USEC_INFINITY : now(all) + from_now;
        arm(all);
}

void api_deadline_remove(struct api_deadlines *all, struct api_deadline *d) {
        *d->previous = d->next;
        if (d->next)
                d->next->previous = d->previous;
        arm(all);
}
