/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "group.h"
#include "gzip.h"
#include "log.h"
#include "loop_timer.h"

#define TIMER_ACCURACY USEC_PER_MSEC

struct group {
        struct store *store;
        const struct damage *damage;
        struct speakers *speakers;
        const struct clock *clock;
        struct counters *counters;
        sd_event_source *timer;
        struct group_item *first, **last; /* in the order of arrival */
        size_t n, bytes;
        void (*events)(void *userdata), (*captures)(void *userdata);
        void *userdata;
        bool failing; /* the last write to the database failed: said once, not per request */
};

/* --- One request ----------------------------------------------------------------------------------- */

static void refuse_item(struct group_item *i, unsigned status, const char *text) {
        free(i->reply.body);
        i->reply = (struct http_reply) { 0 };
        if (i->is_capture) {
                capture_port_reply(&i->reply, status, text);
                return;
        }
        otlp_reply_error(&i->reply, status, text);
}

/* What is wrong with a request itself: then the reply is complete. False: it is the database, or memory. */
static bool refuse_request(struct group_item *i, int r, const char *why) {
        switch (r) {
        case -EBADMSG:
        case -ELOOP:
                refuse_item(i, 400, why);
                return true;
        case -E2BIG:
                refuse_item(i, 413, why);
                return true;
        case -EACCES: /* what was set aside is dropped, and does not hold up what follows */
                refuse_item(i, i->push.aside ? 422 : 403, why);
                return true;
        case -EDQUOT:
                refuse_item(i, 503, "as many hosts are known as the database may hold, and this is another");
                return true;
        case -EUSERS: /* its own, which the others of the group have no part in */
                refuse_item(i, 503, "as many points of this host lie at one time as there is room for");
                return true;
        default:
                return false;
        }
}

/* The body without gzip. ret_own is what has to be freed afterwards. */
static int decode_body(struct group_item *i, uint8_t **ret_own, char why[static INGEST_WHY_MAX]) {
        int r;

        i->push.data = i->body;
        i->push.len = i->len;
        if (!i->gzip)
                return 0;
        r = inflate_gzip(i->body, i->len, GROUP_INFLATED_MAX, ret_own, &i->push.len);
        if (r == -E2BIG)
                (void) snprintf(why, INGEST_WHY_MAX,
                                "the body is more than 16 MiB when decompressed: send less at once");
        else if (r == -EBADMSG)
                (void) snprintf(why, INGEST_WHY_MAX, "the body is no gzip stream, damaged or cut off");
        if (r == 0)
                i->push.data = *ret_own;
        return r;
}

static void count_item(struct counters *c, const struct group_item *i) {
        if (i->repeated) {
                c->duplicates++;
                return;
        }
        if (i->is_capture) {
                c->captures++;
                return;
        }
        c->lines += i->result.lines;
        *(i->push.kind == INGEST_METRICS ? &c->points : &c->events) += i->result.rows - i->result.lines;
        c->rejected += i->result.rejected;
}

static int store_capture_item(struct group *g, struct group_item *i) {
        int r = capture_port_store(g->store, &i->capture, i->body, i->len, clock_real(g->clock));

        if (r == -EDQUOT) {
                refuse_item(i, 503, "this host has sent as many captures as are taken: 16 within 5 minutes, "
                                    "and of 64 episodes of its own within a day");
                return 0;
        }
        if (r < 0)
                return r;
        i->repeated = r == 0;
        capture_port_reply(&i->reply, 200, NULL);
        return r;
}

static int tell_refusal(struct group *g, const struct group_item *i) {
        return speaker_refused(g->speakers, i->caller, i->peer,
                               i->push.kind == INGEST_METRICS ? "/v1/metrics" : "/v1/logs", i->result.why,
                               false);
}

/* 1: written; 0: nothing was; the reply is ready. -errno: the database's. */
static int store_item(struct group *g, struct group_item *i) {
        _cleanup_free_ uint8_t *own = NULL;
        char why[INGEST_WHY_MAX] = "";
        int r, ended, undone;

        if (store_is_full(g->store)) {
                refuse_item(i, 503, "the database is full: more came than RetainBytes= holds");
                return 0;
        }
        if (i->is_capture)
                return store_capture_item(g, i);
        r = decode_body(i, &own, why);
        if (r < 0)
                return refuse_request(i, r, why) ? 0 : r;
        r = store_mark(g->store);
        if (r < 0)
                return r;
        i->push.peer = i->peer;
        i->push.proved = i->is_proved ? i->proved : NULL;
        r = push_store(g->store, &i->push, clock_real(g->clock), &i->result);
        ended = r > 0 ? store_end_points(g->store) : 0; /* what it says is about this request */
        if (ended < 0)
                r = ended;
        if (r < 0) {
                if (!refuse_request(i, r, i->result.why))
                        return r;
                undone = store_undo(g->store);
                return undone < 0 || r != -EACCES ? MIN(undone, 0) : tell_refusal(g, i);
        }
        i->repeated = r == 0;
        undone = store_keep(g->store);
        if (undone < 0)
                return undone;
        otlp_reply_stored(&i->reply, &i->result);
        return r;
}

/* --- The transaction ------------------------------------------------------------------------------- */

static int store_all(struct group *g, struct group_item *items, bool *ret_written) {
        int r;

        *ret_written = false;
        r = store_begin(g->store);
        for (struct group_item *i = items; r >= 0 && i; i = i->next) {
                r = store_item(g, i);
                *ret_written = *ret_written || r > 0;
        }
        if (r >= 0)
                r = store_commit(g->store);
        return r < 0 ? r : 0;
}

/* The database said no. It may be for a while (disk full): agents keep their records and come again. */
static void refuse_all(struct group *g, struct group_item *items, int error) {
        char text[256];

        (void) snprintf(text, sizeof(text), "database: %.200s",
                        error == -ENOMEM ? "out of memory" : store_error(g->store));
        store_rollback(g->store);
        if (!g->failing)
                log_error("cannot store what agents send, they are asked to try again: %s", text);
        g->failing = true;
        for (struct group_item *i = items; i; i = i->next)
                if (i->reply.status == 0 || i->reply.status == 200)
                        refuse_item(i, 503, text);
        damage_handle(g->damage, error);
}

static void answer_all(struct group *g, struct group_item *items, bool stored) {
        uint64_t before = g->counters->events + g->counters->lines, captures = g->counters->captures;

        while (items) {
                struct group_item *i = items;

                items = i->next;
                if (stored && i->reply.status == 200)
                        count_item(g->counters, i);
                if (!i->is_capture)
                        counters_answered(g->counters,
                                          i->push.kind == INGEST_METRICS ? COUNTERS_METRICS : COUNTERS_LOGS,
                                          i->reply.status);
                http_answer(i->call, &i->reply);
                free(i);
        }
        if (g->counters->events + g->counters->lines > before)
                g->events(g->userdata);
        if (g->counters->captures > captures)
                g->captures(g->userdata);
}

/* Takes the first items out: as many as one transaction may hold. */
static struct group_item *take_items(struct group *g) {
        struct group_item *items = g->first, **end = &items;
        size_t n = 0, bytes = 0;

        while (*end && n < GROUP_REQUESTS && (n == 0 || bytes + (*end)->len <= GROUP_BYTES)) {
                n++;
                bytes += (*end)->len;
                end = &(*end)->next;
        }
        g->first = *end;
        *end = NULL;
        if (!g->first)
                g->last = &g->first;
        assert(g->n >= n && g->bytes >= bytes);
        g->n -= n;
        g->bytes -= bytes;
        return items;
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct group *g = userdata;
        struct group_item *items = take_items(g);
        bool written;
        int r;

        (void) source;
        (void) at;
        r = store_all(g, items, &written);
        if (r < 0)
                refuse_all(g, items, r);
        else {
                g->counters->commits += written;
                if (g->failing && written) {
                        log_notice("what agents send is stored again");
                        g->failing = false;
                }
        }
        answer_all(g, items, r == 0);
        if (g->first) {
                r = loop_timer_in(g->timer, 0);
                if (r < 0)
                        (void) log_warning_errno(r, "group: timer: %m");
        }
        return 0;
}

int group_new(const struct damage *d, struct speakers *speakers, const struct clock *clock,
              void (*events)(void *userdata), void (*captures)(void *userdata), void *userdata,
              struct group **ret) {
        _cleanup_(group_freep) struct group *g = calloc(1, sizeof(*g));
        int r;

        if (!g)
                return -ENOMEM;
        *g = (struct group){ .store = d->store,
                             .damage = d,
                             .speakers = speakers,
                             .clock = clock,
                             .counters = d->counters,
                             .events = events,
                             .captures = captures,
                             .userdata = userdata };
        g->last = &g->first;
        r = loop_timer_new(d->event, CLOCK_MONOTONIC, TIMER_ACCURACY, "group", on_timer, g, &g->timer);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(g);
        return 0;
}

struct group *group_free(struct group *g) {
        if (!g)
                return NULL;
        for (struct group_item *i = g->first; i; i = i->next)
                refuse_item(i, 503, "the collector stops");
        answer_all(g, g->first, false);
        (void) sd_event_source_unref(g->timer);
        free(g);
        return NULL;
}

int group_add(struct group *g, const struct group_item *item) {
        struct group_item *i = malloc(sizeof(*i));
        int r = 0;

        if (!i)
                return -ENOMEM;
        *i = *item;
        i->next = NULL;
        if (g->n == 0)
                r = loop_timer_in(g->timer, GROUP_DELAY);
        else if (g->n + 1 >= GROUP_REQUESTS || g->bytes + i->len >= GROUP_BYTES)
                r = loop_timer_in(g->timer, 0);
        if (r < 0) {
                free(i);
                return r;
        }
        *g->last = i;
        g->last = &i->next;
        g->n++;
        g->bytes += i->len;
        return 0;
}
