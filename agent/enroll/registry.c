/* SPDX-License-Identifier: Apache-2.0 */
#include "registry_backend.h"

static const char *const kind_names[] = {
        [REGISTRY_NONE] = "none",
        [REGISTRY_STATIC] = "static",
        [REGISTRY_COLLECTOR] = "collector",
        [REGISTRY_ETCD] = "etcd",
};
_Static_assert(ELEMENTSOF(kind_names) == _REGISTRY_KIND_MAX, "every kind has a name");

static const char *const state_names[] = {
        [REGISTRY_JOINING] = "joining", [REGISTRY_MEMBER] = "member",   [REGISTRY_CONFLICT] = "conflict",
        [REGISTRY_AWAY] = "away",       [REGISTRY_REFUSED] = "refused",
};
_Static_assert(ELEMENTSOF(state_names) == _REGISTRY_STATE_MAX, "every state has a name");

const char *registry_kind_name(enum registry_kind k) {
        return kind_names[k];
}

int registry_kind_parse(const char *name, enum registry_kind *ret) {
        for (enum registry_kind k = 0; k < _REGISTRY_KIND_MAX; k++)
                if (streq(kind_names[k], name)) {
                        *ret = k;
                        return 0;
                }
        return -EINVAL;
}

const char *registry_state_name(enum registry_state s) {
        return state_names[s];
}

/* --- What the backends have in common ------------------------------------------------------------------ */

static int copy(const char **text, bool wanted) {
        if (!*text && !wanted)
                return 0;
        *text = strdup(*text ? *text : "");
        return *text ? 0 : -ENOMEM;
}

int registry_init(struct registry *r, const struct registry_backend *b, sd_event *e,
                  const struct registry_options *o, const struct registry_events *events, void *userdata) {
        struct registry_options mine = *o;
        bool bad = false;

        r->backend = b;
        r->event = sd_event_ref(e);
        r->events = *events;
        r->userdata = userdata;
        (void) sd_event_now(e, CLOCK_BOOTTIME, &r->status.since); /* fails for a clock that is not there only */
        bad |= copy(&mine.endpoints, true) < 0;
        bad |= copy(&mine.tenant, true) < 0;
        bad |= copy(&mine.host, true) < 0;
        bad |= copy(&mine.slice, true) < 0;
        bad |= copy(&mine.ca, false) < 0;
        bad |= copy(&mine.certificate, false) < 0;
        bad |= copy(&mine.key, false) < 0;
        r->options = mine;
        r->records = json_object();
        return bad || !r->records ? -ENOMEM : 0;
}

static void drop(const char **text) {
        free((void *) (uintptr_t) *text);
        *text = NULL;
}

void registry_clear(struct registry *r) {
        drop(&r->options.endpoints);
        drop(&r->options.tenant);
        drop(&r->options.host);
        drop(&r->options.slice);
        drop(&r->options.ca);
        drop(&r->options.certificate);
        drop(&r->options.key);
        json_decref(r->records);
        r->records = NULL;
        r->event = sd_event_unref(r->event);
}

void registry_take(struct registry *r, const char *key, const json_t *value) {
        json_t *known = json_object_get(r->records, key), *now = (json_t *) (uintptr_t) value;

        if (!now || json_is_null(now)) {
                if (!known)
                        return;
                (void) json_object_del(r->records, key); /* it is there */
                r->events.record(key, NULL, r->userdata);
                return;
        }
        if (known && json_equal(known, now))
                return;
        /* Out of memory: it is told nevertheless, and told again with the next answer that names it. */
        (void) json_object_set(r->records, key, now);
        r->events.record(key, now, r->userdata);
}

void registry_take_whole(struct registry *r, const json_t *records) {
        json_t *all = (json_t *) (uintptr_t) records, *value;
        const char *key;
        void *next;

        json_object_foreach_safe(r->records, next, key, value) {
                char gone[REGISTRY_KEY_MAX + 1];

                if (json_object_get(all, key))
                        continue;
                (void) snprintf(gone, sizeof(gone), "%s", key); /* the key goes with its record */
                registry_take(r, gone, NULL);
        }
        json_object_foreach(all, key, value)
                registry_take(r, key, value);
        if (r->complete)
                return;
        r->complete = true;
        r->events.complete(r->userdata);
}

void registry_tell(struct registry *r, enum registry_state s, bool may_claim, const char *why) {
        struct registry_status *now = &r->status;
        char text[sizeof(now->why)]; /* why may be the one that stands */

        (void) snprintf(text, sizeof(text), "%s", why);
        if (now->state == s && now->may_claim == may_claim && streq(now->why, text))
                return;
        if (now->state != s)
                (void) sd_event_now(r->event, CLOCK_BOOTTIME, &now->since); /* as in registry_init() */
        now->state = s;
        now->may_claim = may_claim;
        memcpy(now->why, text, sizeof(now->why));
        r->events.status(now, r->userdata);
}

/* --- The contract -------------------------------------------------------------------------------------- */

int registry_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                 void *userdata, struct registry **ret, char why[static 256]) {
        switch (o->kind) {
        case REGISTRY_STATIC:
                return registry_static_new(e, o, events, userdata, ret, why);
        case REGISTRY_COLLECTOR:
                return registry_collector_new(e, o, events, userdata, ret, why);
        case REGISTRY_ETCD:
                return registry_etcd_new(e, o, events, userdata, ret, why);
        case REGISTRY_NONE:
        case _REGISTRY_KIND_MAX:
                break;
        }
        (void) snprintf(why, 256, "there is no registry of kind %s",
                        o->kind < _REGISTRY_KIND_MAX ? kind_names[o->kind] : "?");
        return -EINVAL;
}

struct registry *registry_free(struct registry *r) {
        if (r)
                r->backend->free(r);
        return NULL;
}

int registry_say(struct registry *r, const json_t *member) {
        return r->backend->say(r, member);
}

void registry_leave(struct registry *r) {
        r->leaving = true; /* the answer may come before the call is over */
        if (!r->backend->leave(r))
                r->leaving = false;
}

bool registry_has_left(const struct registry *r) {
        return !r->leaving;
}

int registry_put(struct registry *r, const char *key, const json_t *value, registry_put_done done,
                 void *userdata) {
        return r->backend->put(r, key, value, done, userdata);
}

void registry_renew(struct registry *r) {
        r->backend->renew(r);
}

int registry_figures(struct registry *r, const json_t *figures) {
        return r->backend->figures ? r->backend->figures(r, figures) : 0;
}

uint64_t registry_term(const struct registry *r) {
        return r->backend->term ? r->backend->term(r) : 0;
}

int registry_post(struct registry *r, const char *path_and_query, const char *content_type, const void *body,
                  size_t len, registry_post_done done, void *userdata) {
        return r->backend->post ? r->backend->post(r, path_and_query, content_type, body, len, done, userdata) :
                                  -EOPNOTSUPP;
}
