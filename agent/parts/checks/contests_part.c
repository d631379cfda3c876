/* SPDX-License-Identifier: Apache-2.0 */
#include "contests_part.h"

#include "contested.h"
#include "log.h"

struct contests_state {
        struct bus *bus;
        struct contested_list known; /* as it was reported */
        int error;                   /* of reading it, which was logged */
};

static void report_begun(struct contests_state *s, const struct contested *c) {
        struct finding f;

        finding_init(&f, c->check, c->subject);
        contested_words(s->bus->host, c, &f);
        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_CONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times, .reason = f.reason, .remedy = f.remedy),
                        NULL);
}

static void report_ended(struct contests_state *s, const struct contested *c) {
        usec_t now = host_now(s->bus->host);

        (void) bus_emit(s->bus,
                        EVENT_OF(NETCFG_UNCONTESTED, .check = c->check, .subject = c->subject,
                                 .setting = c->setting, .wanted = c->ours, .found = c->theirs,
                                 .times = c->times,
                                 .lasted_msec = (int64_t) ((now - MIN(now, c->since)) / USEC_PER_MSEC)),
                        NULL);
}

static void tick_contests(void *self) {
        struct contests_state *s = self;
        struct contested_list now;
        int r = contested_load(s->bus->host, &now);

        if (r < 0 && r != s->error)
                (void) log_warning_errno(r, "which settings are contested cannot be read: %m");
        s->error = r;
        if (r < 0)
                return;
        for (size_t i = 0; i < s->known.n; i++)
                if (!contested_find(&now, &s->known.items[i]))
                        report_ended(s, &s->known.items[i]);
        for (size_t i = 0; i < now.n; i++)
                if (!contested_find(&s->known, &now.items[i]))
                        report_begun(s, &now.items[i]);
        s->known = now;
}

const struct part contests_part = {
        .name = "contests",
        .size = sizeof(struct contests_state),
        .tick = tick_contests,
};
