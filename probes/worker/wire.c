/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <jansson.h>

#include "report.h"

/* --- Writing ------------------------------------------------------------------------------------------- */

struct writer {
        struct sink sink;
        FILE *out;
        int error;
};

static void put(struct writer *w, json_t *line) {
        if (!line || json_dumpf(line, w->out, JSON_COMPACT) < 0 || fputc('\n', w->out) == EOF)
                w->error = -EIO;
        json_decref(line);
}

static void put_finding(struct sink *s, const struct finding *f) {
        put((struct writer *) s, json_pack("{s:o}", "finding", finding_to_json(f)));
}

/* Numbers only: no probe makes a histogram. */
static void put_sample(struct sink *s, const struct sample *m) {
        json_t *attributes = json_array(), *value = m->is_int ? json_integer(m->i) : json_real(m->d);

        for (size_t i = 0; i < ELEMENTSOF(m->keys) && m->keys[i]; i++)
                (void) json_array_append_new(
                        attributes, json_pack("[s, s]", m->keys[i], m->values[i] ? m->values[i] : ""));
        put((struct writer *) s,
            json_pack("{s:{s:s, s:s, s:s, s:b, s:o, s:o}}", "sample", "name", m->name, "unit", m->unit,
                      "description", m->description, "counter", m->kind == SAMPLE_COUNTER, "value", value,
                      "attributes", attributes));
}

int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out) {
        struct writer w = { .sink = { put_finding, put_sample }, .out = out };
        int r = p->run(h, c, &w.sink);

        put(&w, json_pack("{s:i}", "done", r < 0 ? r : 0));
        return fflush(out) == EOF || w.error < 0 ? -EIO : 0;
}

/* --- Reading ------------------------------------------------------------------------------------------- */

static const char *keep(struct wire_reader *r, const char *text) {
        for (size_t i = 0; i < r->n_names; i++)
                if (streq(r->names[i], text))
                        return r->names[i];
        if (r->n_names == WIRE_NAMES_MAX)
                return NULL;
        r->names[r->n_names] = strdup(text);
        return r->names[r->n_names] ? r->names[r->n_names++] : NULL;
}

static int take_finding(const json_t *o, struct sink *s) {
        struct finding f;
        int r = finding_from_json(o, &f);

        if (r == 0)
                s->finding(s, &f);
        return r;
}

static int take_sample(struct wire_reader *r, json_t *o, struct sink *s) {
        const char *name, *unit, *description;
        json_t *value, *attributes, *pair;
        struct sample m = { 0 };
        size_t i;
        int counter;

        if (json_unpack(o, "{s:s, s:s, s:s, s:b, s:o, s:o}", "name", &name, "unit", &unit, "description",
                        &description, "counter", &counter, "value", &value, "attributes", &attributes) < 0 ||
            !json_is_number(value))
                return -EBADMSG;
        m.name = keep(r, name);
        m.unit = keep(r, unit);
        m.description = keep(r, description);
        m.kind = counter ? SAMPLE_COUNTER : SAMPLE_GAUGE;
        m.is_int = json_is_integer(value);
        if (m.is_int)
                m.i = json_integer_value(value);
        else
                m.d = json_real_value(value);
        json_array_foreach (attributes, i, pair) {
                const char *key;

                if (i >= ELEMENTSOF(m.keys) || json_unpack(pair, "[s, s]", &key, &m.values[i]) < 0)
                        return -EBADMSG;
                m.keys[i] = keep(r, key);
                if (!m.keys[i])
                        return -E2BIG;
        }
        if (!m.name || !m.unit || !m.description)
                return -E2BIG;
        s->sample(s, &m);
        return 0;
}

static int take_line(struct wire_reader *r, const char *line, size_t len, struct sink *s) {
        json_t *o = json_loadb(line, len, 0, NULL), *part;
        int e = -EBADMSG;

        if ((part = json_object_get(o, "finding")))
                e = take_finding(part, s);
        else if ((part = json_object_get(o, "sample")))
                e = take_sample(r, part, s);
        else if (json_is_integer(part = json_object_get(o, "done"))) {
                r->done = true;
                r->result = (int) json_integer_value(part);
                e = 0;
        }
        json_decref(o);
        return e;
}

static void drop_part(struct wire_reader *r) {
        free(TAKE_PTR(r->line));
        r->n = 0;
}

/* n fits. */
static int keep_part(struct wire_reader *r, const char *data, size_t n) {
        if (!r->line)
                r->line = malloc(WIRE_LINE_MAX);
        if (!r->line)
                return -ENOMEM;
        memcpy(r->line + r->n, data, n);
        r->n += n;
        return 0;
}

int wire_take(struct wire_reader *r, const char *data, size_t len, struct sink *s) {
        while (len > 0) {
                const char *end = memchr(data, '\n', len);
                size_t n = end ? (size_t) (end - data) : len;
                int e;

                if (n > WIRE_LINE_MAX - 1 - r->n)
                        return -E2BIG;
                if (!end)
                        return keep_part(r, data, n);
                if (r->n == 0)
                        e = take_line(r, data, n, s);
                else {
                        e = keep_part(r, data, n);
                        if (e == 0)
                                e = take_line(r, r->line, r->n, s);
                        drop_part(r);
                }
                if (e < 0)
                        return e;
                data += n + 1;
                len -= n + 1;
        }
        return 0;
}

void wire_restart(struct wire_reader *r) {
        drop_part(r);
        r->done = false;
        r->result = 0;
}

void wire_clear(struct wire_reader *r) {
        drop_part(r);
        for (size_t i = 0; i < r->n_names; i++)
                free(r->names[i]);
        *r = (struct wire_reader){ 0 };
}
