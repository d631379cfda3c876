/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is listened to and asked about one run's unit: the inside of unit.h's bus backend, shared by
 * unit_watch.c (one run) and unit_bus.c (starting, stopping, the connection).
 */
#include <systemd/sd-bus.h>

#include "unit.h"
#include "unit_message.h"

struct watch {
        struct watch *next;
        struct unit_bus *owner;
        char name[RUN_NAME_MAX + 1];
        sd_bus_slot *job_removed, *unit_removed, *call;
        bool starting; /* call, then start_job, are those of a start: nothing else is asked meanwhile */
        char *start_job; /* object path; NULL before the answer to the start */
        bool asking, again; /* a question is in progress; the unit was removed meanwhile */
        uint32_t main_pid;
};

struct unit_bus {
        sd_event *event;
        sd_bus *bus;
        sd_bus_slot *disconnected, *owner_changed, *subscribe;
        sd_event_source *retry;
        usec_t backoff;
        bool connected;
        struct watch *watches;
        const struct unit_events *events;
        void *userdata;
};

/* Takes the place of a watch of this name. */
int watch_new(struct unit_bus *u, const char *name, struct watch **ret);
struct watch *watch_find(struct unit_bus *u, const char *name);
/* Before a start is asked for. */
int watch_start(struct watch *w);
/* It is no error when there is none. */
void watch_forget(struct unit_bus *u, const char *name);
void watch_forget_all(struct unit_bus *u);
/* Asks for the state, then for pid and group: "running" or "gone" is reported later. */
int watch_ask(struct watch *w);
