/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_told.h"

int registry_told_init(struct registry_told *t, sd_event *e, const struct registry_events *events,
                       void *userdata) {
        t->event = sd_event_ref(e);
        t->events = *events;
        t->userdata = userdata;
        /* Fails for a clock that is not there only. */
        (void) sd_event_now(e, CLOCK_BOOTTIME, &t->status.since);
        t->records = json_object();
        return t->records ? 0 : -ENOMEM;
}

void registry_told_clear(struct registry_told *t) {
        json_decref(t->records);
        t->records = NULL;
        t->event = sd_event_unref(t->event);
}

void registry_told_record(struct registry_told *t, const char *key, const json_t *value) {
        json_t *known = json_object_get(t->records, key), *now = (json_t *) (uintptr_t) value;

        if (!now || json_is_null(now)) {
                if (!known)
                        return;
                (void) json_object_del(t->records, key); /* it is there */
                t->events.record(key, NULL, t->userdata);
                return;
        }
        if (known && json_equal(known, now))
                return;
        /* Out of memory: it is told nevertheless, and told again with the next answer that names it. */
        (void) json_object_set(t->records, key, now);
        t->events.record(key, now, t->userdata);
}

void registry_told_whole(struct registry_told *t, const json_t *records) {
        json_t *all = (json_t *) (uintptr_t) records, *value;
        const char *key;
        void *next;

        json_object_foreach_safe(t->records, next, key, value) {
                char gone[REGISTRY_KEY_MAX + 1];

                if (json_object_get(all, key))
                        continue;
                (void) snprintf(gone, sizeof(gone), "%s", key); /* the key goes with its record */
                registry_told_record(t, gone, NULL);
        }
        json_object_foreach(all, key, value)
                registry_told_record(t, key, value);
        if (t->complete)
                return;
        t->complete = true;
        t->events.complete(t->userdata);
}

void registry_told_status(struct registry_told *t, enum registry_state s, bool may_claim, const char *why) {
        struct registry_status *now = &t->status;
        char text[sizeof(now->why)]; /* why may be the one that stands */

        (void) snprintf(text, sizeof(text), "%s", why);
        if (now->state == s && now->may_claim == may_claim && streq(now->why, text))
                return;
        if (now->state != s)
                (void) sd_event_now(t->event, CLOCK_BOOTTIME, &now->since); /* as in registry_told_init() */
        now->state = s;
        now->may_claim = may_claim;
        memcpy(now->why, text, sizeof(now->why));
        t->events.status(now, t->userdata);
}
