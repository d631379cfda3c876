/* SPDX-License-Identifier: Apache-2.0 */
#include "emit.h"

#include "utf8.h"

static struct sample sample_of(const struct metric *m, const char *key0, const char *value0) {
        return (struct sample) {
                .name = m->name,
                .unit = m->unit,
                .description = m->description,
                .kind = m->kind,
                .keys = { key0 },
                .values = { value0 },
        };
}

void emit_int(struct sink *s, const struct metric *m, int64_t value, const char *key0, const char *value0,
              const char *key1, const char *value1) {
        struct sample x = sample_of(m, key0, value0);

        x.is_int = true;
        x.i = value;
        x.keys[1] = key1;
        x.values[1] = value1;
        s->sample(s, &x);
}

void emit_double(struct sink *s, const struct metric *m, double value, const char *key0,
                 const char *value0) {
        struct sample x = sample_of(m, key0, value0);

        x.d = value;
        s->sample(s, &x);
}

char *make_printable(char *text) {
        for (char *p = text; *p; p++)
                if (*p == '\t' || *p == '\n')
                        *p = '?';
        (void) utf8_scrub(text, strlen(text));
        return text;
}
