/* SPDX-License-Identifier: Apache-2.0 */
/* What this host is told: read by the transaction that joins, and watched from there on. */
#include "registry_etcd.h"

/* When a host that has just joined begins to watch what can wait; a fleet's hosts not all at once. */
#define LATER_LEAST (1 * USEC_PER_SEC)
#define LATER_SPREAD (2 * USEC_PER_SEC)

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

/* The first ones are watched at once, as what a run waits for; the others can be told a little later. */
enum { KEY_SLICE, KEY_RUN_SITE, _KEY_AT_ONCE, KEY_ORDER = _KEY_AT_ONCE, KEY_CAPTURE, KEY_LEADER, _KEY_MAX };

struct wanted {
        char key[_KEY_MAX][ETCD_PATH_MAX];
        char end[_KEY_MAX][ETCD_PATH_MAX]; /* "": as the key says */
};

/* What this host shall know. */
static void wanted(const struct etcd_registry *r, struct wanted *w) {
        const struct registry_options *o = &r->base.options;

        *w = (struct wanted){ 0 };
        (void) snprintf(w->key[KEY_SLICE], ETCD_PATH_MAX, "%sslice/%.63s", r->prefix, o->slice);
        /* no kind is between run/ and site/ */
        (void) snprintf(w->key[KEY_RUN_SITE], ETCD_PATH_MAX, "%srun/", r->prefix);
        (void) snprintf(w->end[KEY_RUN_SITE], ETCD_PATH_MAX, "%ssite0", r->prefix); /* '0' is behind '/' */
        (void) snprintf(w->key[KEY_ORDER], ETCD_PATH_MAX, "%sorder/%.63s", r->prefix, o->host);
        (void) snprintf(w->key[KEY_CAPTURE], ETCD_PATH_MAX, "%scapture/%.63s", r->prefix, o->slice);
        (void) snprintf(w->key[KEY_LEADER], ETCD_PATH_MAX, "%sctl/leader", r->prefix);
}

int etcd_told_watch(struct etcd_registry *r, int64_t revision) {
        struct etcd_watch_question q = {
                .revision = revision, .event = on_event, .lost = on_lost, .state = on_watch, .userdata = r
        };
        struct wanted w;

        wanted(r, &w);
        for (size_t i = 0; i < _KEY_MAX; i++) {
                q.keys[i] = w.key[i];
                q.ends[i] = w.end[i][0] ? w.end[i] : NULL;
        }
        q.at_once = _KEY_AT_ONCE;
        q.later = LATER_LEAST + etcd_registry_chance() % LATER_SPREAD;
        r->watch = etcd_watch_free(r->watch);
        r->watch_failures = 0;
        return etcd_watch_new(r->etcd, &q, &r->watch);
}

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

void etcd_told_take(struct etcd_registry *r, const Etcd__TxnResponse *t, int64_t revision) {
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

void etcd_told_add(const struct etcd_registry *r, struct etcd_ops *o) {
        _cleanup_free_ char *text = etcd_leader_text(r->leader);
        struct wanted w;

        wanted(r, &w);
        for (size_t i = 0; i < _KEY_MAX; i++)
                if (i != KEY_LEADER)
                        etcd_ops_range(o, ETCD_THEN, w.key[i], w.end[i][0] ? w.end[i] : NULL);
                else if (text)
                        etcd_ops_put_new(o, ETCD_THEN, w.key[i], text, r->lease);
}
