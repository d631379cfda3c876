/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <math.h>

#include "exposition.h"
#include "utf8.h"

#define BOUND_MAX 40 /* of the label of a bucket */

/* --- Writing ------------------------------------------------------------------------------------------- */

/* A quote in a help text stays as it is. */
static void print_escaped(FILE *f, const char *s, bool quote) {
        for (; *s; s++)
                if (*s == '\\')
                        fputs("\\\\", f);
                else if (*s == '\n')
                        fputs("\\n", f);
                else if (*s == '"' && quote)
                        fputs("\\\"", f);
                else
                        fputc(*s, f);
}

static const char *suffix(enum exposition_kind kind) {
        switch (kind) {
        case EXPOSITION_COUNTER:
                return "_total";
        case EXPOSITION_INFO:
                return "_info";
        case EXPOSITION_GAUGE:
        case EXPOSITION_HISTOGRAM:
                break;
        }
        return "";
}

static const char *type_name(enum exposition_kind kind) {
        switch (kind) {
        case EXPOSITION_COUNTER:
                return "counter";
        case EXPOSITION_HISTOGRAM:
                return "histogram";
        case EXPOSITION_GAUGE:
        case EXPOSITION_INFO:
                break;
        }
        return "gauge";
}

int exposition_begin(struct exposition *e) {
        *e = (struct exposition) { 0 };
        e->f = open_memstream(&e->text, &e->len);
        return e->f ? 0 : -ENOMEM;
}

void exposition_family(struct exposition *e, const struct exposition_family *f) {
        e->family = *f;
        fprintf(e->f, "# HELP %s%s ", f->name, suffix(f->kind));
        print_escaped(e->f, f->help, false);
        fprintf(e->f, "\n# TYPE %s%s %s\n", f->name, suffix(f->kind), type_name(f->kind));
}

/* more: one more label as it is to be written; NULL: none. */
static void print_series(struct exposition *e, const char *what, const struct exposition_label *labels,
                         size_t n, const char *more) {
        const char *separator = "{";

        fputs(e->family.name, e->f);
        fputs(what, e->f);
        for (size_t i = 0; i < n; i++) {
                char value[EXPOSITION_VALUE_MAX];

                utf8_copy(value, sizeof(value), labels[i].value);
                fprintf(e->f, "%s%s=\"", separator, labels[i].key);
                print_escaped(e->f, value, true);
                fputc('"', e->f);
                separator = ",";
        }
        if (more)
                fprintf(e->f, "%s%s", separator, more);
        if (n > 0 || more)
                fputc('}', e->f);
}

static void print_labels(struct exposition *e, const struct exposition_label *labels, size_t n) {
        print_series(e, suffix(e->family.kind), labels, n, NULL);
}

void exposition_int(struct exposition *e, const struct exposition_label *labels, size_t n, int64_t value) {
        assert(e->family.name && e->family.kind != EXPOSITION_HISTOGRAM);
        print_labels(e, labels, n);
        fprintf(e->f, " %" PRIi64 "\n", value);
}

void exposition_real(struct exposition *e, const struct exposition_label *labels, size_t n, double value) {
        assert(e->family.name && e->family.kind != EXPOSITION_HISTOGRAM);
        print_labels(e, labels, n);
        if (isfinite(value))
                fprintf(e->f, " %.17g\n", value);
        else
                fprintf(e->f, " %s\n", isnan(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf");
}

/*
 * The shortest text that reads as this number again, as Go's client prints bounds, for they are compared as
 * texts. From a million on with an exponent, whole ones below with a point.
 */
static void print_bound(char buf[static BOUND_MAX], double bound) {
        bool big = fabs(bound) >= 1e6;
        size_t n = 0;

        for (int digits = big ? 0 : 6; digits <= 17; digits++) {
                n = (size_t) (big ? snprintf(buf, BOUND_MAX, "le=\"%.*e", digits, bound)
                                  : snprintf(buf, BOUND_MAX, "le=\"%.*g", digits, bound));
                if (strtod(buf + strlen("le=\""), NULL) == bound)
                        break;
        }
        (void) snprintf(buf + n, BOUND_MAX - n, "%s\"", strpbrk(buf + strlen("le=\""), ".e") ? "" : ".0");
}

void exposition_histogram(struct exposition *e, const struct exposition_label *labels, size_t n,
                          const double *bounds, const uint64_t *counts, size_t n_bounds, double sum) {
        char bound[BOUND_MAX];
        uint64_t below = 0;

        assert(e->family.name && e->family.kind == EXPOSITION_HISTOGRAM);
        for (size_t i = 0; i <= n_bounds; i++) {
                if (i < n_bounds)
                        print_bound(bound, bounds[i]);
                below += counts[i];
                print_series(e, "_bucket", labels, n, i < n_bounds ? bound : "le=\"+Inf\"");
                fprintf(e->f, " %" PRIu64 "\n", below);
        }
        print_series(e, "_count", labels, n, NULL);
        fprintf(e->f, " %" PRIu64 "\n", below);
        print_series(e, "_sum", labels, n, NULL);
        fprintf(e->f, " %.17g\n", sum);
}

int exposition_end(struct exposition *e, char **ret, size_t *ret_len) {
        bool failed = ferror(e->f) != 0;

        failed |= !memstream_close(e->f, &e->text);
        e->f = NULL;
        if (failed) {
                exposition_drop(e);
                return -ENOMEM;
        }
        *ret = TAKE_PTR(e->text);
        *ret_len = e->len;
        return 0;
}

void exposition_drop(struct exposition *e) {
        if (e->f)
                (void) fclose(e->f); /* what it holds is thrown away */
        e->f = NULL;
        free(e->text);
        e->text = NULL;
}
