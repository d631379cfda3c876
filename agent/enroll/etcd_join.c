/* SPDX-License-Identifier: Apache-2.0 */
/* Joins: a lease, then slot and member in one transaction that reads all this host shall know, then a watch
 * from there on. */
#include "backoff.h"
#include "etcd_patience.h"
#include "registry_etcd.h"

#define TTL_LEAST 2 /* seconds; etcd makes less than that of its election timeout, too */

static void arm(sd_event_source *source, usec_t after) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(source, after);
        (void) sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
}

static unsigned ttl_of(const struct etcd_registry *r) {
        return MAX((unsigned) (r->base.options.lease / USEC_PER_SEC), (unsigned) TTL_LEAST);
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

static usec_t time_left(const struct etcd_registry *r) {
        usec_t now = etcd_registry_now(r);

        return r->lease != 0 && r->lease_until > now ? r->lease_until - now : 0;
}

static usec_t spent(const struct etcd_registry *r, const struct etcd_answer *a) {
        usec_t now = etcd_registry_now(r);

        return now > a->asked ? now - a->asked : 0;
}

static struct etcd_patience patience_of(const struct etcd_registry *r) {
        return (struct etcd_patience){
                .least = MIN(ETCD_QUESTION_TIME, MAX(r->base.options.lease / 5, USEC_PER_SEC)),
                .alone = r->alone,
                .joined = r->joined || r->conflict,
                .left = time_left(r),
                .failures = r->failures,
                .slowest = r->slowest,
        };
}

/* Before each question. */
static void set_patience(struct etcd_registry *r) {
        const struct etcd_patience p = patience_of(r);

        etcd_set_timeout(r->etcd, etcd_patience_deadline(&p));
}

static void failed(struct etcd_registry *r, const struct etcd_answer *a) {
        const struct etcd_patience p = patience_of(r);

        r->refused = is_refusal(a);
        if (a->outcome == GRPC_REFUSED && a->status == GRPC_NOT_FOUND)
                end_lease(r);
        if (r->failures < 16)
                r->failures++;
        (void) snprintf(r->why, sizeof(r->why), "%s", a->why);
        arm(r->next, r->refused ? BACKOFF_PARKED : etcd_patience_wait(&p, spent(r, a), etcd_registry_chance()));
        etcd_registry_show(r);
}

static void worked(struct etcd_registry *r, const struct etcd_answer *a) {
        r->slowest = etcd_patience_slowest(r->slowest, spent(r, a));
        r->failures = 0;
        r->refused = false;
        r->why[0] = '\0';
}

/* Renewing goes first: also for who waits for a slot, and who has much to say. */
static bool lease_wears_off(const struct etcd_registry *r) {
        return time_left(r) < ttl_of(r) * USEC_PER_SEC * 2 / 3;
}

static void lease_lasts(struct etcd_registry *r, const struct etcd_answer *a, int64_t seconds) {
        usec_t ttl = (usec_t) MIN(MAX(seconds, (int64_t) 0), (int64_t) ttl_of(r)) * USEC_PER_SEC;
        usec_t now = etcd_registry_now(r);

        r->lease_until = a->asked + ttl - ttl / 10;
        arm(r->claim, r->lease_until > now ? r->lease_until - now : 0);
}

/* The answers that came since it was granted may have taken most of it. */
static void renew_after(struct etcd_registry *r, usec_t span) {
        arm(r->next, MIN(span, time_left(r) / 2));
}

static void renew_later(struct etcd_registry *r) {
        renew_after(r, etcd_registry_about(ttl_of(r) * USEC_PER_SEC / 3));
}

/* A fleet that joins is not to renew its leases while its last hosts still join, nor in one step. */
static void renew_first(struct etcd_registry *r) {
        usec_t third = ttl_of(r) * USEC_PER_SEC / 3;

        renew_after(r, third + etcd_registry_chance() % (third / 2));
}

/* --- Joining ---------------------------------------------------------------------------------------- */

static void end_joined(struct etcd_registry *r, const struct etcd_answer *a) {
        const struct etcd_message *m = a->message;

        worked(r, a);
        r->joined = true;
        r->conflict = false;
        if (etcd_told_watch(r, m->revision + 1) < 0) {
                r->joined = false;
                arm(r->next, BACKOFF_BASE);
                return;
        }
        etcd_told_take(r, m->txn, m->revision);
        etcd_registry_show(r);
        if (r->dirty)
                etcd_registry_advance(r);
        else
                renew_first(r);
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
        set_patience(r);
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
                etcd_told_add(r, o);
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
        worked(r, a);
        if (!a->message->txn->succeeded)
                r->joined = false; /* the slot was given up */
        if (!r->joined || r->dirty)
                etcd_registry_advance(r);
        else
                renew_later(r);
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
        worked(r, a);
        etcd_registry_show(r);
        renew_later(r);
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
                etcd_told_add(r, o);
                etcd_ops_range(o, ETCD_ELSE, slot, NULL);
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
        worked(r, a);
        if (a->message->keep->ttl <= 0) {
                end_lease(r);
                etcd_registry_advance(r);
                return;
        }
        lease_lasts(r, a, a->message->keep->ttl);
        if (!r->joined || r->dirty)
                etcd_registry_advance(r);
        else
                renew_later(r);
        etcd_registry_show(r);
}

static void keep(struct etcd_registry *r) {
        r->granted = 0;
        set_patience(r);
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
        set_patience(r);
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
        else if (!r->joined && !((r->conflict || r->failures > 0) && lease_wears_off(r)))
                join(r);
        else if (r->joined && r->dirty && !lease_wears_off(r))
                tell(r);
        else
                keep(r);
}
