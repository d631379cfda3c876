/* SPDX-License-Identifier: Apache-2.0 */
#include "metrics_text.h"

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
                metric_underscore(keys[n]);
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
