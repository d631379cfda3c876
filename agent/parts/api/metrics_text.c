/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>

#include "metrics_text.h"

/*
 * What the conventions and Prometheus name differently: every dashboard and alert for a process reads the
 * names of Prometheus' client libraries.
 */
static const struct {
        const char *name, *family;
} client_names[] = {
        { "process.cpu.time", "process_cpu_seconds" },
        { "process.memory.usage", "process_resident_memory_bytes" },
};

/* UCUM units as Prometheus spells them; a unit in braces ({packet}) is a remark and none. */
static const char *unit_name(const struct sample *m) {
        static const struct {
                const char *unit, *suffix;
        } table[] = {
                { "By", "bytes" },
                { "s", "seconds" },
                { "ms", "milliseconds" },
                { "Hz", "hertz" },
                { "Cel", "celsius" },
                { "W", "watts" },
                { "J", "joules" },
                { "%", "percent" },
                { "bit/s", "bits_per_second" },
                { "By/s", "bytes_per_second" },
        };

        if (!m->unit)
                return "";
        if (m->unit[0] == '{') /* a remark: "{token}/s" is a rate all the same */
                return strstr(m->unit, "}/s") ? "per_second" : "";
        for (size_t i = 0; i < ELEMENTSOF(table); i++)
                if (streq(table[i].unit, m->unit))
                        return table[i].suffix;
        return streq(m->unit, "1") && m->kind == SAMPLE_GAUGE ? "ratio" : "";
}

/* Whether the last of the words that underscores part is this one. */
static bool ends_with(const char *s, const char *word) {
        size_t a = strlen(s), b = strlen(word);

        return a > b && s[a - b - 1] == '_' && streq(s + a - b, word);
}

static void underscore(char *s) {
        for (; *s; s++)
                if (!isalnum((unsigned char) *s))
                        *s = '_';
}

/* "x_count" of {cpu} → "x_cpus". */
static void name_what_is_counted(const struct sample *m, char buf[static METRIC_NAME_MAX]) {
        size_t len = strlen(buf) - strlen("count"), n = m->unit ? strlen(m->unit) : 0;

        if (n <= 2 || m->unit[0] != '{' || len + n >= METRIC_NAME_MAX)
                return;
        (void) snprintf(buf + len, METRIC_NAME_MAX - len, "%.*ss", (int) n - 2, m->unit + 1);
        underscore(buf);
}

int metric_name(const struct sample *m, char buf[static METRIC_NAME_MAX]) {
        const char *unit = unit_name(m), *name = m->name;
        size_t len;

        for (size_t i = 0; i < ELEMENTSOF(client_names); i++)
                if (streq(name, client_names[i].name))
                        name = client_names[i].family;
        len = strlen(name);
        if (len + 1 + strlen(unit) >= METRIC_NAME_MAX)
                return -ENAMETOOLONG;
        memcpy(buf, name, len + 1);
        underscore(buf);
        if (m->kind == SAMPLE_GAUGE && ends_with(buf, "count"))
                name_what_is_counted(m, buf);
        if (unit[0] && !ends_with(buf, unit))
                (void) snprintf(buf + len, METRIC_NAME_MAX - len, "_%s", unit);
        return 0;
}

static int by_name(const void *a, const void *b) {
        const struct sample_slot *const *x = a, *const *y = b;
        int r = strcmp((*x)->sample.name, (*y)->sample.name);

        return r != 0 ? r : (*x > *y) - (*x < *y);
}

static void print_sample(struct exposition *e, const struct sample *m) {
        char keys[ELEMENTSOF(m->keys)][METRIC_NAME_MAX];
        struct exposition_label labels[ELEMENTSOF(m->keys)];
        size_t n = 0;

        for (size_t k = 0; k < ELEMENTSOF(m->keys); k++) {
                if (!m->keys[k])
                        continue;
                (void) snprintf(keys[n], sizeof(keys[n]), "%s", m->keys[k]);
                underscore(keys[n]);
                labels[n] = (struct exposition_label) { .key = keys[n], .value = m->values[k] };
                n++;
        }
        if (m->kind == SAMPLE_HISTOGRAM)
                exposition_histogram(e, labels, n, m->h->bounds, m->h->counts, m->h->n_bounds, m->h->sum);
        else if (m->is_int)
                exposition_int(e, labels, n, m->i);
        else
                exposition_real(e, labels, n, m->d);
}

static enum exposition_kind kind_of(enum sample_kind k) {
        switch (k) {
        case SAMPLE_COUNTER:
                return EXPOSITION_COUNTER;
        case SAMPLE_HISTOGRAM:
                return EXPOSITION_HISTOGRAM;
        case SAMPLE_GAUGE:
                break;
        }
        return EXPOSITION_GAUGE;
}

static void print_samples(struct exposition *e, const struct sample_slot **sorted, size_t n) {
        const char *family = NULL;
        char name[METRIC_NAME_MAX];

        for (size_t i = 0; i < n; i++) {
                const struct sample *m = &sorted[i]->sample;
                struct exposition_family f = { .name = name };

                if (!family || !streq(family, m->name)) {
                        if (metric_name(m, name) < 0)
                                continue; /* names are our own: a test holds them */
                        f.help = m->description ? m->description : m->name;
                        f.kind = kind_of(m->kind);
                        exposition_family(e, &f);
                        family = m->name;
                }
                print_sample(e, m);
        }
}

/* The family "target" stands before all others. */
static void print_about(struct exposition *e, const struct metrics_about *about) {
        const struct exposition_family target = { .name = "target",
                                                  .help = "The host that these numbers are of",
                                                  .kind = EXPOSITION_INFO },
                                       build = { .name = "tpu_hostd_build",
                                                 .help = "The program that says them",
                                                 .kind = EXPOSITION_INFO };
        const struct exposition_label version = { .key = "version", .value = about->version };
        struct exposition_label known[METRICS_LABELS_MAX];
        size_t n = 0;

        for (size_t i = 0; i < METRICS_LABELS_MAX; i++)
                if (about->target[i].value)
                        known[n++] = about->target[i];
        exposition_family(e, &target);
        exposition_int(e, known, n, 1);
        exposition_family(e, &build);
        exposition_int(e, &version, 1, 1);
}

int metrics_text(const struct sample_store *s, const struct metrics_about *about, char **ret,
                 size_t *ret_len) {
        _cleanup_free_ const struct sample_slot **sorted = NULL;
        struct exposition e;
        int r;

        sorted = calloc(MAX(s->n, (size_t) 1), sizeof(*sorted));
        if (!sorted)
                return -ENOMEM;
        for (size_t i = 0; i < s->n; i++)
                sorted[i] = &s->slots[i];
        qsort(sorted, s->n, sizeof(*sorted), by_name);
        r = exposition_begin(&e);
        if (r < 0)
                return r;
        print_about(&e, about);
        print_samples(&e, sorted, s->n);
        return exposition_end(&e, ret, ret_len);
}
