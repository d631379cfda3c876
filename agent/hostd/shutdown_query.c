/* SPDX-License-Identifier: Apache-2.0 */
#include "shutdown_query.h"

#include <systemd/sd-bus.h>

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

int shutdown_query_new(sd_event *e, void (*done)(bool shutting_down, void *userdata), void *userdata,
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

struct shutdown_query *shutdown_query_free(struct shutdown_query *q) {
        if (!q)
                return NULL;
        q->slot = sd_bus_slot_unref(q->slot);
        q->bus = sd_bus_close_unref(q->bus);
        free(q);
        return NULL;
}
