/* SPDX-License-Identifier: Apache-2.0 */
/* Joins: a lease, then slot and member in one transaction that reads all this host shall know, then a watch
 * from there on. */
#include "backoff.h"
#include "registry_etcd.h"

#define PATIENCE_MAX 2U /* doublings */
#define TTL_LEAST 2 /* seconds; etcd makes less than that of its election timeout, too */

static void arm(sd_event_source *source, usec_t after) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(source, after);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static unsigned ttl_of(const struct etcd_registry *r) {
        return MAX((unsigned) (r->base.options.lease / USEC_PER_SEC), (unsigned) TTL_LEAST);
}

/* The record's key, out of etcd's; false: none that this host shall know. */
static bool key_of(const struct etcd_registry *r, const Etcd__KeyValue *kv,
                   char key[static REGISTRY_KEY_MAX + 1]) {
        const char *text;
        size_t len;

        text = etcd_key_behind(&kv->key, r->prefix, &len);
        if (!text || len == 0 || len > REGISTRY_KEY_MAX)
                return false;
        (void) snprintf(key, REGISTRY_KEY_MAX + 1, "%.*s", (int) len, text);
        return true;
}

static bool is_refusal(const struct etcd_answer *a) {
        return a->outcome == GRPC_REFUSED &&
               (a->status == GRPC_PERMISSION_DENIED || a->status == GRPC_UNAUTHENTICATED ||
                a->status == GRPC_INVALID_ARGUMENT || a->status == GRPC_UNIMPLEMENTED ||
                a->status == GRPC_FAILED_PRECONDITION);
}

/* It ended while we were away. */
static void end_lease(struct etcd_registry *r) {
        r->lease = 0;
        r->joined = r->conflict = false;
        etcd_leader_stop(r->leader);
}

/*
 * A fleet that comes at once may be more than etcd answers in time: who is no member yet waits longer, instead of
 * making more of it. A member's lease leaves no time for that.
 */
static void set_patience(struct etcd_registry *r) {
        etcd_set_timeout(r->etcd, ETCD_QUESTION_TIME << (r->joined ? 0 : MIN(r->failures, PATIENCE_MAX)));
}

static void failed(struct etcd_registry *r, const struct etcd_answer *a) {
        usec_t wait = backoff_next(r->failures, etcd_registry_chance());

        r->refused = is_refusal(a);
        if (a->outcome == GRPC_REFUSED && a->status == GRPC_NOT_FOUND)
                end_lease(r);
        if (r->failures < 16)
                r->failures++;
        set_patience(r);
        (void) snprintf(r->why, sizeof(r->why), "%s", a->why);
        arm(r->next, r->refused ? BACKOFF_PARKED : wait);
        etcd_registry_show(r);
}

static void worked(struct etcd_registry *r) {
        r->failures = 0;
        r->refused = false;
        r->why[0] = '\0';
        set_patience(r);
}

/* Renewing goes first: also for who waits for a slot, and who has much to say. */
static bool lease_wears_off(const struct etcd_registry *r) {
        return etcd_registry_now(r) + ttl_of(r) * USEC_PER_SEC * 2 / 3 > r->lease_until;
}

static void lease_lasts(struct etcd_registry *r, const struct etcd_answer *a, int64_t seconds) {
        usec_t ttl = (usec_t) MIN(MAX(seconds, (int64_t) 0), (int64_t) ttl_of(r)) * USEC_PER_SEC;
        usec_t now = etcd_registry_now(r);

        r->lease_until = a->asked + ttl - ttl / 10;
        arm(r->claim, r->lease_until > now ? r->lease_until - now : 0);
}

/* --- The watch -------------------------------------------------------------------------------------- */

static void on_event(const Etcd__Event *e, void *userdata) {
        char key[REGISTRY_KEY_MAX + 1];
        struct etcd_registry *r = userdata;
        bool gone = e->type == ETCD__EVENT__TYPE__DELETE;
        json_t *value;

        if (!key_of(r, e->kv, key))
                return;
        if (streq(key, "ctl/leader")) {
                etcd_leader_seen(r->leader, !gone);
                return;
        }
        value = gone ? NULL : etcd_registry_parse(e->kv);
        if (gone || value)
                registry_take(&r->base, key, value);
        json_decref(value);
}

/* What happened meanwhile is no longer told: all is read anew, by joining once more. */
static void on_lost(void *userdata) {
        struct etcd_registry *r = userdata;

        r->watch = etcd_watch_free(r->watch);
        r->joined = false;
        if (!r->busy)
                etcd_registry_advance(r);
}

static void on_watch(const char *why, void *userdata) {
        struct etcd_registry *r = userdata;

        if (!why)
                r->watch_failures = 0;
        else if (r->watch_failures < ETCD_WATCH_BLIPS)
                r->watch_failures++;
        if (why && r->failures == 0)
                (void) snprintf(r->why, sizeof(r->why), "%s", why);
        etcd_registry_show(r);
}

enum { KEY_SLICE, KEY_RUN, KEY_ORDER, KEY_SITE, KEY_CAPTURE, KEY_LEADER, _KEY_MAX };

/* What this host shall know. */
static void wanted(const struct etcd_registry *r, char keys[static _KEY_MAX][ETCD_PATH_MAX]) {
        const struct registry_options *o = &r->base.options;

        (void) snprintf(keys[KEY_SLICE], ETCD_PATH_MAX, "%sslice/%.63s", r->prefix, o->slice);
        (void) snprintf(keys[KEY_RUN], ETCD_PATH_MAX, "%srun/", r->prefix);
        (void) snprintf(keys[KEY_ORDER], ETCD_PATH_MAX, "%sorder/%.63s", r->prefix, o->host);
        (void) snprintf(keys[KEY_SITE], ETCD_PATH_MAX, "%ssite/", r->prefix);
        (void) snprintf(keys[KEY_CAPTURE], ETCD_PATH_MAX, "%scapture/%.63s", r->prefix, o->slice);
        (void) snprintf(keys[KEY_LEADER], ETCD_PATH_MAX, "%sctl/leader", r->prefix);
}

static int watch_from(struct etcd_registry *r, int64_t revision) {
        char keys[_KEY_MAX][ETCD_PATH_MAX];
        struct etcd_watch_question q = {
                .revision = revision, .event = on_event, .lost = on_lost, .state = on_watch, .userdata = r
        };

        wanted(r, keys);
        for (size_t i = 0; i < _KEY_MAX; i++)
                q.keys[i] = keys[i];
        r->watch = etcd_watch_free(r->watch);
        r->watch_failures = 0;
        return etcd_watch_new(r->etcd, &q, &r->watch);
}

/* --- Joining ---------------------------------------------------------------------------------------- */

/* Whether ctl/leader was free, and is ours now, or who has it. */
static void take_leader(struct etcd_registry *r, const Etcd__TxnResponse *t, int64_t revision) {
        const Etcd__RangeResponse *range = NULL;

        if (!t->succeeded && t->n_responses == 1 &&
            t->responses[0]->response_case == ETCD__RESPONSE_OP__RESPONSE_RANGE)
                range = t->responses[0]->range;
        if (t->succeeded)
                etcd_leader_won(r->leader, revision);
        else if (range && range->n_kvs == 1 && range->kvs[0]->lease == r->lease)
                etcd_leader_won(r->leader, range->kvs[0]->create_revision);
        else
                etcd_leader_seen(r->leader, range && range->n_kvs == 1);
}

/* Takes the ranges of a transaction's answer; ours are all of its operations but puts. */
static void take_ranges(struct etcd_registry *r, const Etcd__TxnResponse *t, int64_t revision) {
        const Etcd__TxnResponse *leader = NULL;
        json_t *all = json_object();

        for (size_t i = 0; i < t->n_responses; i++) {
                const Etcd__RangeResponse *range;

                if (t->responses[i]->response_case == ETCD__RESPONSE_OP__RESPONSE_TXN)
                        leader = t->responses[i]->txn;
                if (t->responses[i]->response_case != ETCD__RESPONSE_OP__RESPONSE_RANGE)
                        continue;
                range = t->responses[i]->range;
                for (size_t k = 0; k < range->n_kvs; k++) {
                        char key[REGISTRY_KEY_MAX + 1];

                        if (key_of(r, range->kvs[k], key))
                                (void) json_object_set_new(all, key, etcd_registry_parse(range->kvs[k]));
                }
        }
        if (all)
                registry_take_whole(&r->base, all);
        json_decref(all);
        if (leader)
                take_leader(r, leader, revision);
}

static void end_joined(struct etcd_registry *r, const struct etcd_answer *a) {
        const struct etcd_message *m = a->message;

        worked(r);
        r->joined = true;
        r->conflict = false;
        if (watch_from(r, m->revision + 1) < 0) {
                r->joined = false;
                arm(r->next, BACKOFF_BASE);
                return;
        }
        take_ranges(r, m->txn, m->revision);
        etcd_registry_show(r);
        if (r->dirty)
                etcd_registry_advance(r);
        else
                arm(r->next, etcd_registry_about(ttl_of(r) * USEC_PER_SEC / 3));
}

/* All of it, and the leader's key where that is free: nobody has to ask for it in a question of its own. */
static void add_ranges(const struct etcd_registry *r, struct etcd_ops *o) {
        _cleanup_free_ char *text = etcd_leader_text(r->leader);
        char keys[_KEY_MAX][ETCD_PATH_MAX];

        wanted(r, keys);
        for (size_t i = 0; i < _KEY_MAX; i++)
                if (i != KEY_LEADER)
                        etcd_ops_range(o, ETCD_THEN, keys[i]);
                else if (text)
                        etcd_ops_put_new(o, ETCD_THEN, keys[i], text, r->lease);
}

static void place(const struct etcd_registry *r, const char *kind, char path[static ETCD_PATH_MAX]) {
        (void) snprintf(path, ETCD_PATH_MAX, "%s%s/%.63s/%u", r->prefix, kind, r->base.options.slice,
                        r->base.options.worker);
}

static void put_json(struct etcd_ops *o, const char *path, json_t *value, int64_t lease) {
        _cleanup_free_ char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

        etcd_ops_put(o, ETCD_THEN, path, text ? text : "{}", lease);
}

static void send(struct etcd_registry *r, struct etcd_ops *o, etcd_done done) {
        r->busy = o && etcd_ops_send(o, r->etcd, done, r) == 0;
        if (!r->busy) /* out of memory */
                arm(r->next, BACKOFF_BASE);
        (void) etcd_ops_free(o);
}

static const char *said(const struct etcd_registry *r, const char *name) {
        const char *text = json_string_value(json_object_get(r->member, name));

        return text ? text : "";
}

static void on_rejoined(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        r->busy = false;
        if (!a->message)
                failed(r, a);
        else if (a->message->txn->succeeded)
                end_joined(r, a);
        else
                arm(r->next, BACKOFF_BASE); /* the slot is another one by now */
}

/* The slot is ours from before. */
static void rejoin(struct etcd_registry *r) {
        struct etcd_ops *o = etcd_ops_new();
        char slot[ETCD_PATH_MAX], member[ETCD_PATH_MAX];

        place(r, "slot", slot);
        place(r, "member", member);
        if (o) {
                etcd_ops_if_created(o, slot, r->slot);
                put_json(o, member, r->member, r->lease);
                add_ranges(r, o);
        }
        r->dirty = false;
        send(r, o, on_rejoined);
}

static void on_told(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        r->busy = false;
        if (!a->message) {
                r->dirty = true;
                failed(r, a);
                return;
        }
        worked(r);
        if (!a->message->txn->succeeded)
                r->joined = false; /* the slot was given up */
        if (!r->joined || r->dirty)
                etcd_registry_advance(r);
        else
                arm(r->next, etcd_registry_about(ttl_of(r) * USEC_PER_SEC / 3));
        etcd_registry_show(r);
}

/* What this host is has changed. */
static void tell(struct etcd_registry *r) {
        struct etcd_ops *o = etcd_ops_new();
        char slot[ETCD_PATH_MAX], member[ETCD_PATH_MAX];

        place(r, "slot", slot);
        place(r, "member", member);
        if (o) {
                etcd_ops_if_created(o, slot, r->slot);
                put_json(o, member, r->member, r->lease);
        }
        r->dirty = false;
        send(r, o, on_told);
}

static void on_claimed(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        r->busy = false;
        if (!a->message) {
                failed(r, a);
                return;
        }
        worked(r);
        etcd_registry_show(r);
        arm(r->next, etcd_registry_about(ttl_of(r) * USEC_PER_SEC / 3));
}

/* Another machine has the slot. Never taken; but the planner hears of it, and tells people. */
static void claim(struct etcd_registry *r, const json_t *slot) {
        const char *holder = json_string_value(json_object_get(slot, "host")),
                   *address = json_string_value(json_array_get(json_object_get(slot, "address"), 0));
        struct etcd_ops *o = etcd_ops_new();
        char path[ETCD_PATH_MAX];

        r->conflict = true;
        (void) snprintf(r->holder, sizeof(r->holder), "%.63s%s%.45s%s", holder ? holder : "?",
                       address ? " (" : "", address ? address : "", address ? ")" : "");
        (void) snprintf(path, sizeof(path), "%sclaim/%.63s/%u/%.32s", r->prefix, r->base.options.slice,
                        r->base.options.worker, said(r, "incarnation"));
        if (o)
                put_json(o, path, r->member, r->lease);
        send(r, o, on_claimed);
}

static void on_joined(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;
        const Etcd__RangeResponse *range = NULL;
        const char *id;
        json_t *slot;

        r->busy = false;
        if (!a->message) {
                failed(r, a);
                return;
        }
        if (a->message->txn->succeeded) {
                r->slot = a->message->revision;
                end_joined(r, a);
                return;
        }
        if (a->message->txn->n_responses == 1 &&
            a->message->txn->responses[0]->response_case == ETCD__RESPONSE_OP__RESPONSE_RANGE)
                range = a->message->txn->responses[0]->range;
        if (!range || range->n_kvs != 1) {
                arm(r->next, BACKOFF_BASE); /* gone in between */
                return;
        }
        slot = etcd_registry_parse(range->kvs[0]);
        id = json_string_value(json_object_get(slot, "id"));
        r->slot = range->kvs[0]->create_revision; /* the planner may write it anew */
        if (id && streq(id, said(r, "id")))
                rejoin(r);
        else
                claim(r, slot);
        json_decref(slot);
}

static void join(struct etcd_registry *r) {
        struct etcd_ops *o = etcd_ops_new();
        char slot[ETCD_PATH_MAX], member[ETCD_PATH_MAX];
        json_t *mine;

        place(r, "slot", slot);
        place(r, "member", member);
        mine = json_pack("{s:i, s:s, s:I, s:O?, s:O?, s:O?}", "v", 1, "slice", r->base.options.slice,
                         "worker", (json_int_t) r->base.options.worker, "host",
                         json_object_get(r->member, "host"), "id", json_object_get(r->member, "id"),
                         "address", json_object_get(r->member, "address"));
        if (o) {
                etcd_ops_if_created(o, slot, 0);
                put_json(o, slot, mine, 0);
                put_json(o, member, r->member, r->lease);
                add_ranges(r, o);
                etcd_ops_range(o, ETCD_ELSE, slot);
        }
        json_decref(mine);
        r->dirty = false;
        send(r, o, on_joined);
}

/* --- The lease -------------------------------------------------------------------------------------- */

static void on_kept(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        r->busy = false;
        if (!a->message) {
                failed(r, a);
                return;
        }
        worked(r);
        if (a->message->keep->ttl <= 0) {
                end_lease(r);
                etcd_registry_advance(r);
                return;
        }
        lease_lasts(r, a, a->message->keep->ttl);
        if (!r->joined || r->dirty)
                etcd_registry_advance(r);
        else
                arm(r->next, etcd_registry_about(ttl_of(r) * USEC_PER_SEC / 3));
        etcd_registry_show(r);
}

static void keep(struct etcd_registry *r) {
        r->granted = 0;
        r->busy = etcd_lease_keep(r->etcd, r->lease, on_kept, r) == 0;
        if (!r->busy)
                arm(r->next, BACKOFF_BASE);
}

static void on_granted(const struct etcd_answer *a, void *userdata) {
        struct etcd_registry *r = userdata;

        r->busy = false;
        if (a->outcome == GRPC_REFUSED && a->status == GRPC_FAILED_PRECONDITION && r->granted == r->lease) {
                keep(r); /* it is there since the question whose answer never came: how long still? */
                return;
        }
        if (a->outcome != GRPC_ANSWERED) {
                r->granted = a->outcome == GRPC_REFUSED ? 0 : r->lease;
                r->lease = 0;
                failed(r, a);
                return;
        }
        r->granted = 0;
        lease_lasts(r, a, a->message ? a->message->grant->ttl : ttl_of(r));
        join(r);
}

static void grant(struct etcd_registry *r) {
        r->lease = r->granted ? r->granted : (int64_t) (etcd_registry_chance() >> 1 | 1);
        r->busy = etcd_lease_grant(r->etcd, r->lease, ttl_of(r), on_granted, r) == 0;
        if (!r->busy) {
                r->lease = 0;
                arm(r->next, BACKOFF_BASE);
        }
}

void etcd_registry_advance(struct etcd_registry *r) {
        if (!r->member || r->busy || r->left)
                return;
        if (r->lease == 0)
                grant(r);
        else if (!r->joined && !(r->conflict && lease_wears_off(r)))
                join(r);
        else if (r->joined && r->dirty && !lease_wears_off(r))
                tell(r);
        else
                keep(r);
}
