/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "election.h"
#include "json_text.h"
#include "log.h"

#define RETRY (250 * USEC_PER_MSEC)
#define LEASE_PATH "/v3/lease/"

static usec_t boot_now(const struct election *e) {
        return clock_boot(e->o.clock);
}

static usec_t share_of(usec_t lease) {
        return lease / 10 * 9;
}

void election_init(struct election *e, const struct election_options *o) {
        *e = (struct election){ .o = *o };
}

bool election_leads(const struct election *e) {
        return e->leads && boot_now(e) < e->deadline;
}

void election_look(struct election *e) {
        if (!e->leads)
                e->next = 0;
}

static void lose_lead(struct election *e, const char *why) {
        e->leads = false;
        e->unwanted = e->lease != 0; /* the sooner another can lead */
        e->next = 0;
        e->o.lost(why, e->o.userdata);
}

void election_depose(struct election *e, const char *why) {
        if (e->leads)
                lose_lead(e, why);
}

void election_resign(struct election *e) {
        if (e->leads)
                lose_lead(e, "it is being stopped");
        e->resigning = true;
}

static void begin_lead(struct election *e, uint64_t term, const char *cluster) {
        assert(!e->leads && e->lease != 0);
        /* Nobody else can have the key before: 9/10 of a lease from before its last renewal was sent. */
        assert(e->deadline <= e->sent + share_of(e->o.lease));
        e->leads = true;
        e->next = e->sent + e->o.lease / 3;
        e->o.won(term, cluster, e->o.userdata);
}

/* --- Calls ----------------------------------------------------------------------------------------- */

static void call_etcd(struct election *e, const char *path, json_t *body,
                      void (*done)(const struct gateway_answer *a, void *userdata)) {
        usec_t now = boot_now(e);
        int r = body ? e->o.port.call(e->o.port.link, ETCD_LANE_LEASE, path, body, e->o.lease / 2, done, e) :
                       -ENOMEM;

        assert(!e->busy); /* one question at a time */
        e->sent = now; /* read before it was sent */
        e->busy = r >= 0;
        e->next = now + RETRY;
}

/* Every answer begins here. False: there is none. */
static bool hear_answer(struct election *e, const struct gateway_answer *a) {
        usec_t now = boot_now(e);

        e->busy = false;
        if (a->error != -EAGAIN) {
                e->heard = now;
                if (e->failing)
                        log_notice("etcd answers again");
                e->failing = false;
        }
        if (a->error == 0)
                return true;
        e->next = now + RETRY;
        if (!e->failing && a->error != -ENOENT) {
                log_warning("etcd: %s", a->why);
                e->failing = true;
        }
        if (!e->leads && now >= e->heard + e->o.lease)
                e->o.other(NULL, 0, e->o.userdata); /* who led may have been gone for long */
        return false;
}

static void on_revoked(const struct gateway_answer *a, void *userdata) {
        struct election *e = userdata;

        /* if it failed the lease ends by itself; a key that is left is found by the next look */
        (void) hear_answer(e, a);
        e->lease = 0;
        e->unwanted = false;
        e->next = 0;
}

static void give_back(struct election *e) {
        call_etcd(e, LEASE_PATH "revoke", json_pack("{s:o}", "ID", gateway_number(e->lease)), on_revoked);
}

static void on_renewed(const struct gateway_answer *a, void *userdata) {
        struct election *e = userdata;
        int64_t ttl = gateway_int(json_object_get(a->body, "result"), "TTL");

        if (!hear_answer(e, a) || !e->leads)
                return;
        if (boot_now(e) >= e->deadline)
                lose_lead(e, "its lease was renewed too late");
        else if (ttl <= 0) { /* so says etcd that there is no such lease */
                e->lease = 0;
                lose_lead(e, "its lease has ended");
        } else {
                e->deadline = e->sent + share_of(MIN(e->o.lease, (usec_t) ttl * USEC_PER_SEC));
                e->next = e->sent + e->o.lease / 3;
        }
}

static void renew_lease(struct election *e) {
        call_etcd(e, LEASE_PATH "keepalive", json_pack("{s:o}", "ID", gateway_number(e->lease)), on_renewed);
}

/* --- Becoming the leader --------------------------------------------------------------------------- */

/* The key as it stands. It may be this one's: of a call whose answer was lost, or of a term that is over. */
static void take_holder(struct election *e, const struct gateway_answer *a, const json_t *kvs) {
        struct gateway_kv kv;
        json_auto_t *value = gateway_kv(kvs, 0, &kv) == 0 ? gateway_value_json(&kv) : NULL;
        bool own = value &&
                   streq(json_text_of(value, "incarnation"), json_text_of(e->o.value, "incarnation"));

        if (own && kv.lease == e->lease && !e->unwanted && !e->resigning && boot_now(e) < e->deadline)
                begin_lead(e, (uint64_t) kv.created, a->cluster);
        else if (own) {
                e->lease = kv.lease;
                e->unwanted = true;
                e->next = 0;
                e->o.other(NULL, a->revision, e->o.userdata);
        } else {
                e->unwanted = e->lease != 0;
                e->next = e->unwanted ? 0 : boot_now(e) + e->o.lease / 3;
                e->o.other(value, a->revision, e->o.userdata);
        }
}

static void on_tried(const struct gateway_answer *a, void *userdata) {
        struct election *e = userdata;

        if (!hear_answer(e, a)) /* it may have been done: the next look shows it */
                return;
        if (!json_is_true(json_object_get(a->body, "succeeded")))
                take_holder(e, a, gateway_txn_kvs(a, 0));
        else if (e->resigning || boot_now(e) >= e->deadline) {
                e->unwanted = true;
                e->next = 0;
        } else
                begin_lead(e, (uint64_t) a->revision, a->cluster);
}

static void try_it(struct election *e) {
        _cleanup_free_ char *value = json_dumps(e->o.value, JSON_COMPACT);
        usec_t granted = e->sent;

        call_etcd(e, "/v3/kv/txn",
                  value ? json_pack("{s:[o], s:[o], s:[{s:o}]}", "compare",
                                    gateway_compare(e->o.key, "CREATE", 0), "success",
                                    gateway_put(e->o.key, value, e->lease, NULL), "failure", "requestRange",
                                    gateway_range(e->o.key)) :
                          NULL,
                  on_tried);
        e->sent = granted; /* the lease is as old as that */
}

static void on_granted(const struct gateway_answer *a, void *userdata) {
        struct election *e = userdata;
        int64_t ttl = gateway_int(a->body, "TTL"), id = gateway_int(a->body, "ID");

        if (!hear_answer(e, a) || ttl <= 0 || id == 0)
                return;
        e->lease = id;
        e->deadline = e->sent + share_of(MIN(e->o.lease, (usec_t) ttl * USEC_PER_SEC));
        if (!e->resigning)
                try_it(e);
}

static void on_looked(const struct gateway_answer *a, void *userdata) {
        struct election *e = userdata;
        const json_t *kvs = json_object_get(a->body, "kvs");

        if (!hear_answer(e, a))
                return;
        if (json_array_size(kvs) > 0) {
                take_holder(e, a, kvs);
                return;
        }
        e->o.other(NULL, a->revision, e->o.userdata);
        if (e->lease != 0)
                e->unwanted = true, e->next = 0; /* it is as old as nobody knows */
        else if (!e->resigning)
                call_etcd(e, LEASE_PATH "grant",
                          json_pack("{s:o}", "TTL", gateway_number((int64_t) (e->o.lease / USEC_PER_SEC))),
                          on_granted);
}

usec_t election_step(struct election *e) {
        usec_t now = boot_now(e);

        if (e->leads && now >= e->deadline)
                lose_lead(e, "its lease could not be renewed in time");
        /* Who leaves keeps no lease: the answer about the key may be lost, and another would wait for its
         * end. */
        if (!e->busy && (e->unwanted || (e->resigning && e->lease != 0)))
                give_back(e);
        else if (!e->busy && e->resigning) {
                e->resigning = false;
                e->next = USEC_INFINITY; /* and it tries no more */
                e->o.resigned(e->o.userdata);
        } else if (!e->busy && e->leads && now >= e->next)
                renew_lease(e);
        else if (!e->busy && now >= e->next)
                call_etcd(e, "/v3/kv/range", gateway_range(e->o.key), on_looked);
        if (e->busy)
                return e->leads ? e->deadline : USEC_INFINITY;
        return e->leads ? MIN(e->next, e->deadline) : e->next;
}
