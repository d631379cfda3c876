/* SPDX-License-Identifier: Apache-2.0 */
#include <systemd/sd-bus.h>
#include <systemd/sd-event.h>

#include "agent_registry.h"
#include "base.h"
#include "log.h"
#include "uplink_part.h"

/*
 * Whether the machine is being shut down, and not this daemon alone stopped: systemd is asked for the property SystemState of
 * its manager, which is "stopping" while shutdown.target is active or has a job (org.freedesktop.systemd1(5),
 * systemctl(1) is-system-running), a reboot included. Not logind's PrepareForShutdown: it is heard by who listens before,
 * and not every machine has logind. Over the system bus, in the loop.
 */

struct shutdown_query;
static struct shutdown_query *shutdown_query_free(struct shutdown_query *q);
DEFINE_CLEANUP(struct shutdown_query *, shutdown_query_free)

#define PATIENCE (1 * USEC_PER_SEC)

struct shutdown_query {
        sd_bus *bus;
        sd_bus_slot *slot;
        void (*done)(bool shutting_down, void *userdata);
        void *userdata;
};

static int on_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        struct shutdown_query *q = userdata;
        const char *state = "";

        (void) ret_error;
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "s", &state) < 0)
                state = "";
        q->done(streq(state, "stopping"), q->userdata);
        return 0;
}

static int ask(struct shutdown_query *q) {
        sd_bus_message *m = NULL;
        int r;

        r = sd_bus_message_new_method_call(q->bus, &m, "org.freedesktop.systemd1", "/org/freedesktop/systemd1",
                                           "org.freedesktop.DBus.Properties", "Get");
        if (r >= 0)
                r = sd_bus_message_append(m, "ss", "org.freedesktop.systemd1.Manager", "SystemState");
        if (r >= 0)
                r = sd_bus_call_async(q->bus, &q->slot, m, on_reply, q, PATIENCE);
        sd_bus_message_unref(m);
        return r;
}

/*
 * done is called once, from the loop, within a second: false also where nobody answers. -errno: there is no bus, or no
 * memory; done is not called then.
 */
static int shutdown_query_new(sd_event *e, void (*done)(bool shutting_down, void *userdata), void *userdata,
                              struct shutdown_query **ret) {
        _cleanup_(shutdown_query_freep) struct shutdown_query *q = calloc(1, sizeof(*q));
        int r;

        if (!q)
                return -ENOMEM;
        q->done = done;
        q->userdata = userdata;
        r = sd_bus_open_system(&q->bus);
        if (r >= 0)
                r = sd_bus_attach_event(q->bus, e, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = ask(q);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(q);
        return 0;
}

static struct shutdown_query *shutdown_query_free(struct shutdown_query *q) {
        if (!q)
                return NULL;
        q->slot = sd_bus_slot_unref(q->slot);
        q->bus = sd_bus_close_unref(q->bus);
        free(q);
        return NULL;
}

/*
 * The end on a signal: what was recorded up to then is delivered first, where that is a matter of moments. Where the whole
 * machine goes down, the registry is told, so that a run over slices does not wait for this host.
 */

#define FLUSH_MAX (5 * USEC_PER_SEC) /* TimeoutStopSec= of the unit is 30 s */

struct agent_stopping {
        struct bus *bus;
        sd_event_source *progress, *patience;
        struct shutdown_query *query; /* NULL: not asked */
        bool answered;
        uint64_t wanted[_UPLINK_CLASS_MAX]; /* next_seq when it began: all before it are to be decided */
};

/* Records of before the stop that still wait for an endpoint's decision. */
static uint64_t left_of(const struct agent_stopping *s, const struct uplink_stats *u, size_t class) {
        uint64_t first = u->classes[class].spool.first_seq;

        return first < s->wanted[class] ? s->wanted[class] - first : 0;
}

/* Whether an endpoint takes this class, as far as is known. */
static bool has_way(const struct uplink_stats *u, size_t class) {
        for (size_t i = 0; i < u->n_endpoints; i++) {
                const struct uplink_route *r = &u->endpoints[i].routes[class];

                if (!r->parked && r->failures == 0 && !u->endpoints[i].dns_error[0])
                        return true;
        }
        return false;
}

static bool has_left(const struct agent_stopping *s) {
        const struct agent_registry *g = agent_of(s->bus)->enrollment;

        return (!s->query || s->answered) && (!g || !g->registry || registry_has_left(g->registry));
}

/* After whatever happened in the loop. */
static int look(struct agent_stopping *s) {
        uint64_t left = 0;
        struct uplink_stats u;
        bool way = true;

        uplink_get_stats(uplink_of(s->bus), &u);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++) {
                uint64_t n = left_of(s, &u, c);

                left += n;
                way = way && (n == 0 || (u.classes[c].durable && has_way(&u, c)));
        }
        if ((left > 0 && way) || !has_left(s))
                return 0;
        if (left > 0)
                log_info("%" PRIu64 " records stay in the spool until the next start: no endpoint takes them now",
                         left);
        return sd_event_exit(s->bus->event, 0);
}

static int on_progress(sd_event_source *source, void *userdata) {
        (void) source;
        (void) look(userdata);
        return 0;
}

static int on_patience(sd_event_source *source, uint64_t usec, void *userdata) {
        struct agent_stopping *s = userdata;

        (void) source, (void) usec;
        log_info("records stay in the spool until the next start: not delivered within %u s",
                 (unsigned) (FLUSH_MAX / USEC_PER_SEC));
        (void) sd_event_exit(s->bus->event, 0);
        return 0;
}

static void on_shutdown_known(bool shutting_down, void *userdata) {
        struct agent_stopping *s = userdata;
        struct agent_registry *g = agent_of(s->bus)->enrollment;

        s->answered = true; /* it is freed with us: this is its handler */
        if (!shutting_down || !g || !g->registry)
                return;
        log_info("the machine is shut down: the registry is told");
        registry_leave(g->registry);
}

/* With another root, the machine's own bus is not that host's, unless it is named. */
static void ask_shutdown(struct agent_stopping *s) {
        const struct bus *b = s->bus;
        int r;

        if (!agent_of(b)->enrollment || !agent_of(b)->enrollment->registry ||
            (!b->host->real_root && !secure_getenv("DBUS_SYSTEM_BUS_ADDRESS")))
                return;
        r = shutdown_query_new(b->event, on_shutdown_known, s, &s->query);
        if (r < 0) /* its lease ends by itself */
                log_info("whether the machine is shut down cannot be asked: %s", strerror(-r));
}

static int start(struct agent_stopping *s) {
        struct uplink_stats u;
        int r;

        ask_shutdown(s);
        uplink_sync_now(uplink_of(s->bus), UPLINK_METRICS);
        uplink_get_stats(uplink_of(s->bus), &u);
        for (size_t c = 0; c < _UPLINK_CLASS_MAX; c++)
                s->wanted[c] = u.classes[c].spool.next_seq;
        r = sd_event_add_time_relative(s->bus->event, &s->patience, CLOCK_MONOTONIC, FLUSH_MAX, 0, on_patience, s);
        if (r >= 0)
                r = sd_event_add_post(s->bus->event, &s->progress, on_progress, s);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(s->patience, "stop-patience");
        (void) sd_event_source_set_description(s->progress, "stop-progress");
        return look(s);
}

void agent_stop(struct agent *a) {
        struct bus *b = &a->bus;
        struct agent_stopping *s = agent_of(b)->stopping ? NULL : calloc(1, sizeof(*s));

        if (!s) { /* told again, or out of memory: at once */
                (void) sd_event_exit(b->event, 0);
                return;
        }
        s->bus = b;
        agent_of(b)->stopping = s;
        (void) bus_emit(b, EVENT_OF(AGENT_STOPPING, .version = TPU_HOSTD_VERSION), NULL);
        if (start(s) < 0)
                (void) sd_event_exit(b->event, 0);
}

void agent_stop_clear(struct bus *b) {
        if (!agent_of(b)->stopping)
                return;
        agent_of(b)->stopping->query = shutdown_query_free(agent_of(b)->stopping->query);
        sd_event_source_disable_unref(agent_of(b)->stopping->progress);
        sd_event_source_disable_unref(agent_of(b)->stopping->patience);
        free(TAKE_PTR(agent_of(b)->stopping));
}
