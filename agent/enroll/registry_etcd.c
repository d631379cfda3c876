/* SPDX-License-Identifier: Apache-2.0 */
/* What the registry's contract asks of etcd: what is shown, said, put and left. Joining is in etcd_join.c.
 */
#include <sys/random.h>

#include "gang.h"
#include "registry_etcd.h"
#include "utf8.h"

#define RECORD_MAX (2 * 1024 * 1024) /* etcd's own limit of a request is 1.5 MiB */
#define TOGETHER (10 * USEC_PER_MSEC) /* changes of what we say that come together go out together */

struct put_request {
        struct etcd_registry *registry;
        registry_put_done done;
        void *userdata;
        struct put_request *next;
};

uint64_t etcd_registry_chance(void) {
        uint64_t v = 0;

        (void) getrandom(&v, sizeof(v), GRND_NONBLOCK); /* without entropy yet: at once, a valid draw, too */
        return v;
}

usec_t etcd_registry_about(usec_t span) {
        return span - span / 10 + etcd_registry_chance() % (span / 5 + 1);
}

usec_t etcd_registry_now(const struct etcd_registry *r) {
        usec_t now = 0;

        (void) sd_event_now(r->base.event, CLOCK_BOOTTIME,
                            &now); /* fails for a clock that is not there only */
        return now;
}

bool etcd_registry_may_claim(const struct etcd_registry *r) {
        return r->joined && etcd_registry_now(r) < r->lease_until;
}

/* --- Records ---------------------------------------------------------------------------------------- */

void etcd_registry_path(const struct etcd_registry *r, const char *key, char path[static ETCD_PATH_MAX]) {
        (void) snprintf(path, ETCD_PATH_MAX, "%s%.*s", r->prefix, REGISTRY_KEY_MAX, key);
}

json_t *etcd_registry_parse(const Etcd__KeyValue *kv) {
        json_t *v;

        if (kv->value.len == 0 || kv->value.len > RECORD_MAX)
                return NULL;
        v = json_loadb((const char *) kv->value.data, kv->value.len, JSON_REJECT_DUPLICATES, NULL);
        if (json_is_object(v))
                return v;
        json_decref(v);
        return NULL;
}

/* --- What is told ----------------------------------------------------------------------------------- */

/* One renewal that failed is no news while most of the lease is left: the next one follows. */
static bool is_away(const struct etcd_registry *r) {
        bool early = r->joined && etcd_registry_now(r) + r->base.options.lease / 3 < r->lease_until;

        return r->failures > (early ? 1U : 0U) || r->watch_failures >= ETCD_WATCH_BLIPS;
}

void etcd_registry_show(struct etcd_registry *r) {
        bool away = is_away(r);
        enum registry_state s = !r->base.complete && !r->conflict ? REGISTRY_JOINING : REGISTRY_AWAY;
        char why[256];

        if (r->refused)
                s = REGISTRY_REFUSED;
        else if (!away && r->conflict)
                s = REGISTRY_CONFLICT;
        else if (!away && r->joined)
                s = REGISTRY_MEMBER;
        if (s == REGISTRY_CONFLICT)
                (void) snprintf(why, sizeof(why), "worker id %u of slice %.63s is another machine's: %s",
                                r->base.options.worker, r->base.options.slice, r->holder);
        else if (s == REGISTRY_MEMBER)
                (void) snprintf(why, sizeof(why), "etcd, %s%s", r->prefix,
                                r->base.status.leads ? "; runs the planner" : "");
        else
                (void) snprintf(why, sizeof(why), "%s", r->why);
        (void) utf8_scrub(why, strlen(why)); /* it may hold what came, cut anywhere */
        registry_tell(&r->base, s, etcd_registry_may_claim(r), why);
}

/* --- Puts ------------------------------------------------------------------------------------------- */

static void on_put(const struct etcd_answer *a, void *userdata) {
        struct put_request *p = userdata, **at;
        int error = 0;

        for (at = &p->registry->puts; *at != p; at = &(*at)->next)
                ;
        *at = p->next;
        switch (a->outcome) {
        case GRPC_ANSWERED:
                break;
        case GRPC_UNSENT:
                error = -EHOSTUNREACH;
                break;
        case GRPC_REFUSED:
                error = -EACCES;
                break;
        case GRPC_UNCERTAIN:
                error = -EINPROGRESS;
                break;
        }
        p->done(error, a->why, p->userdata);
        free(p);
}

/* Who asks is told what the planner would say: nobody else hears its answer. What is known here is what it
 * knows. */
static int judge(struct etcd_registry *r, const char *key, const json_t *value,
                 char why[static GANG_WHY_MAX]) {
        _cleanup_(gang_freep) struct gang *g = NULL;
        const char *known;
        json_t *record;
        usec_t now = 0;
        int k;

        (void) sd_event_now(r->base.event, CLOCK_REALTIME, &now); /* as etcd_registry_now() */
        k = gang_new(&gang_default_options, &g);
        if (k < 0)
                return k;
        json_object_foreach(r->base.records, known, record) {
                char passed[GANG_WHY_MAX];

                (void) gang_load(g, known, record, now,
                                 passed); /* one that cannot be read is as if it were not there */
        }
        return gang_want(g, key, value, now, why);
}

/* An intent that its writer left unfinished: what a collector would have put in. */
static json_t *completed(const char *key, const json_t *value, usec_t now) {
        json_t *v = json_deep_copy(value);
        char serial[20];

        if (!v || !startswith(key, "intent/"))
                return v;
        (void) snprintf(serial, sizeof(serial), "%016" PRIx64, etcd_registry_chance());
        if (!json_object_get(v, "v"))
                (void) json_object_set_new(v, "v",
                                           json_integer(1)); /* out of memory: refused for it below */
        if (!json_object_get(v, "serial"))
                (void) json_object_set_new(v, "serial", json_string(serial));
        if (!json_object_get(v, "at"))
                (void) json_object_set_new(v, "at", json_integer((json_int_t) now));
        return v;
}

static int send_put(struct etcd_registry *r, const char *key, const json_t *value, struct put_request *p) {
        _cleanup_(etcd_ops_freep) struct etcd_ops *o = etcd_ops_new();
        _cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;
        char path[ETCD_PATH_MAX];

        if (!o || (value && !text))
                return -ENOMEM;
        etcd_registry_path(r, key, path);
        if (text)
                etcd_ops_put(o, ETCD_THEN, path, text, 0);
        else
                etcd_ops_delete(o, ETCD_THEN, path);
        return etcd_ops_send(o, r->etcd, on_put, p);
}

static bool may_be_put(const char *key) {
        static const char *const kinds[] = { "intent/", "order/", "site/", "capture/" };

        for (size_t i = 0; i < ELEMENTSOF(kinds); i++)
                if (startswith(key, kinds[i]) && key[strlen(kinds[i])] && strlen(key) <= REGISTRY_KEY_MAX)
                        return true;
        return false;
}

static int put(struct registry *base, const char *key, const json_t *value, registry_put_done done,
               void *userdata) {
        struct etcd_registry *r = (struct etcd_registry *) base;
        char why[GANG_WHY_MAX] = "";
        struct put_request *p;
        json_t *whole = NULL;
        usec_t now = 0;
        int k;

        (void) sd_event_now(base->event, CLOCK_REALTIME, &now); /* as etcd_registry_now() */
        if (!may_be_put(key))
                return -EINVAL;
        whole = value ? completed(key, value, now) : NULL;
        if (value && !whole)
                return -ENOMEM;
        k = value ? judge(r, key, whole, why) : 0;
        if (k < 0 && k != -ENOMEM) {
                json_decref(whole);
                done(k, why, userdata);
                return 0;
        }
        p = k < 0 ? NULL : calloc(1, sizeof(*p));
        if (p) {
                *p = (struct put_request){
                        .registry = r, .done = done, .userdata = userdata, .next = r->puts
                };
                r->puts = p;
                k = send_put(r, key, whole, p);
                if (k < 0) {
                        r->puts = p->next;
                        free(p);
                }
        }
        json_decref(whole);
        return p ? k : -ENOMEM;
}

/* --- Saying and leaving ----------------------------------------------------------------------------- */

static int say(struct registry *base, const json_t *member) {
        struct etcd_registry *r = (struct etcd_registry *) base;
        json_t *mine = json_deep_copy(member);
        bool first = !r->member;

        if (!mine)
                return -ENOMEM;
        if (r->member && json_equal(r->member, mine)) {
                json_decref(mine);
                return 0;
        }
        json_decref(r->member);
        r->member = mine;
        r->dirty = true;
        if (first && base->options.splay > 0) {
                (void) sd_event_source_set_time_relative(r->next,
                                                         etcd_registry_chance() % base->options.splay);
                (void) sd_event_source_set_enabled(r->next, SD_EVENT_ONESHOT);
        } else if (first || r->joined) {
                /* from the loop: what is said in one go goes out in one */
                (void) sd_event_source_set_time_relative(r->next, first ? 0 : TOGETHER);
                (void) sd_event_source_set_enabled(r->next, SD_EVENT_ONESHOT);
        }
        return 0;
}

static void on_left(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        (void) a; /* the lease ends by itself, too */
        r->base.leaving = false;
}

static void on_said_goodbye(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        (void) a;
        if (etcd_lease_revoke(r->etcd, r->lease, on_left, r) < 0)
                r->base.leaving = false;
}

static bool leave(struct registry *base) {
        struct etcd_registry *r = (struct etcd_registry *) base;
        _cleanup_(etcd_ops_freep) struct etcd_ops *o = etcd_ops_new();
        _cleanup_free_ char *text = NULL;
        char path[ETCD_PATH_MAX];

        if (r->left)
                return base->leaving;
        if (r->lease == 0)
                return false;
        r->left = true;
        etcd_leader_stop(r->leader);
        if (!r->joined || !o || json_object_set_new(r->member, "leave", json_true()) < 0) {
                on_said_goodbye(NULL, r);
                return base->leaving;
        }
        text = json_dumps(r->member, JSON_COMPACT);
        (void) snprintf(path, sizeof(path), "%smember/%.63s/%u", r->prefix, base->options.slice,
                        base->options.worker);
        if (text)
                etcd_ops_put(o, ETCD_THEN, path, text, r->lease);
        if (etcd_ops_send(o, r->etcd, on_said_goodbye, r) < 0)
                on_said_goodbye(NULL, r);
        return base->leaving;
}

static void renew(struct registry *base) {
        (void) base; /* the files are looked at for each question */
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int on_next(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        etcd_registry_advance(userdata);
        return 0;
}

static int on_claim(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source, (void) usec;
        etcd_registry_show(userdata);
        return 0;
}

static void free_etcd(struct registry *base) {
        struct etcd_registry *r = (struct etcd_registry *) base;
        struct put_request *p;

        r->leader = etcd_leader_free(r->leader);
        r->watch = etcd_watch_free(r->watch);
        r->etcd = etcd_free(r->etcd);
        while ((p = r->puts)) {
                r->puts = p->next;
                p->done(-EINPROGRESS, "the registry was given up before it answered", p->userdata);
                free(p);
        }
        r->next = sd_event_source_disable_unref(r->next);
        r->claim = sd_event_source_disable_unref(r->claim);
        json_decref(r->member);
        registry_clear(&r->base);
        free(r);
}

static const struct registry_backend backend = {
        .free = free_etcd, .say = say, .leave = leave, .put = put, .renew = renew
};

static int timer(sd_event *e, const char *name, sd_event_time_handler_t handler, struct etcd_registry *r,
                 sd_event_source **ret) {
        int k = sd_event_add_time_relative(e, ret, CLOCK_MONOTONIC, 0, 1 * USEC_PER_MSEC, handler, r);

        if (k < 0)
                return k;
        (void) sd_event_source_set_description(*ret, name);
        return sd_event_source_set_enabled(*ret, SD_EVENT_OFF);
}

static int start(struct etcd_registry *r, sd_event *e, const struct registry_options *o,
                 char why[static 256]) {
        const struct etcd_options options = {
                .endpoints = o->endpoints,
                .ca = o->ca,
                .cert = o->certificate,
                .key = o->key,
                .user_agent = "tpu-hostd/" TPU_HOSTD_VERSION,
                .timeout = ETCD_QUESTION_TIME, /* etcd_join.c sets it */
        };
        const char *tenant = o->tenant && o->tenant[0] ? o->tenant : "default";
        int k;

        if (strlen(tenant) > 63 || strchr(tenant, '/')) {
                (void) snprintf(why, 256, "the tenant's name is longer than 63 characters, or holds a '/'");
                return -EINVAL;
        }
        (void) snprintf(r->prefix, sizeof(r->prefix), "/tpu/%s/", tenant);
        k = timer(e, "registry-next", on_next, r, &r->next);
        if (k >= 0)
                k = timer(e, "registry-claim", on_claim, r, &r->claim);
        if (k >= 0)
                k = etcd_leader_new(r, &r->leader);
        r->alone = !o->endpoints || !strchr(o->endpoints, ',');
        return k < 0 ? k : etcd_new(e, &options, &r->etcd, why);
}

int registry_etcd_new(sd_event *e, const struct registry_options *o, const struct registry_events *events,
                      void *userdata, struct registry **ret, char why[static 256]) {
        struct etcd_registry *r = calloc(1, sizeof(*r));
        int k;

        (void) snprintf(why, 256, "out of memory");
        if (!r)
                return -ENOMEM;
        k = registry_init(&r->base, &backend, e, o, events, userdata);
        if (k == 0)
                k = start(r, e, o, why);
        if (k < 0) {
                free_etcd(&r->base);
                return k;
        }
        *ret = &r->base;
        return 0;
}
