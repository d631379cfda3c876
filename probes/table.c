/* SPDX-License-Identifier: Apache-2.0 */
/* The lists of this room, and what has to do with all that stands in them. */
#include <stdarg.h>

#include "words.h"

#include "utf8.h"

/* --- Metrics ------------------------------------------------------------------------------------------- */

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

char *make_printable(char *text) {
        for (char *p = text; *p; p++)
                if (*p == '\t' || *p == '\n')
                        *p = '?';
        (void) utf8_scrub(text, strlen(text));
        return text;
}

/* --- Words --------------------------------------------------------------------------------------------- */

static const struct {
        const char *check;
        enum verdict verdict;
        const char *wanted, *source, *reason, *remedy;
} words[] = {
#define WORDS(id, check, verdict, wanted, source, reason, remedy) \
        [WORDS_##id] = { check, VERDICT_##verdict, wanted, source, reason, remedy },
#include "words.def"
#undef WORDS
};

static void fill(char *field, size_t size, const char *text, const char *subject, const char *detail) {
        char buf[1024];
        size_t n = 0;

        for (const char *p = text; *p && n < sizeof(buf);)
                if (startswith(p, "{}") || startswith(p, "{1}")) {
                        n += (size_t) snprintf(buf + n, sizeof(buf) - n, "%s",
                                               p[1] == '1' ? detail : subject);
                        p += p[1] == '1' ? 3 : 2;
                } else
                        buf[n++] = *p++;
        buf[MIN(n, sizeof(buf) - 1)] = '\0';
        finding_format(field, size, "%s", make_printable(buf));
}

void probe_words(struct finding *f, enum words w, const char *subject, const char *detail) {
        finding_init(f, words[w].check, subject);
        f->verdict = words[w].verdict;
        (void) make_printable(f->subject);
        detail = detail ? detail : "";
        fill(f->wanted, sizeof(f->wanted), words[w].wanted, f->subject, detail);
        fill(f->source, sizeof(f->source), words[w].source, f->subject, detail);
        fill(f->reason, sizeof(f->reason), words[w].reason, f->subject, detail);
        fill(f->remedy, sizeof(f->remedy), words[w].remedy, f->subject, detail);
}

void probe_tell(struct sink *s, enum words w, const char *subject, const char *detail, const char *fmt,
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

void probe_tell_all(struct sink *s, const struct finding_list *l) {
        for (size_t i = 0; i < l->n; i++) {
                (void) make_printable(l->items[i].subject);
                (void) make_printable(l->items[i].found);
                s->finding(s, &l->items[i]);
        }
}

/* --- Probes -------------------------------------------------------------------------------------------- */

#define PROBE(id, in, every, within, flags, says)                    \
        static const struct probe definition_of_##id = {             \
                .name = #id,                                         \
                .summary = says,                                     \
                .group = GROUP_##in,                                 \
                .interval = every * USEC_PER_SEC,                    \
                .timeout = within * USEC_PER_SEC,                    \
                .blocks = ((flags) & PROBE_BLOCKS) != 0,             \
                .asks_owners = ((flags) & PROBE_ASKS_OWNERS) != 0,   \
                .varies = ((flags) & PROBE_VARIES) != 0,             \
                .run = probe_##id,                                   \
        };
#include "probes.def"
#undef PROBE

const struct probe *const probe_table[] = {
#define PROBE(id, in, every, within, flags, says) &definition_of_##id,
#include "probes.def"
#undef PROBE
        NULL,
};

const char *probe_group_title(enum probe_group g) {
        static const char *const titles[] = {
                [GROUP_CHIPS] = "Chips",
                [GROUP_NETWORK] = "Network",
                [GROUP_HOST] = "Host",
                [GROUP_SOFTWARE] = "Software",
                [GROUP_IDENTITY] = "Identity",
                [GROUP_BPF] = "BPF programs",
        };
        _Static_assert(ELEMENTSOF(titles) == _GROUP_MAX, "every group has a title");

        return titles[g];
}

const struct probe *probe_find(const char *name) {
        for (size_t i = 0; probe_table[i]; i++)
                if (streq(probe_table[i]->name, name))
                        return probe_table[i];
        return NULL;
}

int probe_run(const struct probe *p, const struct host *h, const struct probe_context *c, struct sink *s) {
        struct finding f;
        int r;

        r = p->run(h, c, s);
        if (r >= 0)
                return r;
        finding_init(&f, p->name, NULL);
        finding_set(f.found, "nothing");
        finding_set(f.reason, "nothing could be looked at: %s", strerror(-r));
        s->finding(s, &f);
        return r;
}
