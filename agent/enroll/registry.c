/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include "sync_client.h"

struct registry {
        struct registry_known told;
        struct registry_options options; /* its texts are ours; only the files may be NULL */
        struct sync_client *client;      /* NULL: static */
        sd_event_source *soon;           /* static: what this host is, is reported back */
        json_t *member;                  /* static */
};

static const char *const kind_names[] = {
        [REGISTRY_NONE] = "none",
        [REGISTRY_STATIC] = "static",
        [REGISTRY_COLLECTOR] = "collector",
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

/* --- No registry: the one record is made of this host's own identity ----------------------------------- */

/* generation 0: nobody gave one. The others are named, not seen. */
static json_t *static_slice(const struct registry *r) {
        const struct registry_options *o = &r->options;
        json_t *me = json_pack("{s:I, s:O?, s:O?, s:O?, s:O?}", "worker", (json_int_t) o->worker, "host",
                               json_object_get(r->member, "host"), "id", json_object_get(r->member, "id"),
                               "address", json_object_get(r->member, "address"), "incarnation",
                               json_object_get(r->member, "incarnation"));
        json_t *hosts = json_object_get(r->member, "hosts");

        return json_pack("{s:i, s:s, s:i, s:s, s:i, s:I, s:[o], s:[], s:[], s:[]}", "v", 1, "slice",
                         o->slice, "generation", 0, "state", "static", "since", 0, "hosts",
                         json_integer_value(hosts), "roster", me, "missing", "conflicts", "unlike");
}

static int on_soon(sd_event_source *source, void *userdata) {
        struct registry *r = userdata;
        char key[REGISTRY_KEY_MAX + 1];
        json_t *all;

        (void) source;
        (void) snprintf(key, sizeof(key), "slice/%.63s", r->options.slice);
        all = json_pack("{s:o}", key, static_slice(r));
        if (all)
                registry_known_whole(&r->told, all);
        registry_known_status(&r->told, REGISTRY_MEMBER, false,
                             "no registry: membership is what the identity says");
        json_decref(all);
        return 0;
}

static int static_new(struct registry *r) {
        int k = sd_event_add_defer(r->told.event, &r->soon, on_soon, r);

        if (k < 0)
                return k;
        (void) sd_event_source_set_description(r->soon, "registry-static");
        return sd_event_source_set_enabled(r->soon, SD_EVENT_OFF);
}

static int static_say(struct registry *r, const json_t *member) {
        json_t *mine = json_deep_copy(member);

        if (!mine)
                return -ENOMEM;
        json_decref(r->member);
        r->member = mine;
        return sd_event_source_set_enabled(r->soon, SD_EVENT_ONESHOT);
}

/* --- The contract -------------------------------------------------------------------------------------- */

static bool copy_option(const char **text, bool wanted) {
        if (!*text && !wanted)
                return true;
        *text = strdup(*text ? *text : "");
        return *text;
}

static void drop_option(const char *text) {
        free((void *) (uintptr_t) text);
}

static bool copy_options(struct registry_options *o) {
        bool endpoints = copy_option(&o->endpoints, true), first = copy_option(&o->first, false),
             tenant = copy_option(&o->tenant, true), host = copy_option(&o->host, true),
             slice = copy_option(&o->slice, true), ca = copy_option(&o->ca, false),
             certificate = copy_option(&o->certificate, false), key = copy_option(&o->key, false),
             crl = copy_option(&o->crl, false);

        return endpoints && first && tenant && host && slice && ca && certificate && key &&
               crl;
}

int registry_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                 void *userdata, struct registry **ret, char why[static 256]) {
        _cleanup_(registry_freep) struct registry *r = NULL;
        int k;

        if (o->kind != REGISTRY_STATIC && o->kind != REGISTRY_COLLECTOR) {
                (void) snprintf(why, 256, "there is no registry of kind %s",
                                o->kind < _REGISTRY_KIND_MAX ? kind_names[o->kind] : "?");
                return -EINVAL;
        }
        (void) snprintf(why, 256, "out of memory");
        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        r->options = *o;
        k = copy_options(&r->options) ? registry_known_init(&r->told, e, events, userdata) : -ENOMEM;
        if (k >= 0)
                k = o->kind == REGISTRY_STATIC ? static_new(r) :
                                                 sync_client_new(&r->told, &r->options, &r->client, why);
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

struct registry *registry_free(struct registry *r) {
        if (!r)
                return NULL;
        r->client = sync_client_free(r->client);
        r->soon = sd_event_source_disable_unref(r->soon);
        json_decref(r->member);
        registry_known_clear(&r->told);
        drop_option(r->options.endpoints);
        drop_option(r->options.first);
        drop_option(r->options.tenant);
        drop_option(r->options.host);
        drop_option(r->options.slice);
        drop_option(r->options.ca);
        drop_option(r->options.certificate);
        drop_option(r->options.key);
        drop_option(r->options.crl);
        free(r);
        return NULL;
}

int registry_say(struct registry *r, const json_t *member) {
        return r->client ? sync_client_say(r->client, member) : static_say(r, member);
}

void registry_leave(struct registry *r) {
        if (r->client)
                sync_client_leave(r->client);
}

bool registry_has_left(const struct registry *r) {
        return !r->client || sync_client_has_left(r->client);
}

void registry_renew(struct registry *r) {
        if (r->client)
                sync_client_renew(r->client);
}

int registry_figures(struct registry *r, const json_t *figures) {
        return r->client ? sync_client_figures(r->client, figures) : 0;
}

uint64_t registry_term(const struct registry *r) {
        return r->client ? sync_client_term(r->client) : 0;
}

int registry_post(struct registry *r, const char *path_and_query, const char *content_type, const void *body,
                  size_t len, registry_post_done done, void *userdata) {
        return r->client ?
                       sync_client_post(r->client, path_and_query, content_type, body, len, done, userdata) :
                       -EOPNOTSUPP;
}
