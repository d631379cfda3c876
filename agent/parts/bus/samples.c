/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "fnv.h"
#include "samples.h"
#include "utf8.h"

int sample_store_init(struct sample_store *s) {
        *s = SAMPLE_STORE_NULL;
        s->slots = calloc(SAMPLES_MAX, sizeof(*s->slots)); /* untouched pages cost nothing */
        return s->slots ? 0 : -ENOMEM;
}

/* A histogram that is kept, with room for so many bounds. */
struct sample_kept {
        struct sample_histogram histogram;
        size_t size;
        double numbers[]; /* size bounds, and behind them size + 1 counts, which are as long */
};
_Static_assert(sizeof(double) == sizeof(uint64_t) && _Alignof(double) == _Alignof(uint64_t),
               "counts lie behind bounds");

static size_t kept_bytes(size_t bounds) {
        return sizeof(struct sample_kept) + (2 * bounds + 1) * sizeof(double);
}

static void drop_series(struct sample_store *s, struct sample_slot *slot) {
        free(TAKE_PTR(slot->texts));
        if (slot->kept)
                s->histogram_bytes -= kept_bytes(slot->kept->size);
        free(slot->kept);
        slot->kept = NULL;
}

void sample_store_clear(struct sample_store *s) {
        for (size_t i = 0; i < s->n; i++)
                drop_series(s, &s->slots[i]);
        free(s->slots);
        *s = SAMPLE_STORE_NULL;
}

/* Over the name and the attribute values. */
static uint32_t series_hash(const struct sample *m) {
        uint64_t h = fnv_text(FNV_BEGIN, m->name);

        for (size_t k = 0; k < ELEMENTSOF(m->values); k++)
                h = fnv_text(h, m->keys[k] && m->values[k] ? m->values[k] : "");
        return (uint32_t) (h ^ h >> 32);
}

static bool same_series(const struct sample_slot *slot, const struct sample *m, uint32_t hash) {
        if (slot->hash != hash || !streq(slot->sample.name, m->name))
                return false;
        for (size_t k = 0; k < ELEMENTSOF(m->keys); k++) {
                if (!m->keys[k] != !slot->sample.keys[k])
                        return false;
                if (m->keys[k] &&
                    (!streq(m->keys[k], slot->sample.keys[k]) ||
                     strncmp(slot->sample.values[k], m->values[k] ? m->values[k] : "",
                             SAMPLE_TEXT_MAX - 1) != 0))
                        return false;
        }
        return true;
}

/* Series come in the same order each time: the first guess is nearly always right. */
static struct sample_slot *find_slot(struct sample_store *s, const struct sample *m, uint32_t hash) {
        for (size_t i = 0; i < s->n; i++) {
                size_t at = (s->next + i) % s->n;

                if (same_series(&s->slots[at], m, hash)) {
                        s->next = at + 1;
                        return &s->slots[at];
                }
        }
        return NULL;
}

static bool stepped_back(const struct sample *old, const struct sample *new) {
        if (new->kind != old->kind)
                return false;
        switch (new->kind) {
        case SAMPLE_GAUGE:
                return false;
        case SAMPLE_HISTOGRAM:
                return new->h->count < old->h->count;
        case SAMPLE_COUNTER:
                break;
        }
        return old->is_int == new->is_int && (new->is_int ? new->i < old->i : new->d < old->d);
}

static bool is_sound(const struct sample *m) {
        if (m->kind == SAMPLE_HISTOGRAM)
                return m->h && m->h->n_bounds < SAMPLE_BUCKETS_MAX && isfinite(m->h->sum);
        return m->is_int || isfinite(m->d);
}

/* Room for so many bounds. -ENOSPC, -ENOMEM: as it was. */
static int reserve_kept(struct sample_store *s, struct sample_slot *slot, size_t bounds) {
        size_t before = slot->kept ? kept_bytes(slot->kept->size) : 0;
        struct sample_kept *more;

        if (slot->kept && slot->kept->size >= bounds)
                return 0;
        if (s->histogram_bytes - before + kept_bytes(bounds) > SAMPLE_HISTOGRAM_BYTES)
                return -ENOSPC;
        more = realloc(slot->kept, kept_bytes(bounds));
        if (!more)
                return -ENOMEM;
        more->size = bounds;
        slot->kept = more;
        s->histogram_bytes += kept_bytes(bounds) - before;
        return 0;
}

static void keep_histogram(struct sample_slot *slot, const struct sample_histogram *h) {
        struct sample_kept *k = slot->kept;
        double *counts = k->numbers + k->size;

        k->histogram = *h;
        if (h->n_bounds > 0)
                memcpy(k->numbers, h->bounds, h->n_bounds * sizeof(*h->bounds));
        memcpy(counts, h->counts, (h->n_bounds + 1) * sizeof(*h->counts));
        k->histogram.bounds = k->numbers;
        k->histogram.counts = (const uint64_t *) (const void *) counts;
        slot->sample.h = &k->histogram;
}

/* The values of a series that is new, as they are kept. -ENOMEM. */
static int keep_values(struct sample_slot *slot, const struct sample *m) {
        char texts[SAMPLE_KEYS_MAX * SAMPLE_TEXT_MAX];
        size_t at[SAMPLE_KEYS_MAX], n = 0;

        for (size_t k = 0; k < SAMPLE_KEYS_MAX; k++) {
                at[k] = n;
                if (!m->keys[k])
                        continue;
                utf8_copy(texts + n, SAMPLE_TEXT_MAX, m->values[k]);
                n += strlen(texts + n) + 1;
        }
        slot->texts = n > 0 ? malloc(n) : NULL;
        if (n > 0 && !slot->texts)
                return -ENOMEM;
        if (n > 0)
                memcpy(slot->texts, texts, n);
        for (size_t k = 0; k < SAMPLE_KEYS_MAX; k++)
                slot->sample.values[k] = m->keys[k] ? slot->texts + at[k] : NULL;
        return 0;
}

static int begin_series(struct sample_store *s, struct sample_slot *slot, const struct sample *m) {
        int r = keep_values(slot, m);

        if (r < 0)
                return r;
        s->next = ++s->n;
        slot->restarted_real = 0;
        return 0;
}

/* All of m but its values, which the series has. */
static void take_number(struct sample_slot *slot, const struct sample *m) {
        struct sample now = *m;

        memcpy(now.values, slot->sample.values, sizeof(now.values));
        slot->sample = now;
}

int sample_store_take(struct sample_store *s, const struct sample_origin *o, const struct sample *m) {
        uint32_t hash = series_hash(m);
        struct sample_slot *slot = find_slot(s, m, hash);
        bool known = slot, again;
        int r;

        if (!slot && s->n < SAMPLES_MAX)
                slot = &s->slots[s->n]; /* it owns nothing */
        r = !is_sound(m) ? -EINVAL : slot ? 0 : -ENOSPC;
        again = r == 0 && known && stepped_back(&slot->sample, m); /* before its old histogram moves */
        if (r == 0 && m->kind == SAMPLE_HISTOGRAM)
                r = reserve_kept(s, slot, m->h->n_bounds);
        if (r == 0 && !known)
                r = begin_series(s, slot, m);
        if (r < 0) {
                if (slot && !known)
                        drop_series(s, slot);
                s->refused++;
                return r;
        }
        if (again)
                slot->restarted_real = slot->time_real;
        take_number(slot, m);
        if (m->kind == SAMPLE_HISTOGRAM)
                keep_histogram(slot, m->h);
        slot->time_real = o->now_real;
        slot->start_real = MAX(o->start_real, slot->restarted_real);
        slot->hash = hash;
        slot->source = o->source;
        slot->run = o->run;
        slot->fresh = true;
        return 0;
}

void sample_store_end_run(struct sample_store *s, unsigned source, unsigned run) {
        size_t kept = 0;

        for (size_t i = 0; i < s->n; i++) {
                if (s->slots[i].source == source && s->slots[i].run != run) {
                        drop_series(s, &s->slots[i]);
                        continue;
                }
                if (kept != i) {
                        s->slots[kept] = s->slots[i];
                        s->slots[i].kept = NULL; /* both have moved */
                        s->slots[i].texts = NULL;
                }
                kept++;
        }
        s->n = kept;
}
