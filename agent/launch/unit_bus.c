/* SPDX-License-Identifier: Apache-2.0 */
#include <systemd/sd-bus.h>

#include "log.h"
#include "unit.h"
#include "unit_message.h"

#define RECONNECT_FIRST (250 * USEC_PER_MSEC)
#define RECONNECT_MAX (30 * USEC_PER_SEC)

/* What we listen to and wait for about one run. */
struct watch {
        struct watch *next;
        struct unit_bus *owner;
        char name[JOB_NAME_MAX + 1];
        sd_bus_slot *job_removed, *unit_removed, *call;
        char *start_job; /* object path; NULL when no start is under way */
        uint32_t main_pid;
};

struct unit_bus {
        sd_event *event;
        sd_bus *bus;
        sd_bus_slot *disconnected, *subscribe;
        sd_event_source *retry;
        usec_t backoff;
        bool connected;
        struct watch *watches;
        const struct unit_events *events;
        void *userdata;
};

static int bus_connect(struct unit_bus *u);

/* --- Watches ------------------------------------------------------------------------------------------- */

static struct watch *watch_free(struct watch *w) {
        sd_bus_slot_unref(w->job_removed);
        sd_bus_slot_unref(w->unit_removed);
        sd_bus_slot_unref(w->call);
        free(w->start_job);
        free(w);
        return NULL;
}

static struct watch *watch_find(struct unit_bus *u, const char *name) {
        for (struct watch *w = u->watches; w; w = w->next)
                if (streq(w->name, name))
                        return w;
        return NULL;
}

static void bus_forget(void *backend, const char *name) {
        struct unit_bus *u = backend;

        for (struct watch **w = &u->watches; *w; w = &(*w)->next)
                if (streq((*w)->name, name)) {
                        struct watch *gone = *w;

                        *w = gone->next;
                        (void) watch_free(gone);
                        return;
                }
}

/* Reports that the unit is gone; w is freed. */
static void watch_gone(struct watch *w) {
        struct unit_bus *u = w->owner;
        char name[JOB_NAME_MAX + 1];

        memcpy(name, w->name, sizeof(name));
        bus_forget(u, name);
        u->events->gone(name, u->userdata);
}

static int ask(struct watch *w);

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *path, *unit, *result;
        uint32_t id;

        (void) e;
        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0 || !w->start_job ||
            !streq(path, w->start_job))
                return 0;
        free(TAKE_PTR(w->start_job));
        w->job_removed = sd_bus_slot_unref(w->job_removed);
        /* for its pid and group, or whether it is gone already; a lost bus is asked again when it is back */
        (void) ask(w);
        w->owner->events->started(w->name, result, w->owner->userdata);
        return 0;
}

static int on_unit_removed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        (void) m;
        (void) e;
        watch_gone(userdata);
        return 0;
}

/*
 * sd-bus does not match arguments behind one that is no string, and JobRemoved begins with a number: this
 * rule lets in the jobs of all units, and so it stands only while a start is under way.
 */
static int watch_start(struct watch *w) {
        int r = sd_bus_match_signal_async(w->owner->bus, &w->job_removed, SYSTEMD_SERVICE, SYSTEMD_PATH,
                                          SYSTEMD_MANAGER, "JobRemoved", on_job_removed, NULL, w);

        return r < 0 ? r : 0;
}

static int watch_new(struct unit_bus *u, const char *name, struct watch **ret) {
        char rule[320], unit[JOB_UNIT_MAX];
        struct watch *w;
        int r;

        bus_forget(u, name);
        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        w->owner = u;
        (void) snprintf(w->name, sizeof(w->name), "%s", name);
        (void) snprintf(rule, sizeof(rule),
                        "type='signal',sender='%s',path='%s',interface='%s',member='UnitRemoved',arg0='%s'",
                        SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER, job_unit(name, unit));
        r = sd_bus_add_match_async(u->bus, &w->unit_removed, rule, on_unit_removed, NULL, w);
        if (r < 0) {
                (void) watch_free(w);
                return r;
        }
        w->next = u->watches;
        u->watches = w;
        *ret = w;
        return 0;
}

/* --- Questions: state, then pid, then group ------------------------------------------------------------ */

static int get(struct watch *w, const char *interface, const char *property,
               sd_bus_message_handler_t handler) {
        _cleanup_free_ char *path = NULL;
        char unit[JOB_UNIT_MAX];
        int r;

        r = sd_bus_path_encode(SYSTEMD_PATH "/unit", job_unit(w->name, unit), &path);
        if (r < 0)
                return r;
        w->call = sd_bus_slot_unref(w->call);
        return sd_bus_call_method_async(w->owner->bus, &w->call, SYSTEMD_SERVICE, path,
                                        "org.freedesktop.DBus.Properties", "Get", handler, w, "ss",
                                        interface, property);
}

static int on_group(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *group = "";

        (void) e;
        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "s", &group) < 0)
                group = "";
        w->owner->events->running(w->name, w->main_pid, group, w->owner->userdata);
        return 0;
}

static int on_pid(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;

        (void) e;
        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "u", &w->main_pid) < 0)
                w->main_pid = 0;
        (void) get(w, "org.freedesktop.systemd1.Service", "ControlGroup", on_group);
        return 0;
}

static int on_state(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *state;

        (void) e;
        /* An error here is the bus going away: asked again when it is back. */
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "s", &state) < 0)
                return 0;
        if (streq(state, "inactive") || streq(state, "failed"))
                watch_gone(w);
        else
                (void) get(w, "org.freedesktop.systemd1.Service", "MainPID", on_pid);
        return 0;
}

static int ask(struct watch *w) {
        return get(w, "org.freedesktop.systemd1.Unit", "ActiveState", on_state);
}

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
        return ask(w);
}

/* --- Start and stop ------------------------------------------------------------------------------------ */

static int on_start_reply(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        struct watch *w = userdata;
        struct unit_bus *u = w->owner;
        const sd_bus_error *e = sd_bus_message_get_error(m);
        char name[JOB_NAME_MAX + 1];
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
        u->events->refused(name, error, e && e->message ? e->message : "no answer that can be understood",
                           u->userdata);
        if (error != -ENOTCONN)
                bus_forget(u, name);
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
        r = watch_new(u, s->name, &w); /* before the call: a run may have ended when its answer comes */
        if (r >= 0)
                r = watch_start(w);
        if (r >= 0)
                r = sd_bus_call_async(u->bus, &w->call, m, on_start_reply, w, 0);
        sd_bus_message_unref(m);
        if (r < 0)
                bus_forget(u, s->name);
        return r < 0 ? r : 0;
}

static int on_done(sd_bus_message *m, void *userdata, sd_bus_error *ret_error) {
        const sd_bus_error *e = sd_bus_message_get_error(m);

        (void) userdata;
        (void) ret_error;
        /* then it is gone, as was wanted */
        if (e && !sd_bus_error_has_name(e, "org.freedesktop.systemd1.NoSuchUnit"))
                log_warning("stopping a run: %s", e->message ? e->message : e->name);
        return 0;
}

static int bus_stop(void *backend, const char *name) {
        struct unit_bus *u = backend;
        char slice[JOB_UNIT_MAX];
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = sd_bus_call_method_async(u->bus, NULL, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                     "StopUnit", on_done, u, "ss", job_slice(name, slice), "replace");
        return r < 0 ? r : 0;
}

static int bus_kill(void *backend, const char *name) {
        struct unit_bus *u = backend;
        char slice[JOB_UNIT_MAX];
        int r;

        if (!u->connected)
                return -ENOTCONN;
        r = sd_bus_call_method_async(u->bus, NULL, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                     "KillUnit", on_done, u, "ssi", job_slice(name, slice), "all",
                                     9 /* SIGKILL */);
        return r < 0 ? r : 0;
}

const struct unit_backend unit_bus_backend = {
        .start = bus_start,
        .stop = bus_stop,
        .kill = bus_kill,
        .query = bus_query,
        .forget = bus_forget,
};

/* --- The connection ------------------------------------------------------------------------------------ */

static void drop_all(struct unit_bus *u) {
        u->connected = false;
        while (u->watches) {
                struct watch *w = u->watches;

                u->watches = w->next;
                (void) watch_free(w);
        }
}

static int on_retry(sd_event_source *s, uint64_t usec, void *userdata) {
        struct unit_bus *u = userdata;

        (void) s;
        (void) usec;
        u->retry = sd_event_source_disable_unref(u->retry);
        (void) bus_connect(u);
        return 0;
}

/* Later, and not at once: we may stand inside a handler of the connection that is being given up. */
static void retry_later(struct unit_bus *u) {
        int r;

        if (u->retry)
                return;
        r = sd_event_add_time_relative(u->event, &u->retry, CLOCK_MONOTONIC, u->backoff, 0, on_retry, u);
        if (r < 0)
                (void) log_error_errno(r, "the system bus cannot be tried again: %m");
        else
                (void) sd_event_source_set_description(u->retry, "bus-retry");
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

static int bus_connect(struct unit_bus *u) {
        int r;

        u->disconnected = sd_bus_slot_unref(u->disconnected);
        u->subscribe = sd_bus_slot_unref(u->subscribe);
        u->bus = sd_bus_close_unref(u->bus);
        r = sd_bus_open_system(&u->bus);
        if (r >= 0)
                r = sd_bus_attach_event(u->bus, u->event, SD_EVENT_PRIORITY_NORMAL);
        if (r >= 0)
                r = sd_bus_match_signal_async(u->bus, &u->disconnected, NULL, "/org/freedesktop/DBus/Local",
                                              "org.freedesktop.DBus.Local", "Disconnected", on_disconnected,
                                              NULL, u);
        if (r >= 0)
                r = sd_bus_call_method_async(u->bus, &u->subscribe, SYSTEMD_SERVICE, SYSTEMD_PATH,
                                             SYSTEMD_MANAGER, "Subscribe", on_subscribed, u, NULL);
        if (r >= 0)
                return 0;
        (void) log_warning_errno(r, "the system bus cannot be reached, tried again: %m");
        retry_later(u);
        return r;
}

int unit_bus_new(sd_event *e, const struct unit_events *events, void *userdata, struct unit_bus **ret) {
        struct unit_bus *u = calloc(1, sizeof(*u));

        if (!u)
                return -ENOMEM;
        u->event = sd_event_ref(e);
        u->events = events;
        u->userdata = userdata;
        u->backoff = RECONNECT_FIRST;
        /* logged and tried again: a host without its bus for a moment still answers questions */
        (void) bus_connect(u);
        *ret = u;
        return 0;
}

struct unit_bus *unit_bus_free(struct unit_bus *u) {
        if (!u)
                return NULL;
        drop_all(u);
        u->retry = sd_event_source_disable_unref(u->retry);
        u->disconnected = sd_bus_slot_unref(u->disconnected);
        u->subscribe = sd_bus_slot_unref(u->subscribe);
        u->bus = sd_bus_close_unref(u->bus);
        sd_event_unref(u->event);
        free(u);
        return NULL;
}
