/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <ctype.h>
#include <math.h>

#include "exposition.h"
#include "utf8.h"

/* --- What is asked for --------------------------------------------------------------------------------- */

#define PREFERENCE_MAX 1000 /* of a "q=", in thousandths: RFC 9110, 12.4.2 */

struct media {
        bool open_metrics, text; /* which of the two it means; none: neither */
        int preference;
};

static const char *skip_blanks(const char *p, const char *end) {
        while (p < end && (*p == ' ' || *p == '\t'))
                p++;
        return p;
}

static bool is_word(const char *p, const char *end, const char *word) {
        size_t len = strlen(word);

        while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        return (size_t) (end - p) == len && strncasecmp(p, word, len) == 0;
}

/* "0.75" → 750; what is no such number counts as not wanted. */
static int read_preference(const char *p, const char *end) {
        int n, unit = PREFERENCE_MAX / 10;

        while (end > p && (end[-1] == ' ' || end[-1] == '\t'))
                end--;
        if (p >= end || (*p != '0' && *p != '1'))
                return 0;
        n = (*p++ - '0') * PREFERENCE_MAX;
        if (p < end && *p++ != '.')
                return 0;
        for (; p < end; p++, unit /= 10) {
                if (!isdigit((unsigned char) *p))
                        return 0;
                n += (*p - '0') * unit;
        }
        return MIN(n, PREFERENCE_MAX);
}

static void read_parameter(struct media *m, const char *p, const char *end) {
        const char *is = memchr(p, '=', (size_t) (end - p));

        if (!is)
                return;
        if (is_word(p, is, "q"))
                m->preference = read_preference(skip_blanks(is + 1, end), end);
        else if (is_word(p, is, "version") && m->open_metrics) {
                p = skip_blanks(is + 1, end);
                m->open_metrics = is_word(p, end, "1.0.0") || is_word(p, end, "\"1.0.0\"");
        }
}

/* One of the list: type *( ";" name "=" value ). */
static struct media read_media(const char *p, const char *end) {
        const char *semicolon = memchr(p, ';', (size_t) (end - p)), *type_end = semicolon ?: end;
        struct media m = { .preference = PREFERENCE_MAX };

        p = skip_blanks(p, type_end);
        m.open_metrics = is_word(p, type_end, "application/openmetrics-text");
        m.text = is_word(p, type_end, "text/plain") || is_word(p, type_end, "text/*") ||
                 is_word(p, type_end, "*/*");
        while (semicolon) {
                p = skip_blanks(semicolon + 1, end);
                semicolon = memchr(p, ';', (size_t) (end - p));
                read_parameter(&m, p, semicolon ?: end);
        }
        return m;
}

bool exposition_wants_open_metrics(const char *accept) {
        const char *p = accept, *comma;
        int open_metrics = 0, text = 0;

        while (p) {
                const char *end;
                struct media m;

                comma = strchr(p, ',');
                end = comma ?: p + strlen(p);
                m = read_media(p, end);
                if (m.open_metrics)
                        open_metrics = MAX(open_metrics, m.preference);
                if (m.text)
                        text = MAX(text, m.preference);
                p = comma ? comma + 1 : NULL;
        }
        return open_metrics > 0 && open_metrics >= text;
}

const char *exposition_type(bool open_metrics) {
        return open_metrics ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
                            : "text/plain; version=0.0.4; charset=utf-8";
}

#define BOUND_MAX 40 /* of the label of a bucket */

/* --- Writing ------------------------------------------------------------------------------------------- */

/* OpenMetrics knows three escapes everywhere; 0.0.4 leaves a quote in a help text alone. */
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

static const char *type_name(enum exposition_kind kind, bool open_metrics) {
        switch (kind) {
        case EXPOSITION_COUNTER:
                return "counter";
        case EXPOSITION_INFO:
                return open_metrics ? "info" : "gauge";
        case EXPOSITION_HISTOGRAM:
                return "histogram";
        case EXPOSITION_GAUGE:
                break;
        }
        return "gauge";
}

int exposition_begin(struct exposition *e, bool open_metrics) {
        *e = (struct exposition) { .open_metrics = open_metrics };
        e->f = open_memstream(&e->text, &e->len);
        return e->f ? 0 : -ENOMEM;
}

void exposition_family(struct exposition *e, const struct exposition_family *f) {
        const char *more = e->open_metrics ? "" : suffix(f->kind);

        e->family = *f;
        fprintf(e->f, "# HELP %s%s ", f->name, more);
        print_escaped(e->f, f->help, e->open_metrics);
        if (e->open_metrics && f->unit && f->unit[0])
                fprintf(e->f, "\n# UNIT %s %s", f->name, f->unit);
        fprintf(e->f, "\n# TYPE %s%s %s\n", f->name, more, type_name(f->kind, e->open_metrics));
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
 * The shortest text that reads as this number again, as Go's client prints bounds: OpenMetrics compares them
 * as texts. From a million on with an exponent, whole ones below with a point.
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
        bool failed;

        if (e->open_metrics)
                fputs("# EOF\n", e->f);
        failed = ferror(e->f) != 0;
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
