/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "samples.h"
#include "utf8.h"

int sample_store_init(struct sample_store *s) {
        *s = SAMPLE_STORE_NULL;
        s->slots = calloc(SAMPLES_MAX, sizeof(*s->slots)); /* untouched pages cost nothing */
        return s->slots ? 0 : -ENOMEM;
}

void sample_store_clear(struct sample_store *s) {
        free(s->slots);
        *s = SAMPLE_STORE_NULL;
}

/* FNV-1a over the name and the attribute values. */
static uint32_t series_hash(const struct sample *m) {
        uint32_t h = 2166136261u;

        for (const char *c = m->name; *c; c++)
                h = (h ^ (uint8_t) *c) * 16777619u;
        for (size_t k = 0; k < ELEMENTSOF(m->values); k++)
                for (const char *c = m->keys[k] && m->values[k] ? m->values[k] : ""; *c; c++)
                        h = (h ^ (uint8_t) *c) * 16777619u;
        return h;
}

static bool same_series(const struct sample_slot *slot, const struct sample *m, uint32_t hash) {
        if (slot->hash != hash || !streq(slot->sample.name, m->name))
                return false;
        for (size_t k = 0; k < ELEMENTSOF(m->keys); k++) {
                if (!m->keys[k] != !slot->sample.keys[k])
                        return false;
                if (m->keys[k] &&
                    (!streq(m->keys[k], slot->sample.keys[k]) ||
                     strncmp(slot->texts[k], m->values[k] ? m->values[k] : "", SAMPLE_TEXT_MAX - 1) != 0))
                        return false;
        }
        return true;
}

static void point_into(struct sample_slot *slot) {
        for (size_t k = 0; k < ELEMENTSOF(slot->texts); k++)
                slot->sample.values[k] = slot->sample.keys[k] ? slot->texts[k] : NULL;
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
        if (new->kind != SAMPLE_COUNTER || old->kind != SAMPLE_COUNTER || old->is_int != new->is_int)
                return false;
        return new->is_int ? new->i < old->i : new->d < old->d;
}

int sample_store_take(struct sample_store *s, const struct sample_origin *o, const struct sample *m) {
        struct sample_slot *slot;
        uint32_t hash;

        if (!m->is_int && !isfinite(m->d)) {
                s->refused++;
                return -EINVAL;
        }
        hash = series_hash(m);
        slot = find_slot(s, m, hash);
        if (slot) {
                if (stepped_back(&slot->sample, m))
                        slot->restarted_real = slot->time_real;
        } else {
                if (s->n >= SAMPLES_MAX) {
                        s->refused++;
                        return -ENOSPC;
                }
                slot = &s->slots[s->n++];
                s->next = s->n;
                slot->restarted_real = 0;
                for (size_t k = 0; k < ELEMENTSOF(m->keys); k++)
                        utf8_copy(slot->texts[k], SAMPLE_TEXT_MAX, m->keys[k] ? m->values[k] : NULL);
        }
        slot->sample = *m;
        point_into(slot);
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
                if (s->slots[i].source == source && s->slots[i].run != run)
                        continue;
                if (kept != i) {
                        s->slots[kept] = s->slots[i];
                        point_into(&s->slots[kept]);
                }
                kept++;
        }
        s->n = kept;
}
