/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "fnv.h"
#include "series.h"

/* Who sends keys that collide makes his own pushes slow: a bucket is compared in full. */
static uint32_t hash_of(const uint8_t *p, size_t len) {
        uint64_t h = fnv(FNV_BEGIN, p, len);

        return (uint32_t) (h ^ h >> 32);
}

static bool is_key(const struct series_key *k, const void *key, size_t len) {
        return k->len == len && memcmp(k->bytes, key, len) == 0;
}

/*
 * Keys lie in the order in which the first push brought them, and most pushes bring them in the same: asked
 * for is the one that was found last (a point asks twice) or the next.
 */
static bool is_expected_key(struct series *s, const void *key, size_t len) {
        for (uint32_t i = s->last; i < s->n && i <= s->last + 1; i++)
                if (is_key(&s->keys[i], key, len)) {
                        s->last = i;
                        return true;
                }
        return false;
}

int64_t series_find(struct series *s, const void *key, size_t len) {
        uint32_t h;

        if (s->n == 0)
                return 0;
        if (is_expected_key(s, key, len))
                return s->keys[s->last].id;
        h = hash_of(key, len);
        for (uint32_t i = s->buckets[h % s->n_buckets]; i > 0; i = s->keys[i - 1].next)
                if (s->keys[i - 1].hash == h && is_key(&s->keys[i - 1], key, len)) {
                        s->last = i - 1;
                        return s->keys[i - 1].id;
                }
        return 0;
}

static int grow_keys(struct series *s) {
        uint32_t size = MAX(2 * s->size, 1024U);
        struct series_key *keys = realloc(s->keys, size * sizeof(*keys));
        uint32_t *buckets;

        if (!keys)
                return -ENOMEM;
        s->keys = keys;
        buckets = calloc(size, sizeof(*buckets));
        if (!buckets)
                return -ENOMEM;
        free(s->buckets);
        s->buckets = buckets;
        s->n_buckets = s->size = size;
        for (uint32_t i = 0; i < s->n; i++) {
                uint32_t *bucket = &buckets[keys[i].hash % size];

                keys[i].next = *bucket;
                *bucket = i + 1;
        }
        return 0;
}

static void forget_keys(struct series *s, uint32_t n) {
        while (s->n > n) { /* the newest is the first of its bucket */
                struct series_key *k = &s->keys[--s->n];

                s->buckets[k->hash % s->n_buckets] = k->next;
                free(k->bytes);
        }
}

int series_remember(struct series *s, const void *key, size_t len, int64_t id) {
        uint32_t h = hash_of(key, len), *bucket;
        uint8_t *bytes;

        if (s->n >= SERIES_KEYS_MAX) {
                forget_keys(s, 0);
                s->overflowed = true;
        }
        if (s->n == s->size && grow_keys(s) < 0)
                return -ENOMEM;
        bytes = malloc(MAX(len, (size_t) 1));
        if (!bytes)
                return -ENOMEM;
        assert(s->n < s->size && s->n < SERIES_KEYS_MAX);
        memcpy(bytes, key, len);
        bucket = &s->buckets[h % s->n_buckets];
        s->keys[s->n] = (struct series_key) {
                .next = *bucket, .hash = h, .len = (uint32_t) len, .id = id, .bytes = bytes
        };
        *bucket = ++s->n;
        return 0;
}

uint32_t series_mark(struct series *s) {
        s->overflowed = false;
        return s->n;
}

void series_undo(struct series *s, uint32_t mark) {
        forget_keys(s, s->overflowed ? 0 : mark);
}

void series_forget_keys(struct series *s) {
        forget_keys(s, 0);
}

/* --- Which are anybody's --------------------------------------------------------------------------- */

int series_watch(struct series *s, int64_t through) {
        series_unwatch(s);
        if (through <= 0 || through > UINT32_MAX)
                return 0;
        s->used = calloc((size_t) through / 8 + 1, 1);
        if (!s->used)
                return -ENOMEM;
        s->used_through = through;
        return 0;
}

void series_note(struct series *s, int64_t id) {
        if (id > 0 && id <= s->used_through)
                s->used[id / 8] |= (uint8_t) (1U << id % 8);
}

void series_note_all(struct series *s, const struct host_series *h) {
        for (uint32_t i = 0; i < h->size && s->used_through > 0; i++)
                series_note(s, h->ids[i]);
}

bool series_is_used(const struct series *s, int64_t id) {
        return id <= 0 || id > s->used_through || s->used[id / 8] & 1U << id % 8;
}

void series_unwatch(struct series *s) {
        free(s->used);
        s->used = NULL;
        s->used_through = 0;
}

/* --- Hosts ----------------------------------------------------------------------------------------- */

struct host_series *series_of_host(struct series *s, int64_t host) {
        size_t at = (size_t) host;

        if (at >= s->n_hosts) {
                size_t n = MAX(2 * s->n_hosts, at + 64);
                struct host_series *hosts = realloc(s->hosts, n * sizeof(*hosts));

                if (!hosts)
                        return NULL;
                memset(hosts + s->n_hosts, 0, (n - s->n_hosts) * sizeof(*hosts));
                s->hosts = hosts;
                s->n_hosts = n;
        }
        return &s->hosts[at];
}

static uint32_t *slot_of(uint32_t *ids, uint32_t size, uint32_t id) {
        uint32_t at = id * 2654435761U & (size - 1);

        while (ids[at] != 0 && ids[at] != id)
                at = (at + 1) & (size - 1);
        return &ids[at];
}

bool host_series_has(const struct host_series *h, int64_t id) {
        return h->n > 0 && *slot_of(h->ids, h->size, (uint32_t) id) != 0;
}

int host_series_add(struct host_series *h, int64_t id) {
        uint32_t *at;

        if (4 * (h->n + 1) > 3 * h->size) {
                uint32_t size = MAX(2 * h->size, 64U), *ids = calloc(size, sizeof(*ids));

                if (!ids)
                        return -ENOMEM;
                for (uint32_t i = 0; i < h->size; i++)
                        if (h->ids[i] != 0)
                                *slot_of(ids, size, h->ids[i]) = h->ids[i];
                free(h->ids);
                h->ids = ids;
                h->size = size;
        }
        at = slot_of(h->ids, h->size, (uint32_t) id);
        h->n += *at == 0;
        *at = (uint32_t) id;
        return 0;
}

void host_series_clear(struct host_series *h) {
        free(h->ids);
        *h = (struct host_series) { 0 };
}

void series_clear(struct series *s) {
        forget_keys(s, 0);
        series_unwatch(s);
        for (size_t i = 0; i < s->n_hosts; i++)
                host_series_clear(&s->hosts[i]);
        free(s->keys);
        free(s->buckets);
        free(s->hosts);
        *s = (struct series) { 0 };
}
