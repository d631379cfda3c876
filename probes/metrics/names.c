/* SPDX-License-Identifier: Apache-2.0 */
#include "names.h"

static const struct metric_def defs[] = {
#define METRIC(id, kind, name, unit, key0, key1, key2, description) \
        [METRIC_##id] = { name, unit, description, SAMPLE_##kind, { key0, key1, key2 } },
#define METRIC_5(id, kind, name, unit, key0, key1, key2, key3, key4, description) \
        [METRIC_##id] = { name, unit, description, SAMPLE_##kind, { key0, key1, key2, key3, key4 } },
#include "names.def"
#undef METRIC
#undef METRIC_5
};

const struct metric_def *metric_def(enum metric_id id) {
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
