/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "steps.h"

/* What is left of the line. */
struct text {
        const char *p, *end;
};

static bool take_literal(struct text *t, const char *literal) {
        size_t n = strlen(literal);

        if ((size_t) (t->end - t->p) < n || memcmp(t->p, literal, n) != 0)
                return false;
        t->p += n;
        return true;
}

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

/* A number must end where a field ends: "12abc" is none. */
static bool at_field_end(const struct text *t) {
        return t->p == t->end || *t->p == ',' || *t->p == ' ' || *t->p == '\t' || *t->p == '\r' ||
               *t->p == '\n';
}

static bool take_step(struct text *t, uint64_t *ret) {
        uint64_t n = 0;
        const char *start = t->p;

        for (; t->p < t->end && is_digit(*t->p); t->p++) {
                n = n * 10 + (uint64_t) (*t->p - '0');
                if (n > STEP_MAX)
                        return false;
        }
        if (t->p == start || !at_field_end(t))
                return false;
        *ret = n;
        return true;
}

/* Digits, sign, point and exponent only: strtod() by itself would also take "nan", "inf" and hexadecimal. */
static bool take_decimal(struct text *t, double *ret) {
        char buf[32], *end;
        size_t n = 0;
        double d;

        while (t->p + n < t->end && n < sizeof(buf) - 1 &&
               (is_digit(t->p[n]) || (t->p[n] != '\0' && strchr("+-.eE", t->p[n])))) {
                buf[n] = t->p[n];
                n++;
        }
        buf[n] = '\0';
        t->p += n;
        if (n == 0 || !at_field_end(t))
                return false;
        d = strtod(buf, &end);
        if (*end != '\0' || !isfinite(d))
                return false;
        *ret = d;
        return true;
}

/* Moves to just behind the next ", ". */
static bool next_field(struct text *t) {
        const char *comma = memmem(t->p, (size_t) (t->end - t->p), ", ", 2);

        if (!comma)
                return false;
        t->p = comma + 2;
        return true;
}

static void optional_fields(struct text t, struct step_line *s) {
        const struct {
                const char *key;
                double *value;
        } fields[] = {
                { "TFLOP/s/device: ", &s->tflops },
                { "Tokens/s/device: ", &s->tokens_per_second },
                { "loss: ", &s->loss },
        };

        while (next_field(&t))
                for (size_t i = 0; i < ELEMENTSOF(fields); i++)
                        if (isnan(*fields[i].value) && take_literal(&t, fields[i].key)) {
                                (void) take_decimal(&t, fields[i].value); /* else it stays NAN */
                                break;
                        }
}

/* t stands just behind "completed step: ". */
static bool step_fields(struct text t, struct step_line *ret) {
        struct step_line s = { .tflops = NAN, .tokens_per_second = NAN, .loss = NAN };

        if (!take_step(&t, &s.step) || !take_literal(&t, ", seconds: ") || !take_decimal(&t, &s.seconds))
                return false;
        if (s.seconds < 0 || s.seconds > STEP_SECONDS_MAX)
                return false;
        optional_fields(t, &s);
        *ret = s;
        return true;
}

bool step_line_parse(const char *line, size_t len, struct step_line *ret) {
        static const char mark[] = "completed step: ";
        struct text t;

        if (len == 0) /* line may be NULL then */
                return false;
        t = (struct text) { line, line + MIN(len, (size_t) STEP_LINE_MAX) };
        /* A broken mention before the real one must not hide it. */
        while ((t.p = memmem(t.p, (size_t) (t.end - t.p), mark, sizeof(mark) - 1))) {
                t.p += sizeof(mark) - 1;
                if (step_fields(t, ret))
                        return true;
        }
        return false;
}

/* The number that ends a path in "`"; -1: none does. */
static int64_t last_number(const char *p, const char *end) {
        const char *tick = memchr(p, '`', (size_t) (end - p)), *close, *name;
        uint64_t step;

        close = tick ? memchr(tick + 1, '`', (size_t) (end - tick - 1)) : NULL;
        name = close ? memrchr(tick + 1, '/', (size_t) (close - tick - 1)) : NULL;
        if (!name)
                return -1;
        return take_step(&(struct text){ name + 1, close }, &step) ? (int64_t) step : -1;
}

bool checkpoint_line_parse(const char *line, size_t len, int64_t *ret_step) {
        static const char maxtext[] = "aved a checkpoint at step ", orbax[] = "Finished saving checkpoint (finalized tmp dir)";
        struct text t;
        uint64_t step;

        if (len == 0)
                return false;
        len = MIN(len, (size_t) STEP_LINE_MAX);
        t.end = line + len;
        t.p = memmem(line, len, maxtext, sizeof(maxtext) - 1);
        if (t.p) {
                t.p += sizeof(maxtext) - 1;
                while (t.end > t.p && (t.end[-1] == '.' || t.end[-1] == '\n')) /* of newer ones */
                        t.end--;
                *ret_step = take_step(&t, &step) ? (int64_t) step : -1;
                return true;
        }
        t.p = memmem(line, len, orbax, sizeof(orbax) - 1);
        if (t.p)
                *ret_step = last_number(t.p, t.end);
        return t.p;
}

void progress_step(struct progress *p, const struct step_line *s, usec_t now) {
        p->lines++;
        p->last_step = s->step;
        p->last_at = now;
        p->last = *s;
}
