/* SPDX-License-Identifier: Apache-2.0 */
#include "unit_watch.h"

/* --- Watches ------------------------------------------------------------------------------------------- */

static struct watch *watch_free(struct watch *w) {
        sd_bus_slot_unref(w->job_removed);
        sd_bus_slot_unref(w->unit_removed);
        sd_bus_slot_unref(w->call);
        free(w->start_job);
        free(w);
        return NULL;
}

struct watch *watch_find(struct unit_bus *u, const char *name) {
        for (struct watch *w = u->watches; w; w = w->next)
                if (streq(w->name, name))
                        return w;
        return NULL;
}

void watch_forget(struct unit_bus *u, const char *name) {
        for (struct watch **w = &u->watches; *w; w = &(*w)->next)
                if (streq((*w)->name, name)) {
                        struct watch *gone = *w;

                        *w = gone->next;
                        (void) watch_free(gone);
                        return;
                }
}

void watch_forget_all(struct unit_bus *u) {
        while (u->watches) {
                struct watch *w = u->watches;

                u->watches = w->next;
                (void) watch_free(w);
        }
}

/* Reports that the unit is gone; w is freed. */
static void watch_gone(struct watch *w) {
        struct unit_bus *u = w->owner;
        char name[RUN_NAME_MAX + 1];

        memcpy(name, w->name, sizeof(name));
        watch_forget(u, name);
        u->events->gone(name, u->userdata);
}

static int on_job_removed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *path, *unit, *result;
        uint32_t id;

        (void) e;
        if (sd_bus_message_read(m, "uoss", &id, &path, &unit, &result) < 0 || !w->start_job ||
            !streq(path, w->start_job))
                return 0;
        free(TAKE_PTR(w->start_job));
        w->starting = false;
        w->job_removed = sd_bus_slot_unref(w->job_removed);
        /* for its pid and group, or whether it is gone already; a lost bus is asked again when it is back */
        (void) watch_ask(w);
        w->owner->events->started(w->name, result, w->owner->userdata);
        return 0;
}

/*
 * A reason to ask, and no more: at each daemon-reload systemd removes all units and makes them again. While
 * a start is in progress the signal is of the unit before it; the end of the start asks in any case.
 */
static int on_unit_removed(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;

        (void) m;
        (void) e;
        if (w->asking)
                w->again = true;
        else if (!w->starting)
                (void) watch_ask(w);
        return 0;
}

/*
 * sd-bus does not match arguments behind one that is no string, and JobRemoved begins with a number: this
 * rule lets in the signals of all units, and so it stands only while a start is in progress.
 */
int watch_start(struct watch *w) {
        int r = sd_bus_match_signal_async(w->owner->bus, &w->job_removed, SYSTEMD_SERVICE, SYSTEMD_PATH,
                                          SYSTEMD_MANAGER, "JobRemoved", on_job_removed, NULL, w);

        w->starting = r >= 0;
        return r < 0 ? r : 0;
}

int watch_new(struct unit_bus *u, const char *name, struct watch **ret) {
        char rule[320], unit[RUN_UNIT_MAX];
        struct watch *w;
        int r;

        watch_forget(u, name);
        w = calloc(1, sizeof(*w));
        if (!w)
                return -ENOMEM;
        w->owner = u;
        (void) snprintf(w->name, sizeof(w->name), "%s", name);
        (void) snprintf(rule, sizeof(rule),
                        "type='signal',sender='%s',path='%s',interface='%s',member='UnitRemoved',arg0='%s'",
                        SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER, run_unit(name, unit));
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

/* --- Questions: state, then start or pid and group ----------------------------------------------------- */

static int get_property(struct watch *w, const char *interface, const char *property,
                        sd_bus_message_handler_t handler) {
        _cleanup_free_ char *path = NULL;
        char unit[RUN_UNIT_MAX];
        int r;

        r = sd_bus_path_encode(SYSTEMD_PATH "/unit", run_unit(w->name, unit), &path);
        if (r < 0)
                return r;
        w->call = sd_bus_slot_unref(w->call);
        return sd_bus_call_method_async(w->owner->bus, &w->call, SYSTEMD_SERVICE, path,
                                        "org.freedesktop.DBus.Properties", "Get", handler, w, "ss",
                                        interface, property);
}

/* Not gone. What was removed while we asked may have been the unit itself: asked once more. */
static void answered(struct watch *w) {
        w->asking = false;
        if (w->again)
                (void) watch_ask(w);
}

static int on_group(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *group = "";

        (void) e;
        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "s", &group) < 0)
                group = "";
        answered(w);
        w->owner->events->running(w->name, w->main_pid, group, w->owner->userdata);
        return 0;
}

static int on_pid(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;

        (void) e;
        if (!sd_bus_message_is_method_error(m, NULL) && sd_bus_message_read(m, "v", "u", &w->main_pid) < 0)
                w->main_pid = 0;
        (void) get_property(w, "org.freedesktop.systemd1.Service", "ControlGroup", on_group);
        return 0;
}

static int on_job(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *path;
        uint32_t id;

        (void) e;
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "(uo)", &id, &path) < 0) {
                answered(w);
                return 0;
        }
        if (id == 0)
                watch_gone(w);
        else { /* its start was asked for before the bus was lost, and waits */
                answered(w);
                w->owner->events->running(w->name, 0, "", w->owner->userdata);
        }
        return 0;
}

static int on_state(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;
        const char *state;

        (void) e;
        /* An error here is the bus or systemd going away: asked again when it is back. */
        if (sd_bus_message_is_method_error(m, NULL) || sd_bus_message_read(m, "v", "s", &state) < 0) {
                answered(w);
                return 0;
        }
        if (streq(state, "inactive") || streq(state, "failed"))
                (void) get_property(w, "org.freedesktop.systemd1.Unit", "Job", on_job);
        else
                (void) get_property(w, "org.freedesktop.systemd1.Service", "MainPID", on_pid);
        return 0;
}

static int on_unit(sd_bus_message *m, void *userdata, sd_bus_error *e) {
        struct watch *w = userdata;

        (void) e;
        if (sd_bus_message_is_method_error(m, "org.freedesktop.systemd1.NoSuchUnit"))
                watch_gone(w);
        else if (sd_bus_message_is_method_error(m, NULL))
                answered(w); /* as in on_state() */
        else
                (void) get_property(w, "org.freedesktop.systemd1.Unit", "ActiveState", on_state);
        return 0;
}

/* GetUnit first: to ask an object that is gone would make systemd load it, and remove it again, and report
 * that. */
int watch_ask(struct watch *w) {
        char unit[RUN_UNIT_MAX];
        int r;

        w->again = false;
        w->call = sd_bus_slot_unref(w->call);
        r = sd_bus_call_method_async(w->owner->bus, &w->call, SYSTEMD_SERVICE, SYSTEMD_PATH, SYSTEMD_MANAGER,
                                     "GetUnit", on_unit, w, "s", run_unit(w->name, unit));
        w->asking = r >= 0;
        return r < 0 ? r : 0;
}
