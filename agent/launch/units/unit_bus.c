/* SPDX-License-Identifier: Apache-2.0 */

#include "log.h"
#include "loop_timer.h"
#include "unit_watch.h"

#define RECONNECT_FIRST (250 * USEC_PER_MSEC)
#define RECONNECT_MAX (30 * USEC_PER_SEC)

/* --- The backend --------------------------------------------------------------------------------------- */

static int bus_query(void *backend, const char *name) {
        struct unit_bus *u = backend;
        struct watch *w;
        int r;

        if (!u->connected)
                return -ENOTCONN;
        w = watch_find(u, name);
        if (!w) {
                r = watch_new(u, name, &w);
                if (r < 0)
                        return r;
        }
        if (w->starting && !w->start_job)
                return 0; /* the answer to the start comes first */
        w->starting = false; /* the end of it may have been missed */
        return watch_ask(w);
}

static int on_start_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        struct watch *w = userdata;
        struct unit_bus *u = w->owner;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        char name[RUN_NAME_MAX + 1];
        const char *path;
        int error = -EIO;

        (void) ret_error;
        if (!e && sd_bus_message_read(m, "o", &path) >= 0 && (w->start_job = strdup(path)))
                return 0;
        if (e && sd_bus_error_has_name(e, "org.freedesktop.systemd1.UnitExists"))
                error = -EEXIST;
        else if (e && (sd_bus_error_has_name(e, SD_BUS_ERROR_NO_REPLY) ||
                       sd_bus_error_has_name(e, SD_BUS_ERROR_DISCONNECTED)))
                error = -ENOTCONN;
        memcpy(name, w->name, sizeof(name));
        w->starting = false;
        u->events->refused(name, error, e && e->message ? e->message : "no answer that can be understood",
                           u->userdata);
        if (error != -ENOTCONN)
                watch_forget(u, name);
        return 0;
}

static int bus_start(void *backend, const struct unit_spec *s) {
        struct unit_bus *u = backend;
        sd_bus_message *m = NULL;
        struct watch *w;
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = unit_message_new(u->bus, s, &m);
        if (r < 0)
                return r;
        /* before the call: a run may have ended when its answer comes */
        r = watch_new(u, s->kept->name, &w);
        if (r >= 0)
                r = watch_start(w);
        if (r >= 0)
                r = sd_bus_call_async(u->bus, &w->call, m, on_start_reply, w, 0);
        sd_bus_message_unref(m);
        if (r < 0)
                watch_forget(u, s->kept->name);
        return r < 0 ? r : 0;
}

static int on_done(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);

        (void) userdata;
        (void) ret_error;
        /* then it is gone, as was wanted */
        if (e && !sd_bus_error_has_name(e, "org.freedesktop.systemd1.NoSuchUnit"))
                log_warning("systemd was asked about a run: %s", e->message ? e->message : e->name);
        return 0;
}

static int bus_stop(void *backend, const char *name) {
        struct unit_bus *u = backend;
        char slice[RUN_UNIT_MAX];
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = sd_bus_call_method_async(u->bus, NULL, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                     "StopUnit", on_done, u, "ss", run_slice(name, slice), "replace");
        return r < 0 ? r : 0;
}

static int bus_signal(void *backend, const char *name, int number) {
        struct unit_bus *u = backend;
        char unit[RUN_UNIT_MAX];
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = sd_bus_call_method_async(u->bus, NULL, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                     "KillUnit", on_done, u, "ssi", run_unit(name, unit), "main", number);
        return r < 0 ? r : 0;
}

static int bus_beside(void *backend, const struct unit_spec *s) {
        struct unit_bus *u = backend;
        sd_bus_message *m = NULL;
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = unit_message_beside(u->bus, s, &m);
        if (r >= 0)
                r = sd_bus_call_async(u->bus, NULL, m, on_done, u, 0);
        sd_bus_message_unref(m);
        return r < 0 ? r : 0;
}

const struct unit_backend unit_bus_backend = {
        .start = bus_start,
        .stop = bus_stop,
        .signal = bus_signal,
        .beside = bus_beside,
        .query = bus_query,
};

/* --- The connection ------------------------------------------------------------------------------------ */

static void drop_all(struct unit_bus *u) {
        u->connected = false;
        watch_forget_all(u);
}

static void drop_connection(struct unit_bus *u) {
        u->disconnected = sd_bus_slot_unref(u->disconnected);
        u->owner_changed = sd_bus_slot_unref(u->owner_changed);
        u->subscribe = sd_bus_slot_unref(u->subscribe);
        u->bus = sd_bus_close_unref(u->bus);
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        struct unit_bus *u = userdata;

        (void) s;
        (void) usec;
        u->retry = sd_event_source_disable_unref(u->retry);
        unit_bus_connect(u);
        return 0;
}

/* Later, and not at once: we may stand inside a handler of the connection that is being given up. */
static void retry_later(struct unit_bus *u) {
        int r;

        if (u->retry)
                return;
        r = loop_timer_new(u->event, CLOCK_MONOTONIC, 0, "bus-retry", on_retry, u, &u->retry);
        if (r >= 0)
                r = loop_timer_in(u->retry, u->backoff);
        if (r < 0)
                (void) log_error_errno(r, "the system bus cannot be tried again: %m");
        u->backoff = MIN(u->backoff * 2, RECONNECT_MAX);
}

static int on_disconnected(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct unit_bus *u = userdata;

        (void) m;
        (void) e;
        log_warning("the system bus is gone; runs go on, and are looked at again when it is back");
        drop_all(u);
        retry_later(u);
        return 0;
}

static int on_subscribed(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        struct unit_bus *u = userdata;
        const sd_bus_error *e = sd_bus_message_get_error(m);

        (void) ret_error;
        if (e && !sd_bus_error_has_name(e, "org.freedesktop.systemd1.AlreadySubscribed")) {
                log_warning("systemd does not answer on the system bus: %s; tried again",
                            e->message ? e->message : e->name);
                drop_all(u);
                retry_later(u);
                return 0;
        }
        u->connected = true;
        u->backoff = RECONNECT_FIRST;
        u->events->connected(u->userdata);
        return 0;
}

static int subscribe(struct unit_bus *u) {
        u->subscribe = sd_bus_slot_unref(u->subscribe);
        return sd_bus_call_method_async(u->bus, &u->subscribe, SYSTEMD_SERVICE, SYSTEMD_PATH,
                                        SYSTEMD_MANAGER, "Subscribe", on_subscribed, u, NULL);
}

/* systemd executed itself again (its package was upgraded): what it said meanwhile was not heard. */
static int on_owner_changed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        const char *name, *before, *after;

        (void) e;
        if (sd_bus_message_read(m, "sss", &name, &before, &after) >= 0 && after[0])
                (void) subscribe(userdata); /* a bus that is lost meanwhile comes back */
        return 0;
}

static int listen_to_bus(struct unit_bus *u) {
        int r;

        r = sd_bus_match_signal_async(u->bus, &u->disconnected, NULL, "/org/freedesktop/DBus/Local",
                                      "org.freedesktop.DBus.Local", "Disconnected", on_disconnected, NULL,
                                      u);
        if (r < 0)
                return r;
        return sd_bus_add_match_async(u->bus, &u->owner_changed,
                                      "type='signal',sender='org.freedesktop.DBus',"
                                      "path='/org/freedesktop/DBus',interface='org.freedesktop.DBus',"
                                      "member='NameOwnerChanged',arg0='" SYSTEMD_SERVICE "'",
                                      on_owner_changed, NULL, u);
}

void unit_bus_connect(struct unit_bus *u) {
        int r;

        drop_connection(u);
        r = sd_bus_open_system(&u->bus);
        if (r >= 0)
                r = sd_bus_attach_event(u->bus, u->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_set_method_call_timeout(u->bus, USEC_INFINITY); /* PID 1 may be busy for long */
        if (r >= 0)
                r = listen_to_bus(u);
        if (r >= 0)
                r = subscribe(u);
        if (r >= 0)
                return;
        (void) log_warning_errno(r, "the system bus cannot be reached, tried again: %m");
        retry_later(u);
}

int unit_bus_new(sd_event *e, const struct unit_events *events, void *userdata, struct unit_bus **ret) {
        struct unit_bus *u = calloc(1, sizeof(*u));

        if (!u)
                return -ENOMEM;
        u->event = sd_event_ref(e);
        u->events = events;
        u->userdata = userdata;
        u->backoff = RECONNECT_FIRST;
        *ret = u;
        return 0;
}

bool unit_bus_is_connected(const struct unit_bus *u) {
        return u->connected;
}

struct unit_bus *unit_bus_free(struct unit_bus *u) {
        if (!u)
                return NULL;
        drop_all(u);
        u->retry = sd_event_source_disable_unref(u->retry);
        drop_connection(u);
        sd_event_unref(u->event);
        free(u);
        return NULL;
}
