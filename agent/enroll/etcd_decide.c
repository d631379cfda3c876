/* SPDX-License-Identifier: Apache-2.0 */
#include "etcd_leader.h"
#include "etcd_slice.h"

/* Who is missing is read by every host of the slice: so each writing is followed by a pause, by how many were told. */
#define FORMING_LEAST (1 * USEC_PER_SEC)
#define FORMING_HOST (4 * USEC_PER_MSEC)
#define FORMING_MOST (15 * USEC_PER_SEC)
#define OPS_AT_ONCE (ETCD_OPS_MAX - 1) /* a slice is two */
#define BYTES_AT_ONCE (400 * 1000) /* then no more are added; etcd's own limit of a request is 1.5 MiB */

static void flush(struct etcd_leader *l);

/* --- What is said ----------------------------------------------------------------------------------- */

static const char *key_of(const struct etcd_leader *l, const Etcd__KeyValue *kv,
                          char key[static REGISTRY_KEY_MAX + 1]) {
        const char *text;
        size_t len;

        text = etcd_key_behind(&kv->key, l->r->prefix, &len);
        if (!text || len > REGISTRY_KEY_MAX)
                return NULL;
        (void) snprintf(key, REGISTRY_KEY_MAX + 1, "%.*s", (int) len, text);
        return key;
}

static bool is_word(const char *key) {
        return startswith(key, "member/") || startswith(key, "claim/");
}

static void gone(struct etcd_leader *l, const char *key, bool shut_down) {
        json_t *m = json_object_get(l->members, key);
        const char *slice = json_string_value(json_object_get(m, "slice"));
        const char *incarnation = json_string_value(json_object_get(m, "incarnation"));
        json_int_t worker = json_integer_value(json_object_get(m, "worker"));

        if (slice && incarnation && worker >= 0 &&
            worker < GANG_HOSTS_MAX) /* -ENOENT: another one holds it by now */
                (void) gang_gone(l->gang, slice, (unsigned) worker, incarnation, shut_down,
                                 shut_down ? "it was shut down" : "its lease ended",
                                 etcd_leader_real_now(l));
        (void) json_object_del(l->members, key);
}

static void says(struct etcd_leader *l, const char *key, json_t *member) {
        char why[GANG_WHY_MAX];

        if (json_is_true(json_object_get(member, "leave"))) {
                gone(l, key, true);
                return;
        }
        (void) json_object_set(l->members, key, member); /* out of memory: its end is then not noticed */
        /* what is wrong with it is in the slice's record, or nobody can do anything about it */
        (void) gang_say(l->gang, member, etcd_leader_real_now(l), why);
}

/* Without a roster, which is lost with memory only, who is there says so himself. */
static void load_large(struct etcd_leader *l, const char *key, const json_t *record) {
        const json_t *whole = json_object_get(l->rosters, key + strlen("slice/"));
        char why[GANG_WHY_MAX];

        (void) gang_load(l->gang, key, whole ? whole : record, etcd_leader_real_now(l), why);
}

void etcd_decide_load(struct etcd_leader *l, const Etcd__KeyValue *kv) {
        char key[REGISTRY_KEY_MAX + 1], why[GANG_WHY_MAX];
        json_t *value;

        if (!key_of(l, kv, key) || startswith(key, "ctl/"))
                return;
        value = etcd_registry_parse(kv);
        if (!value)
                return;
        if (is_word(key))
                (void) json_object_set(l->members, key, value); /* said when all is loaded */
        else if (startswith(key, "roster/")) /* keys come in their order: before slice/ */
                (void) json_object_set(l->rosters, key + strlen("roster/"), value);
        else if (startswith(key, "slice/") && etcd_slice_is_short(value))
                load_large(l, key, value);
        else /* one that cannot be understood is as if it were not there */
                (void) gang_load(l->gang, key, value, etcd_leader_real_now(l), why);
        json_decref(value);
}

/* --- Deciding --------------------------------------------------------------------------------------- */

static void on_event(const Etcd__Event *e, void *userdata) {
        struct etcd_leader *l = userdata;
        char key[REGISTRY_KEY_MAX + 1], why[GANG_WHY_MAX];
        json_t *value = NULL;

        if (!key_of(l, e->kv, key))
                return;
        if (e->type != ETCD__EVENT__TYPE__DELETE) {
                value = etcd_registry_parse(e->kv);
                if (!value)
                        return;
        }
        if (startswith(key, "slot/")) {
                (void) (value ? json_object_set(l->slots, key, value) : json_object_del(l->slots, key));
                json_decref(value);
                return;
        }
        if (is_word(key) && value)
                says(l, key, value);
        else if (is_word(key))
                gone(l, key, false);
        else /* who wrote it was told what is wrong with it before (registry_etcd.c, judge) */
                (void) gang_want(l->gang, key, value, etcd_leader_real_now(l), why);
        json_decref(value);
        etcd_leader_arm(l, ETCD_TOGETHER);
}

static void changed(const char *key, const json_t *value, bool durable, void *userdata) {
        struct etcd_leader *l = userdata;

        (void) durable; /* all is kept before anybody is told */
        /* Out of memory: nobody is told, until the next change of it. */
        (void) json_object_set_new(l->pending, key,
                                   value ? json_incref((json_t *) (uintptr_t) value) : json_null());
}

void etcd_decide_step(struct etcd_leader *l) {
        usec_t now = etcd_leader_real_now(l), next;

        next = gang_step(l->gang, now, changed, l);
        if (next != USEC_INFINITY)
                etcd_leader_arm(l, next > now ? MAX(next - now, ETCD_TOGETHER) : ETCD_TOGETHER);
        flush(l);
}

static void on_lost(void *userdata) {
        etcd_leader_anew(userdata);
}

static void on_watch(const char *why, void *userdata) {
        (void) why, (void) userdata; /* the lease, on the same connection, says it, too */
}

static int watch_from(struct etcd_leader *l, int64_t revision) {
        static const char *const kinds[] = { "member/", "claim/", "intent/", "order/", "site/", "capture/", "slot/" };
        char keys[ELEMENTSOF(kinds)][ETCD_PATH_MAX];
        struct etcd_watch_question q = {
                .revision = revision, .event = on_event, .lost = on_lost, .state = on_watch, .userdata = l
        };

        _Static_assert(ELEMENTSOF(kinds) <= ETCD_WATCH_KEYS_MAX, "one stream holds them");
        for (size_t i = 0; i < ELEMENTSOF(kinds); i++) {
                etcd_registry_path(l->r, kinds[i], keys[i]);
                q.keys[i] = keys[i];
        }
        l->watch = etcd_watch_free(l->watch);
        return etcd_watch_new(l->r->etcd, &q, &l->watch);
}

int etcd_decide_begin(struct etcd_leader *l) {
        json_t *member, *all = json_copy(l->members);
        const char *key;
        int k;

        json_object_foreach(all, key, member) says(l, key, member);
        json_decref(all);
        (void) json_object_clear(l->rosters);
        k = watch_from(l, l->revision + 1);
        if (k < 0)
                return k;
        l->state = LEAD_AT_WORK;
        etcd_decide_step(l);
        return 0;
}

/* --- Writing ---------------------------------------------------------------------------------------- */

/* Who is still missing changes with each host that comes; each change goes to every host that is there. */
static bool can_wait(struct etcd_leader *l, const char *key, const json_t *value) {
        const char *state = json_string_value(json_object_get(value, "state"));
        const char *before = json_string_value(json_object_get(l->written, key));

        return startswith(key, "slice/") && state && before && streq(state, "forming") &&
               streq(before, state) && etcd_registry_now(l->r) < l->calm_until;
}

static void note_written(struct etcd_leader *l, const char *key, const json_t *value) {
        json_t *state = json_object_get(value, "state");
        usec_t now = etcd_registry_now(l->r);

        if (!startswith(key, "slice/"))
                return;
        if (state)
                (void) json_object_set(l->written, key, state); /* out of memory: written more often */
        else
                (void) json_object_del(l->written, key);
        l->calm_until = MAX(l->calm_until, now) + json_array_size(json_object_get(value, "roster")) * FORMING_HOST;
        l->calm_until = MIN(MAX(l->calm_until, now + FORMING_LEAST), now + FORMING_MOST);
}

static void unsent(struct etcd_leader *l) {
        const char *key;
        json_t *value;

        json_object_foreach(l->sending, key,
                            value) if (!json_object_get(l->pending, key)) /* a newer one wins */
                (void) json_object_set(l->pending, key, value);
        (void) json_object_clear(l->sending);
}

static void on_written(const struct etcd_answer *a, void *userdata) {
        struct etcd_leader *l = etcd_turn_end(userdata);

        if (!l || l->state != LEAD_AT_WORK)
                return;
        l->writing = false;
        if (!a->message) {
                /* not known whether: written again, which is the same under the fence */
                unsent(l);
                etcd_leader_again(l);
                return;
        }
        l->failures = 0;
        if (!a->message->txn->succeeded) {
                etcd_leader_stop(l); /* another one leads; the watch says when it no longer does */
                etcd_registry_show(l->r);
                return;
        }
        (void) json_object_clear(l->sending);
        flush(l);
}

/* The slot of a host that came while we lead: the host has written it, as it stands here. */
static bool stands(struct etcd_leader *l, const char *key, const json_t *value) {
        bool same = startswith(key, "slot/") && json_equal(json_object_get(l->slots, key), value);

        if (same)
                (void) json_object_del(l->slots, key); /* it is there */
        return same;
}

/* Puts a record, or takes it away. How many bytes. */
static size_t add(const struct etcd_leader *l, struct etcd_ops *o, const char *key, const json_t *value) {
        _cleanup_free_ char *text = json_is_null(value) ? NULL : json_dumps(value, JSON_COMPACT);
        char path[ETCD_PATH_MAX];

        etcd_registry_path(l->r, key, path);
        if (text)
                etcd_ops_put(o, ETCD_THEN, path, text, 0);
        else
                etcd_ops_delete(o, ETCD_THEN, path);
        return text ? strlen(text) : 0;
}

/* A slice's whole record goes where nobody watches it, if it is large. */
static size_t add_slice(const struct etcd_leader *l, struct etcd_ops *o, const char *key, const json_t *value) {
        json_t *brief = etcd_slice_is_large(value) ? etcd_slice_shorten(value) : NULL;
        char roster[REGISTRY_KEY_MAX + 1];
        size_t bytes = 0;

        (void) snprintf(roster, sizeof(roster), "roster/%s", key + strlen("slice/"));
        if (brief || json_is_null(value))
                bytes += add(l, o, roster, value);
        bytes += add(l, o, key, brief ? brief : value);
        json_decref(brief);
        return bytes;
}

/* Moves what fits from pending to sending. */
static size_t gather(struct etcd_leader *l, struct etcd_ops *o) {
        size_t bytes = 0, n = 0;
        const char *key;
        json_t *value;
        void *next;

        json_object_foreach_safe(l->pending, next, key, value) {
                if (can_wait(l, key, value))
                        continue;
                if (stands(l, key, value)) {
                        (void) json_object_del(l->pending, key);
                        continue;
                }
                if (etcd_ops_count(o) >= OPS_AT_ONCE || bytes > BYTES_AT_ONCE)
                        break;
                bytes += startswith(key, "slice/") ? add_slice(l, o, key, value) : add(l, o, key, value);
                note_written(l, key, value);
                (void) json_object_set(l->sending, key, value);
                (void) json_object_del(l->pending, key);
                n++;
        }
        return n;
}

static void flush(struct etcd_leader *l) {
        _cleanup_(etcd_ops_freep) struct etcd_ops *o = NULL;
        char path[ETCD_PATH_MAX];
        struct turn *t;

        if (l->writing || json_object_size(l->pending) == 0)
                return;
        o = etcd_ops_new();
        if (!o)
                return etcd_leader_again(l);
        etcd_registry_path(l->r, "ctl/leader", path);
        etcd_ops_if_created(o, path, l->fence);
        if (gather(l, o) == 0) { /* all of it can wait */
                usec_t now = etcd_registry_now(l->r);

                if (json_object_size(l->pending) == 0)
                        return;
                etcd_leader_arm(l, l->calm_until > now ? l->calm_until - now : ETCD_TOGETHER);
                return;
        }
        t = etcd_turn_new(l);
        if (!t || etcd_ops_send(o, l->r->etcd, on_written, t) < 0) {
                if (t)
                        (void) etcd_turn_end(t);
                unsent(l);
                etcd_leader_again(l);
                return;
        }
        l->writing = true;
}
