/* SPDX-License-Identifier: Apache-2.0 */
#include "steps_torch.h"

#include <math.h>

#define LOOKED_AT 1024u /* bytes; the longest of these lines, Megatron's, has below 600 */
#define NUMBER_MAX 31u

/* The line in lower case. */
struct text {
        char line[LOOKED_AT];
        size_t len;
};

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || c == '_';
}

static const char *find(const struct text *t, const char *word) {
        return memmem(t->line, t->len, word, strlen(word));
}

/* Where a word begins that stands alone, behind from; NULL: nowhere. */
static const char *find_word(const struct text *t, const char *from, const char *word) {
        const char *end = t->line + t->len, *p = from;
        size_t n = strlen(word);

        while ((p = memmem(p, (size_t) (end - p), word, n))) {
                if ((p == t->line || !(is_letter(p[-1]) || is_digit(p[-1]))) && (p + n == end || !is_letter(p[n])))
                        return p;
                p += n;
        }
        return NULL;
}

/* What may stand between a name and its number. */
static const char *skip_gap(const struct text *t, const char *p) {
        const char *end = t->line + t->len;

        while (p < end && *p != '\0' && strchr(" \t:=#[(|", *p))
                p++;
        return p;
}

/* Digits; a ',' between them parts thousands. */
static bool take_whole(const struct text *t, const char *p, uint64_t *ret) {
        const char *end = t->line + t->len, *start = p;
        uint64_t n = 0;

        for (; p < end && (is_digit(*p) || (*p == ',' && p > start && p + 1 < end && is_digit(p[1]))); p++) {
                if (*p == ',')
                        continue;
                n = n * 10 + (uint64_t) (*p - '0');
                if (n > STEP_MAX)
                        return false;
        }
        if (p == start || (p < end && (is_letter(*p) || *p == '.' || *p == '%')))
                return false;
        *ret = n;
        return true;
}

/* A number behind name, with what follows it; NAN: none. */
static double number_behind(const struct text *t, const char *name, const char **ret_rest) {
        const char *p = find_word(t, t->line, name), *end = t->line + t->len;
        char buf[NUMBER_MAX + 1], *stop;
        size_t n = 0;
        double d;

        if (!p)
                return NAN;
        for (p = skip_gap(t, p + strlen(name)); p < end && n < NUMBER_MAX; p++)
                if (is_digit(*p) || (*p != '\0' && strchr("+-.", *p)) ||
                    (*p == 'e' && n > 0 && p + 1 < end && (is_digit(p[1]) || p[1] == '+' || p[1] == '-')))
                        buf[n++] = *p;
                else if (*p != ',' || p + 1 >= end || !is_digit(p[1]))
                        break;
        buf[n] = '\0';
        if (n == 0)
                return NAN;
        d = strtod(buf, &stop);
        if (ret_rest)
                *ret_rest = p;
        return *stop == '\0' && isfinite(d) ? d : NAN;
}

static double seconds_of(const struct text *t) {
        const char *rest = NULL, *end = t->line + t->len;
        double s = number_behind(t, "elapsed time per iteration (ms)", NULL) / 1e3;

        if (isnan(s)) {
                s = number_behind(t, "time", &rest);
                if (rest && end - rest >= 2 && memcmp(rest, "ms", 2) == 0)
                        s /= 1e3;
        }
        return s >= 0 && s <= STEP_SECONDS_MAX ? s : NAN;
}

/* "epoch: [0][ 10/5005]": the second bracket. */
static bool take_bracket(const struct text *t, uint64_t *ret) {
        const char *p = find(t, "epoch: [");

        p = p ? memchr(p + 8, '[', (size_t) (t->line + t->len - p - 8)) : NULL;
        return p && take_whole(t, skip_gap(t, p), ret);
}

static bool take_step(const struct text *t, uint64_t *ret) {
        static const char *const names[] = { "step", "iteration", "iter", "global_step" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (const char *p = t->line; (p = find_word(t, p, names[i])); p += strlen(names[i]))
                        if (take_whole(t, skip_gap(t, p + strlen(names[i])), ret))
                                return true;
        return take_bracket(t, ret);
}

static bool is_of_something_else(const struct text *t) {
        static const char *const words[] = { "eval", "valid", "checkpoint", "ckpt", "resum", "sav", "load", "test" };

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (find(t, words[i]))
                        return true;
        return false;
}

bool torch_line_parse(const char *line, size_t len, struct step_line *ret) {
        struct step_line s = { .loss = NAN };
        struct text t;

        t.len = MIN(len, (size_t) LOOKED_AT);
        if (t.len == 0 || !(memmem(line, t.len, "oss", 3) || memmem(line, t.len, "OSS", 3))) /* most lines tell no loss */
                return false;
        for (size_t i = 0; i < t.len; i++)
                t.line[i] = line[i] >= 'A' && line[i] <= 'Z' ? (char) (line[i] | 0x20) : line[i];
        if (!find(&t, "loss") || is_of_something_else(&t) || !take_step(&t, &s.step))
                return false;
        s.seconds = seconds_of(&t);
        s.tflops = number_behind(&t, "throughput per gpu (tflop/s/gpu)", NULL);
        if (isnan(s.tflops))
                s.tflops = number_behind(&t, "tflops", NULL);
        s.tokens_per_second = number_behind(&t, "tps", NULL);
        s.loss = number_behind(&t, "loss", NULL);
        *ret = s;
        return true;
}
