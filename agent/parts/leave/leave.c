/* SPDX-License-Identifier: Apache-2.0 */
#include "leave.h"

#include <systemd/sd-bus.h>

#include "log.h"
#include "loop_timer.h"
#include "member.h"
#include "uplink_part.h"

#define STATE_PATIENCE (1 * USEC_PER_SEC)
#define FLUSH_MAX (5 * USEC_PER_SEC) /* TimeoutStopSec= of the unit is 30 s */

struct leave_state {
        struct bus *bus;
        bool up, begun; /* up: all parts were started */
        sd_event_source *progress, *patience;
        sd_bus *system;
        sd_bus_slot *question; /* whether the machine is shut down; NULL: not asked */
        bool answered;
        uint64_t wanted[_UPLINK_CLASS_MAX]; /* next_seq when it began: all before it are to be decided */
};

/* --- Whether the machine is shut down ------------------------------------------------------------------ */

/*
 * Systemd is asked for the property SystemState of its manager, which is "stopping" while shutdown.target is
 * active or queued (org.freedesktop.systemd1(5), systemctl(1) is-system-running), a reboot included; not
 * where this daemon alone is stopped. Not logind's PrepareForShutdown: it is heard by who listens before,
 * and not every machine has logind. Over the system bus, in the loop. Where nobody answers, the machine goes
 * on.
 */
static int on_system_state(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        struct leave_state *s = userdata;
        struct registry *registry = member_registry(s->bus);
        const char *state = "";

        (void) ret_error;
        s->answered = true;
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "s", &state) < 0 ||
            !streq(state, "stopping") || !registry)
                return 0;
        log_info("the machine is shut down: this host leaves the registry");
        registry_leave(registry);
        return 0;
}

static int ask_system_state(struct leave_state *s) {
        int r = sd_bus_open_system(&s->system);

        if (r >= 0)
                r = sd_bus_attach_event(s->system, s->bus->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_set_method_call_timeout(s->system, STATE_PATIENCE);
        return r < 0 ? r
                     : sd_bus_call_method_async(s->system, &s->question, "org.freedesktop.systemd1",
                                                "/org/freedesktop/systemd1",
                                                "org.freedesktop.DBus.Properties", "Get", on_system_state, s,
                                                "ss", "org.freedesktop.systemd1.Manager", "SystemState");
}

/* With another root, the machine's own bus is not that host's, unless it is named. */
static void ask_shutdown(struct leave_state *s) {
        const struct bus *b = s->bus;
        int r;

        if (!member_registry(b) || (!b->host->real_root && !secure_getenv("DBUS_SYSTEM_BUS_ADDRESS")))
                return;
        r = ask_system_state(s);
        if (r < 0) /* its lease ends by itself */
                log_info("whether the machine is shut down cannot be asked: %s", strerror(-r));
}

/* --- The end ------------------------------------------------------------------------------------------- */

/* Records from before the end that still wait for an endpoint's decision. */
static uint64_t left_of(const struct leave_state *s, const struct uplink_stats *u, size_t class) {
        uint64_t first = u->classes[class].spool.first_seq;

        return first < s->wanted[class] ? s->wanted[class] - first : 0;
}

/* Whether an endpoint takes this class, as far as is known. */
static bool has_path(const struct uplink_stats *u, size_t class) {
        for (size_t i = 0; i < u->n_endpoints; i++) {
                const struct uplink_route *r = &u->endpoints[i].routes[class];

                if (!r->parked && r->failures == 0 && !u->endpoints[i].dns_error[0])
                        return true;
        }
        return false;
}

static bool has_left(const struct leave_state *s) {
        const struct registry *r = member_registry(s->bus);

        return (!s->question || s->answered) && (!r || registry_has_left(r));
}

/* After whatever happened in the loop. */
static int end_if_done(struct leave_state *s) {
        uint64_t left = 0;
        struct uplink_stats u;
        bool path = true;

        uplink_get_stats(uplink_of(s->bus), &u);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t n = left_of(s, &u, c);

                left += n;
                path = path && (n == 0 || (u.classes[c].durable && has_path(&u, c)));
        }
        if ((left > 0 && path) || !has_left(s))
                return 0;
        if (left > 0)
                log_info("%" PRIu64 " records stay in the spool until the next start: no endpoint takes "
                         "them now", left);
        return sd_event_exit(s->bus->event, 0);
}

static int on_progress(sd_event_source *source, void *userdata) {
        (void) source;
        (void) end_if_done(userdata);
        return 0;
}

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata) {
        struct leave_state *s = userdata;

        (void) source, (void) usec;
        log_info("records stay in the spool until the next start: not delivered within %u s",
                 (unsigned) (FLUSH_MAX / USEC_PER_SEC));
        (void) sd_event_exit(s->bus->event, 0);
        return 0;
}

static int begin_flush(struct leave_state *s) {
        struct uplink_stats u;
        int r;

        ask_shutdown(s);
        uplink_sync_now(uplink_of(s->bus), UPLINK_METRICS);
        uplink_get_stats(uplink_of(s->bus), &u);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                s->wanted[c] = u.classes[c].spool.next_seq;
        r = loop_timer_new(s->bus->event, CLOCK_MONOTONIC, 0, "stop-patience", on_patience, s, &s->patience);
        if (r >= 0)
                r = loop_timer_in(s->patience, FLUSH_MAX);
        if (r >= 0)
                r = sd_event_add_post(s->bus->event, &s->progress, on_progress, s);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(s->progress, "stop-progress");
        return end_if_done(s);
}

void leave_begin(const struct bus *b) {
        struct leave_state *s = bus_part(b, &leave_part);

        if (s->begun) { /* asked again */
                (void) sd_event_exit(b->event, 0);
                return;
        }
        s->begun = true;
        (void) bus_emit(s->bus, EVENT_OF(AGENT_STOPPING, .version = TPU_HOSTD_VERSION), NULL);
        if (begin_flush(s) < 0)
                (void) sd_event_exit(b->event, 0);
}

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_leave(void *self) {
        ((struct leave_state *) self)->up = true;
        return 0;
}

static void stop_leave(void *self) {
        struct leave_state *s = self;

        if (s->up && !s->begun)
                (void) bus_emit(s->bus, EVENT_OF(AGENT_STOPPING, .version = TPU_HOSTD_VERSION), NULL);
        s->question = sd_bus_slot_unref(s->question);
        s->system = sd_bus_close_unref(s->system);
        s->progress = sd_event_source_disable_unref(s->progress);
        s->patience = sd_event_source_disable_unref(s->patience);
}

const struct part leave_part = {
        .name = "leave",
        .size = sizeof(struct leave_state),
        .start = start_leave,
        .stop = stop_leave,
};
