/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
#include "etcd_leader.h"

/* Worker 0 of each slice tries within the first span, the others behind them: a fleet does not rush for it.
 */
#define FIRST_TRIES (100 * USEC_PER_MSEC)
#define LATER_TRIES (2 * USEC_PER_SEC)
#define PAGE 256

static void stop(struct etcd_leader *l);
static void read_page(struct etcd_leader *l);

struct turn *etcd_turn_new(struct etcd_leader *l) {
        struct turn *t = malloc(sizeof(*t));

        if (!t)
                return NULL;
        *t = (struct turn){ l, l->turn, l->turns };
        l->turns = t;
        return t;
}

/* NULL: the answer is to a question of before. */
struct etcd_leader *etcd_turn_end(struct turn *t) {
        struct etcd_leader *l = t->l, *current = t->number == l->turn ? l : NULL;
        struct turn **at;

        for (at = &l->turns; *at != t; at = &(*at)->next)
                ;
        *at = t->next;
        free(t);
        return current;
}

/* At the latest. */
void etcd_leader_arm(struct etcd_leader *l, usec_t after) {
        usec_t due = etcd_registry_now(l->r) + after;

        if (due >= l->due)
                return;
        l->due = due;
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_time_relative(l->timer, after);
        (void) sd_event_source_set_enabled(l->timer, SD_EVENT_ONESHOT);
}

static void disarm(struct etcd_leader *l) {
        l->due = USEC_INFINITY;
        if (l->timer)
                (void) sd_event_source_set_enabled(l->timer, SD_EVENT_OFF); /* as in etcd_leader_arm() */
}

usec_t etcd_leader_real_now(const struct etcd_leader *l) {
        usec_t now = 0;

        (void) sd_event_now(l->r->base.event, CLOCK_REALTIME,
                            &now); /* fails for a clock that is not there only */
        return now;
}

void etcd_leader_again(struct etcd_leader *l) {
        etcd_leader_arm(l, backoff_next(l->failures, etcd_registry_chance()));
        if (l->failures < 16)
                l->failures++;
}

/* --- Becoming it ------------------------------------------------------------------------------------ */

static void lead(struct etcd_leader *l, int64_t fence) {
        struct gang_options o = gang_default_options;

        o.lease = l->r->base.options.lease;
        if (gang_new(&o, &l->gang) < 0) {
                l->state = LEAD_TRYING;
                etcd_leader_again(l); /* as long as it is ours, asking for it says so */
                return;
        }
        l->fence = fence;
        l->state = LEAD_READING;
        l->failures = 0;
        l->r->base.status.leads = true;
        etcd_registry_show(l->r);
        read_page(l);
}

static void on_tried(const struct etcd_answer *a, void *userdata) {
        struct etcd_leader *l = etcd_turn_end(userdata);
        const Etcd__TxnResponse *t;

        if (!l || l->state != LEAD_TRYING)
                return;
        if (!a->message) {
                etcd_leader_again(l);
                return;
        }
        l->asked = false;
        t = a->message->txn;
        l->state = LEAD_NOT;
        if (t->succeeded) {
                lead(l, a->message->revision);
                return;
        }
        if (t->n_responses == 1 && t->responses[0]->response_case == ETCD__RESPONSE_OP__RESPONSE_RANGE &&
            t->responses[0]->range->n_kvs == 1 && t->responses[0]->range->kvs[0]->lease == l->r->lease) {
                /* ours, by a question whose answer never came */
                lead(l, t->responses[0]->range->kvs[0]->create_revision);
                return;
        }
}

char *etcd_leader_text(const struct etcd_leader *l) {
        json_t *value = json_pack("{s:i, s:s, s:O?}", "v", 1, "host", l->r->base.options.host, "address",
                                  json_object_get(l->r->member, "address"));
        char *text = value ? json_dumps(value, JSON_COMPACT) : NULL;

        json_decref(value);
        return text;
}

static void try(struct etcd_leader *l) {
        _cleanup_(etcd_ops_freep) struct etcd_ops *o = etcd_ops_new();
        _cleanup_free_ char *text = NULL;
        char path[ETCD_PATH_MAX];
        struct turn *t;

        if (!etcd_registry_may_claim(l->r)) {
                l->state = LEAD_NOT; /* joining again comes to etcd_leader_seen() again */
                return;
        }
        text = etcd_leader_text(l);
        etcd_registry_path(l->r, "ctl/leader", path);
        t = etcd_turn_new(l);
        if (o && text) {
                etcd_ops_if_created(o, path, 0);
                etcd_ops_put(o, ETCD_THEN, path, text, l->r->lease);
                etcd_ops_range(o, ETCD_ELSE, path, NULL);
        }
        if (!o || !text || !t || etcd_ops_send(o, l->r->etcd, on_tried, t) < 0) {
                if (t)
                        (void) etcd_turn_end(t);
                etcd_leader_again(l);
        } else
                l->asked = true;
}

void etcd_leader_won(struct etcd_leader *l, int64_t fence) {
        if ((l->state == LEAD_READING || l->state == LEAD_AT_WORK) && l->fence == fence)
                return;
        stop(l); /* an answer that is still to come is of an earlier turn */
        lead(l, fence);
}

void etcd_leader_seen(struct etcd_leader *l, bool there) {
        usec_t wait;

        if (there && l->state == LEAD_TRYING && !l->asked) {
                l->state = LEAD_NOT; /* another one was first */
                disarm(l);
        }
        if (!there && (l->state == LEAD_READING || l->state == LEAD_AT_WORK))
                stop(l); /* taken from us; the lease may be lost */
        if (there || l->state != LEAD_NOT || !l->r->joined)
                return;
        l->state = LEAD_TRYING;
        wait = etcd_registry_chance() % (l->r->base.options.worker == 0 ? FIRST_TRIES : LATER_TRIES);
        etcd_leader_arm(l, l->r->base.options.worker == 0 ? wait : FIRST_TRIES + wait);
}

/* --- Reading what is kept --------------------------------------------------------------------------- */
void etcd_leader_anew(struct etcd_leader *l) {
        int64_t fence = l->fence;

        stop(l);
        l->state = LEAD_TRYING;
        lead(l, fence);
}

static void on_page(const struct etcd_answer *a, void *userdata) {
        struct etcd_leader *l = etcd_turn_end(userdata);
        const Etcd__RangeResponse *range;
        const Etcd__KeyValue *last;

        if (!l || l->state != LEAD_READING)
                return;
        if (!a->message) {
                if (a->status == GRPC_RESOURCE_EXHAUSTED && l->page > 1)
                        l->page /= 4; /* records were larger than was thought */
                if (a->status == GRPC_OUT_OF_RANGE)
                        etcd_leader_anew(l); /* compacted while it was read */
                else
                        etcd_leader_again(l);
                return;
        }
        l->failures = 0;
        range = a->message->range;
        if (l->revision == 0)
                l->revision = a->message->revision;
        for (size_t i = 0; i < range->n_kvs; i++)
                etcd_decide_load(l, range->kvs[i]);
        if (!range->more || range->n_kvs == 0) {
                free(TAKE_PTR(l->after));
                if (etcd_decide_begin(l) < 0)
                        etcd_leader_anew(l);
                return;
        }
        last = range->kvs[range->n_kvs - 1];
        free(l->after);
        l->after = strndup((const char *) last->key.data, last->key.len);
        read_page(l);
}

/* All pages are as of one revision. */
static void read_page(struct etcd_leader *l) {
        struct etcd_range_question q = {
                .key = l->r->prefix, .after = l->after, .revision = l->revision, .limit = MAX(l->page, 1)
        };
        struct turn *t = etcd_turn_new(l);

        if (!t || etcd_range(l->r->etcd, &q, on_page, t) < 0) {
                if (t)
                        (void) etcd_turn_end(t);
                etcd_leader_again(l);
        }
}

/* --- Life ------------------------------------------------------------------------------------------- */

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct etcd_leader *l = userdata;

        (void) source, (void) usec;
        l->due = USEC_INFINITY;
        switch (l->state) {
        case LEAD_NOT:
                break;
        case LEAD_TRYING:
                try(l);
                break;
        case LEAD_READING:
                read_page(l);
                break;
        case LEAD_AT_WORK:
                etcd_decide_step(l);
                break;
        }
        return 0;
}

static void stop(struct etcd_leader *l) {
        l->turn++;
        l->state = LEAD_NOT;
        l->writing = l->asked = false;
        l->fence = l->revision = 0;
        l->page = PAGE;
        l->watch = etcd_watch_free(l->watch);
        l->gang = gang_free(l->gang);
        (void) json_object_clear(l->members);
        (void) json_object_clear(l->pending);
        (void) json_object_clear(l->sending);
        (void) json_object_clear(l->written);
        (void) json_object_clear(l->rosters);
        (void) json_object_clear(l->slots);
        free(TAKE_PTR(l->after));
        disarm(l);
        l->r->base.status.leads = false;
}

void etcd_leader_stop(struct etcd_leader *l) {
        if (l->state != LEAD_NOT)
                stop(l);
}

struct etcd_leader *etcd_leader_free(struct etcd_leader *l) {
        struct turn *t;

        if (!l)
                return NULL;
        stop(l);
        while ((t = l->turns)) {
                l->turns = t->next;
                free(t);
        }
        l->timer = sd_event_source_disable_unref(l->timer);
        json_decref(l->members);
        json_decref(l->pending);
        json_decref(l->sending);
        json_decref(l->written);
        json_decref(l->rosters);
        json_decref(l->slots);
        free(l);
        return NULL;
}

int etcd_leader_new(struct etcd_registry *r, struct etcd_leader **ret) {
        struct etcd_leader *l = calloc(1, sizeof(*l));
        int k;

        if (!l)
                return -ENOMEM;
        l->r = r;
        l->page = PAGE;
        l->due = USEC_INFINITY;
        l->members = json_object();
        l->pending = json_object();
        l->sending = json_object();
        l->written = json_object();
        l->rosters = json_object();
        l->slots = json_object();
        k = l->members && l->pending && l->sending && l->written && l->rosters && l->slots ? 0 : -ENOMEM;
        if (k == 0)
                k = sd_event_add_time_relative(r->base.event, &l->timer, CLOCK_MONOTONIC, 0,
                                               1 * USEC_PER_MSEC, on_timer, l);
        if (k >= 0)
                k = sd_event_source_set_enabled(l->timer, SD_EVENT_OFF);
        if (k < 0) {
                (void) etcd_leader_free(l);
                return k;
        }
        (void) sd_event_source_set_description(l->timer, "registry-leader");
        *ret = l;
        return 0;
}
