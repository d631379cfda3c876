/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No registry: who is in the slice is what the host's own identity says. The one record that it tells is a
 * slice/ made of that: a roster of this host alone, and the others as named, not as seen.
 */
#include "registry_backend.h"

struct static_registry {
        struct registry base; /* the first member */
        sd_event_source *soon;
        json_t *member;
};

static void free_static(struct registry *r) {
        struct static_registry *s = (struct static_registry *) r;

        s->soon = sd_event_source_disable_unref(s->soon);
        json_decref(s->member);
        registry_clear(r);
        free(s);
}

/* generation 0: nobody gave one. */
static json_t *slice_record(const struct static_registry *s) {
        const struct registry_options *o = &s->base.options;
        json_t *me = json_pack("{s:I, s:O?, s:O?, s:O?, s:O?}", "worker", (json_int_t) o->worker, "host",
                               json_object_get(s->member, "host"), "id", json_object_get(s->member, "id"),
                               "address", json_object_get(s->member, "address"), "incarnation",
                               json_object_get(s->member, "incarnation"));
        json_t *hosts = json_object_get(s->member, "hosts");

        return json_pack("{s:i, s:s, s:i, s:s, s:i, s:I, s:[o], s:[], s:[], s:[]}", "v", 1, "slice", o->slice,
                         "generation", 0, "state", "static", "since", 0, "hosts", json_integer_value(hosts),
                         "roster", me, "missing", "conflicts", "unlike");
}

static int on_soon(sd_event_source *source, void *userdata) {
        struct static_registry *s = userdata;
        char key[REGISTRY_KEY_MAX + 1];
        json_t *all = json_object(), *slice;

        (void) source;
        if (!s->member) {
                json_decref(all);
                return 0;
        }
        slice = slice_record(s);
        (void) snprintf(key, sizeof(key), "slice/%.63s", s->base.options.slice);
        if (all && slice && json_object_set(all, key, slice) == 0)
                registry_take_whole(&s->base, all);
        registry_tell(&s->base, REGISTRY_MEMBER, false, "no registry: membership is what the identity says");
        json_decref(slice);
        json_decref(all);
        return 0;
}

static int say(struct registry *r, const json_t *member) {
        struct static_registry *s = (struct static_registry *) r;
        json_t *mine = json_deep_copy(member);

        if (!mine)
                return -ENOMEM;
        json_decref(s->member);
        s->member = mine;
        return sd_event_source_set_enabled(s->soon, SD_EVENT_ONESHOT);
}

static bool leave(struct registry *r) {
        (void) r; /* nobody was told that we came */
        return false;
}

static int put(struct registry *r, const char *key, const json_t *value, registry_put_done done,
               void *userdata) {
        (void) r, (void) key, (void) value, (void) done, (void) userdata;
        return -EOPNOTSUPP;
}

static void renew(struct registry *r) {
        (void) r; /* no certificates */
}

static const struct registry_backend backend = {
        .free = free_static, .say = say, .leave = leave, .put = put, .renew = renew
};

int registry_static_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                        void *userdata, struct registry **ret, char why[static 256]) {
        struct static_registry *s = calloc(1, sizeof(*s));
        int r;

        (void) snprintf(why, 256, "out of memory");
        if (!s)
                return -ENOMEM;
        r = registry_init(&s->base, &backend, e, o, events, userdata);
        if (r == 0)
                r = sd_event_add_defer(e, &s->soon, on_soon, s);
        if (r >= 0)
                r = sd_event_source_set_enabled(s->soon, SD_EVENT_OFF);
        if (r < 0) {
                free_static(&s->base);
                return r;
        }
        (void) sd_event_source_set_description(s->soon, "registry-static");
        *ret = &s->base;
        return 0;
}
