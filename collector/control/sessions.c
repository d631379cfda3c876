/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fnv.h"
#include "inside.h"

static struct session **bucket_of_worker(struct sessions *t, const char *slice, unsigned worker) {
        uint64_t h = fnv(fnv_text(FNV_BEGIN, slice), &worker, sizeof(worker));

        return &t->hash[(h ^ h >> 32) % ELEMENTSOF(t->hash)];
}

struct session *sessions_find(const struct sessions *t, const char *slice, unsigned worker) {
        struct session *s = *bucket_of_worker((struct sessions *) (uintptr_t) t, slice, worker);

        while (s && (s->worker != worker || !streq(s->slice, slice)))
                s = s->hash_next;
        return s;
}

int sessions_add(struct sessions *t, const char *slice, unsigned worker, struct session **ret) {
        struct session **at = bucket_of_worker(t, slice, worker), *s = calloc(1, sizeof(*s));

        if (!s)
                return -ENOMEM;
        (void) snprintf(s->slice, sizeof(s->slice), "%s", slice);
        s->worker = worker;
        s->hash_next = *at;
        *at = s;
        s->sooner = t->last;
        *(t->last ? &t->last->later : &t->first) = s;
        t->last = s;
        t->n++;
        *ret = s;
        return 0;
}

static void unlink_lease(struct sessions *t, struct session *s) {
        *(s->sooner ? &s->sooner->later : &t->first) = s->later;
        *(s->later ? &s->later->sooner : &t->last) = s->sooner;
}

struct session *sessions_drop(struct sessions *t, struct session *s) {
        struct session **at = bucket_of_worker(t, s->slice, s->worker);

        while (*at != s)
                at = &(*at)->hash_next;
        *at = s->hash_next;
        assert(!s->call && t->n > 0); /* its call was answered */
        unlink_lease(t, s);
        t->n--;
        free(s->report);
        free(s);
        return NULL;
}

/* All leases are as long, so that the one renewed last ends last. */
void sessions_renew(struct sessions *t, struct session *s, usec_t expires) {
        unlink_lease(t, s);
        assert(!t->last || t->last->expires <= expires);
        s->expires = expires;
        s->later = NULL;
        s->sooner = t->last;
        *(t->last ? &t->last->later : &t->first) = s;
        t->last = s;
}

static size_t slot_of(usec_t t) {
        return (size_t) (t / WHEEL_SLOT % WHEEL_SLOTS);
}

void sessions_wait(struct sessions *t, struct session *s, void *call, usec_t now, usec_t span) {
        struct session **at = &t->wheel[slot_of(now + span)];

        assert(!s->call && span <= REGISTRY_WAIT_MAX); /* less than a turn of the wheel */
        if (t->waiting == 0) /* it did not turn meanwhile */
                t->turned = now / WHEEL_SLOT * WHEEL_SLOT;
        s->call = call;
        s->wheel_next = *at;
        if (s->wheel_next)
                s->wheel_next->wheel_at = &s->wheel_next;
        s->wheel_at = at;
        *at = s;
        t->waiting++;
}

void *sessions_take_call(struct sessions *t, struct session *s) {
        if (s->wheel_at) {
                *s->wheel_at = s->wheel_next;
                if (s->wheel_next)
                        s->wheel_next->wheel_at = s->wheel_at;
                s->wheel_at = NULL;
                assert(t->waiting > 0);
                t->waiting--;
        }
        s->fresh = 0;
        return TAKE_PTR(s->call);
}

struct session *sessions_due(struct sessions *t, usec_t now) {
        usec_t end = now / WHEEL_SLOT * WHEEL_SLOT; /* what is in the slot of now itself waits for its end */

        if (t->turned + WHEEL_SLOTS * WHEEL_SLOT < end)
                t->turned = end - WHEEL_SLOTS * WHEEL_SLOT; /* nothing waits longer than a turn */
        while (t->turned < end) {
                struct session *s = t->wheel[slot_of(t->turned)];

                if (s)
                        return s;
                t->turned += WHEEL_SLOT;
        }
        return NULL;
}

usec_t sessions_next(const struct sessions *t) {
        usec_t next = t->first ? t->first->expires : USEC_INFINITY;

        for (usec_t i = 0; t->waiting > 0 && i < WHEEL_SLOTS; i++)
                if (t->wheel[slot_of(t->turned + i * WHEEL_SLOT)])
                        return MIN(next, t->turned + (i + 1) * WHEEL_SLOT);
        return next;
}
