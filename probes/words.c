/* SPDX-License-Identifier: Apache-2.0 */
#include "words.h"

#include <assert.h>
#include <math.h>
#include <stdarg.h>

#include "contested.h"
#include "utf8.h"

/* --- Numbers ------------------------------------------------------------------------------------------- */

static const struct metric_def defs[] = {
#define METRIC(id, kind, name, unit, key0, key1, key2, description) \
        [METRIC_##id] = { name, unit, description, SAMPLE_##kind, { key0, key1, key2 } },
#define METRIC_5(id, kind, name, unit, key0, key1, key2, key3, key4, description) \
        [METRIC_##id] = { name, unit, description, SAMPLE_##kind, { key0, key1, key2, key3, key4 } },
#include "metrics.def"
#undef METRIC
#undef METRIC_5
};

const struct metric_def *metric_def(enum metric_id id) {
        assert(id < _METRIC_MAX);
        return &defs[id];
}

static struct sample sample_of(enum metric_id id, const char *v0, const char *v1, const char *v2) {
        const struct metric_def *d = &defs[id];

        return (struct sample){
                .name = d->name,
                .unit = d->unit,
                .description = d->description,
                .kind = d->kind,
                .keys = { d->keys[0], d->keys[1], d->keys[2] },
                .values = { v0, v1, v2 },
        };
}

void put_int(struct sink *s, enum metric_id id, int64_t value, const char *v0, const char *v1,
             const char *v2) {
        struct sample m = sample_of(id, v0, v1, v2);

        m.is_int = true;
        m.i = value;
        s->sample(s, &m);
}

void put_double(struct sink *s, enum metric_id id, double value, const char *v0, const char *v1,
                const char *v2) {
        struct sample m = sample_of(id, v0, v1, v2);

        m.d = value;
        s->sample(s, &m);
}

void put_uint(struct sink *s, enum metric_id id, uint64_t value, const char *v0, const char *v1,
              const char *v2) {
        put_int(s, id, (int64_t) MIN(value, (uint64_t) INT64_MAX), v0, v1, v2);
}

void put_histogram(struct sink *s, enum metric_id id, const struct sample_histogram *h, const char *v0,
                   const char *v1) {
        struct sample m = sample_of(id, v0, v1, NULL);

        m.h = h;
        s->sample(s, &m);
}

void put_buckets(struct sink *s, enum metric_id id, const __u64 *buckets, size_t n, uint64_t ns,
                 const char *v0, const char *v1) {
        double bounds[PUT_BUCKETS_MAX];
        uint64_t counts[PUT_BUCKETS_MAX];
        struct sample_histogram h = { .sum = (double) ns / 1e9,
                                      .min = NAN,
                                      .max = NAN,
                                      .bounds = bounds,
                                      .counts = counts,
                                      .n_bounds = n - 1 };

        assert(n > 0 && n <= PUT_BUCKETS_MAX);
        for (size_t i = 0; i < n; i++) {
                bounds[i] = (double) (1ULL << i) / 1e6;
                counts[i] = buckets[i];
                h.count += buckets[i];
        }
        if (h.count > 0)
                put_histogram(s, id, &h, v0, v1);
}

char *make_printable(char *text) {
        for (char *p = text; *p; p++)
                if (*p == '\t' || *p == '\n')
                        *p = '?';
        (void) utf8_scrub(text, strlen(text));
        return text;
}

/* --- Findings ------------------------------------------------------------------------------------------ */

void probe_words(struct finding *f, enum check_words w, const char *subject, const char *detail) {
        check_begin(f, w, subject);
        (void) make_printable(f->subject);
        check_say(f, w, detail ? detail : "");
}

void probe_tell(struct sink *s, enum check_words w, const char *subject, const char *detail, const char *fmt,
                ...) {
        struct finding f;
        char found[1024];
        va_list ap;

        probe_words(&f, w, subject, detail);
        va_start(ap, fmt);
        (void) vsnprintf(found, sizeof(found), fmt, ap);
        va_end(ap);
        finding_set(f.found, "%s", make_printable(found));
        s->finding(s, &f);
}

void probe_tell_all(const struct host *h, struct sink *s, const struct finding_list *l) {
        for (size_t i = 0; i < l->n; i++) {
                contested_explain(h, &l->items[i]);
                (void) make_printable(l->items[i].subject);
                (void) make_printable(l->items[i].found);
                s->finding(s, &l->items[i]);
        }
}
