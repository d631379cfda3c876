/* SPDX-License-Identifier: Apache-2.0 */
#include "backoff.h"
#include "etcd_state.h"

static void begin(struct etcd_watch *w);

static size_t at_once(const struct etcd_watch *w) {
        return w->question.at_once ? MIN(w->question.at_once, w->n_keys) : w->n_keys;
}

void etcd_watch_destroy(struct etcd_watch *w) {
        w->call = grpc_cancel(w->call);
        w->timer = sd_event_source_disable_unref(w->timer);
        for (size_t i = 0; i < ETCD_WATCH_KEYS_MAX; i++) {
                free(w->keys[i]);
                free(w->ends[i]);
        }
        free(w);
}

struct etcd_watch *etcd_watch_free(struct etcd_watch *w) {
        struct etcd_watch **at;

        if (!w)
                return NULL;
        for (at = &w->etcd->watches; *at != w; at = &(*at)->next)
                ;
        *at = w->next;
        w->call = grpc_cancel(w->call);
        if (w->calling)
                w->gone = true;
        else
                etcd_watch_destroy(w);
        return NULL;
}

/* Around a callback, which may free the watch. False: it did. */
static bool called(struct etcd_watch *w) {
        w->calling = false;
        if (!w->gone)
                return true;
        etcd_watch_destroy(w);
        return false;
}

/* Again after wait; says why. */
static void later(struct etcd_watch *w, usec_t wait, const char *why) {
        char text[GRPC_WHY_MAX + 300];

        w->call = grpc_cancel(w->call);
        (void) sd_event_source_set_time_relative(w->timer, wait);
        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
        (void) snprintf(text, sizeof(text), "etcd at %.250s: %s", w->etcd->urls[w->endpoint], why);
        w->calling = true;
        w->question.state(text, w->question.userdata);
        (void) called(w);
}

static void on_cancelled(struct etcd_watch *w, const Etcd__WatchResponse *r) {
        if (r->compact_revision > 0) {
                w->call = grpc_cancel(w->call);
                (void) sd_event_source_set_enabled(w->timer, SD_EVENT_OFF); /* fails for a source without a loop only */
                w->idle = true;
                w->calling = true;
                w->question.lost(w->question.userdata);
                (void) called(w);
                return;
        }
        /* refused, as for a right that is missing: a person has to act */
        later(w, BACKOFF_PARKED, r->cancel_reason[0] ? r->cancel_reason : "the watch was refused");
}

static void on_events(struct etcd_watch *w, size_t k, const Etcd__WatchResponse *r) {
        int64_t last = 0;

        for (size_t i = 0; i < r->n_events; i++) {
                last = MAX(last, r->events[i]->kv->mod_revision);
                w->calling = true;
                w->question.event(r->events[i], w->question.userdata);
                if (!called(w) || !w->call)
                        return; /* something in it ended the stream: all of this answer comes again */
        }
        if (r->n_events == 0)
                last = r->header->revision; /* a sign of life: nothing happened up to here */
        w->behind[k] = MAX(w->behind[k], last + 1);
}

/* The ids are given in the order of the questions. It stands with those that are asked for at once. */
static void on_created(struct etcd_watch *w, const Etcd__WatchResponse *r) {
        if (w->n_created >= w->n_asked)
                return;
        for (size_t k = w->n_created; k < w->n_keys; k++)
                if (w->behind[k] == 0)
                        w->behind[k] = r->header->revision + 1;
        w->ids[w->n_created++] = r->watch_id;
        if (w->n_created != at_once(w))
                return;
        w->failures = 0;
        w->calling = true;
        w->question.state(NULL, w->question.userdata);
        (void) called(w);
}

static void on_answer(struct etcd_watch *w, const Etcd__WatchResponse *r) {
        if (r->canceled) {
                on_cancelled(w, r);
                return;
        }
        if (r->created) {
                on_created(w, r);
                return;
        }
        for (size_t k = 0; k < w->n_created; k++)
                if (w->ids[k] == r->watch_id) {
                        on_events(w, k, r);
                        return;
                }
}

static void on_message(const uint8_t *data, size_t len, void *userdata) {
        struct etcd_watch *w = userdata;
        struct etcd_message m;

        if (etcd_message_take(ETCD_WATCH, data, len, &m) < 0) {
                later(w, backoff_next(w->failures++, etcd_random()),
                      "what the watch was told is none of etcd's words");
                return;
        }
        on_answer(w, m.watch);
        etcd_message_clear(&m);
}

static void on_done(const struct grpc_answer *a, void *userdata) {
        struct etcd_watch *w = userdata;
        struct etcd *c = w->etcd;
        size_t endpoint = w->endpoint;

        w->call = NULL;
        later(w, a->outcome == GRPC_REFUSED ? BACKOFF_PARKED : backoff_next(w->failures++, etcd_random()),
              a->outcome == GRPC_ANSWERED ? "the watch ended" : a->why);
        /* the watch may be gone by now; the others of this member are not waited for */
        if (a->outcome != GRPC_REFUSED)
                etcd_endpoint_failed(c, endpoint);
}

/* One frame a key. */
static int pack_key(const struct etcd_watch *w, size_t k, uint8_t **data, size_t *len) {
        Etcd__WatchCreateRequest create = ETCD__WATCH_CREATE_REQUEST__INIT;
        Etcd__WatchRequest m = ETCD__WATCH_REQUEST__INIT;
        _cleanup_free_ char *end = strdup(w->keys[k]);
        uint8_t *more;
        size_t size;

        if (!end)
                return -ENOMEM;
        create.key = etcd_bytes(w->keys[k]);
        create.range_end = w->ends[k] ? etcd_bytes(w->ends[k]) : etcd_range_end(w->keys[k], end);
        create.start_revision = w->behind[k];
        create.progress_notify = true; /* so that a quiet watch does not fall behind a compaction */
        m.request_union_case = ETCD__WATCH_REQUEST__REQUEST_UNION_CREATE_REQUEST;
        m.create_request = &create;
        size = etcd__watch_request__get_packed_size(&m);
        more = realloc(*data, *len + GRPC_FRAME_HEAD + size);
        if (!more)
                return -ENOMEM;
        *data = more;
        grpc_frame_head(more + *len, (uint32_t) size);
        (void) etcd__watch_request__pack(&m, more + *len + GRPC_FRAME_HEAD);
        *len += GRPC_FRAME_HEAD + size;
        return 0;
}

/* Those up to this one that were not asked for yet. */
static int pack_keys(struct etcd_watch *w, size_t end, uint8_t **data, size_t *len) {
        int r = 0;

        for (; r == 0 && w->n_asked < end; w->n_asked++)
                r = pack_key(w, w->n_asked, data, len);
        return r;
}

static void ask_for_others(struct etcd_watch *w) {
        _cleanup_free_ uint8_t *data = NULL;
        size_t len = 0;
        int r = pack_keys(w, w->n_keys, &data, &len);

        if (r == 0)
                r = grpc_more(w->call, data, len);
        if (r < 0)
                later(w, backoff_next(w->failures++, etcd_random()), strerror(-r));
}

static void begin(struct etcd_watch *w) {
        struct grpc_question g = {
                .method = etcd_method_path(ETCD_WATCH),
                .metadata = { "hasleader: true" },
                .framed = true,
                .open = at_once(w) < w->n_keys,
                .message = on_message,
                .done = on_done,
                .userdata = w,
        };
        _cleanup_free_ uint8_t *data = NULL;
        int r = 0;

        w->endpoint = w->etcd->current;
        w->n_asked = w->n_created = 0;
        r = pack_keys(w, at_once(w), &data, &g.len);
        g.data = data;
        if (r == 0)
                r = grpc_ask(w->etcd->channels[w->endpoint], &g, &w->call);
        if (r == 0 && g.open) {
                (void) sd_event_source_set_time_relative(w->timer, w->question.later); /* as in later() */
                (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
        }
        if (r < 0) {
                const char *trouble = grpc_trouble(w->etcd->channels[w->endpoint]);

                w->call = NULL;
                later(w, backoff_next(w->failures++, etcd_random()), trouble[0] ? trouble : strerror(-r));
        }
}

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct etcd_watch *w = userdata;

        (void) source, (void) usec;
        if (w->call)
                ask_for_others(w);
        else
                begin(w);
        return 0;
}

/* From the loop, not from here: who says that a member failed may be in the middle of something. */
void etcd_watches_move(struct etcd *c, size_t from) {
        for (struct etcd_watch *w = c->watches; w; w = w->next)
                if (w->call && w->endpoint == from && !w->idle) {
                        w->call = grpc_cancel(w->call);
                        (void) sd_event_source_set_time_relative(w->timer,
                                                                 backoff_next(w->failures, etcd_random()));
                        (void) sd_event_source_set_enabled(w->timer, SD_EVENT_ONESHOT);
                }
}

int etcd_watch_new(struct etcd *c, const struct etcd_watch_question *q, struct etcd_watch **ret) {
        struct etcd_watch *w = calloc(1, sizeof(*w));
        int r = 0;

        if (!w)
                return -ENOMEM;
        w->etcd = c;
        w->question = *q;
        for (; r == 0 && w->n_keys < ETCD_WATCH_KEYS_MAX && q->keys[w->n_keys]; w->n_keys++) {
                const char *end = q->ends[w->n_keys];

                w->keys[w->n_keys] = strdup(q->keys[w->n_keys]);
                w->ends[w->n_keys] = end ? strdup(end) : NULL;
                w->behind[w->n_keys] = q->revision;
                r = w->keys[w->n_keys] && (!end || w->ends[w->n_keys]) ? 0 : -ENOMEM;
        }
        if (r == 0)
                r = sd_event_add_time_relative(c->event, &w->timer, CLOCK_MONOTONIC, 0, 1, on_timer, w);
        if (r < 0) {
                etcd_watch_destroy(w);
                return r;
        }
        (void) sd_event_source_set_description(w->timer, "etcd-watch");
        w->next = c->watches;
        c->watches = w;
        *ret = w;
        return 0;
}
