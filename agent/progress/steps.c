/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "steps.h"

#include <math.h>
#include <regex.h>

#include "texts.h"

/* --- MaxText's lines ----------------------------------------------------------------------------------- */

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

/* --- Lines in words of other programs ------------------------------------------------------------------ */

#define LOOKED_AT 1024u /* bytes; the longest of these lines, Megatron's, has below 600 */
#define NUMBER_MAX 31u

/* The line in lower case. */
struct lowered {
        char line[LOOKED_AT];
        size_t len;
};

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || c == '_';
}

static const char *find(const struct lowered *t, const char *word) {
        return memmem(t->line, t->len, word, strlen(word));
}

/* Where a word begins that stands alone, behind from; NULL: nowhere. */
static const char *find_word(const struct lowered *t, const char *from, const char *word) {
        const char *end = t->line + t->len, *p = from;
        size_t n = strlen(word);

        while ((p = memmem(p, (size_t) (end - p), word, n))) {
                if ((p == t->line || !(is_letter(p[-1]) || is_digit(p[-1]))) &&
                    (p + n == end || !is_letter(p[n])))
                        return p;
                p += n;
        }
        return NULL;
}

/* What may stand between a name and its number. */
static const char *skip_gap(const struct lowered *t, const char *p) {
        const char *end = t->line + t->len;

        while (p < end && *p != '\0' && strchr(" \t:=#[(|", *p))
                p++;
        return p;
}

/* Digits; a ',' between them parts thousands. */
static bool take_whole(const struct lowered *t, const char *p, uint64_t *ret) {
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
static double number_behind(const struct lowered *t, const char *name, const char **ret_rest) {
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

static double seconds_of(const struct lowered *t) {
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
static bool take_bracket(const struct lowered *t, uint64_t *ret) {
        const char *p = find(t, "epoch: [");

        p = p ? memchr(p + 8, '[', (size_t) (t->line + t->len - p - 8)) : NULL;
        return p && take_whole(t, skip_gap(t, p), ret);
}

static bool take_named_step(const struct lowered *t, uint64_t *ret) {
        static const char *const names[] = { "step", "iteration", "iter", "global_step" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                for (const char *p = t->line; (p = find_word(t, p, names[i])); p += strlen(names[i]))
                        if (take_whole(t, skip_gap(t, p + strlen(names[i])), ret))
                                return true;
        return take_bracket(t, ret);
}

static bool is_of_something_else(const struct lowered *t) {
        static const char *const words[] = {"eval",  "valid", "checkpoint", "ckpt",
                                            "resum", "sav",   "load",       "test"};

        for (size_t i = 0; i < ELEMENTSOF(words); i++)
                if (find(t, words[i]))
                        return true;
        return false;
}

static bool torch_line_parse(const char *line, size_t len, struct step_line *ret) {
        struct step_line s = { .loss = NAN };
        struct lowered t;

        t.len = MIN(len, (size_t) LOOKED_AT);
        /* most lines tell no loss */
        if (t.len == 0 || !(memmem(line, t.len, "oss", 3) || memmem(line, t.len, "OSS", 3)))
                return false;
        for (size_t i = 0; i < t.len; i++)
                t.line[i] = line[i] >= 'A' && line[i] <= 'Z' ? (char) (line[i] | 0x20) : line[i];
        if (!find(&t, "loss") || is_of_something_else(&t) || !take_named_step(&t, &s.step))
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

/* --- Expressions --------------------------------------------------------------------------------------- */

struct step_expression {
        regex_t regex;
};

static bool repeats_too_often(const char *p) {
        while (*p == ',' || (*p >= '0' && *p <= '9'))
                if (*p++ == ',')
                        continue;
                else if (strtoul(p - 1, NULL, 10) > STEP_EXPRESSION_REPEAT_MAX)
                        return true;
        return false;
}

/* Behind '[' to behind its ']'. */
static const char *behind_set(const char *p) {
        p += *p == '^';
        p += *p == ']';
        while (*p && *p != ']') {
                const char *end = *p == '[' && p[1] && strchr(":.=", p[1]) ? strchr(p + 2, ']') : NULL;

                p = end ? end + 1 : p + 1;
        }
        return *p ? p + 1 : p;
}

/* How many copies of the atom before it the operator at p makes; 1: it is none. */
static unsigned long copies_of(const char *p) {
        unsigned long least, most;
        char *end;

        if (*p == '+')
                return 2;
        if (*p != '{')
                return 1;
        least = strtoul(p + 1, &end, 10);
        most = *end == ',' ? strtoul(end + 1, NULL, 10) : least;
        return MIN(MAX(MAX(least + 1, most), 1UL), (unsigned long) STEP_EXPRESSION_SIZE_MAX);
}

/*
 * Whether regcomp() would make too much of it: it copies what is repeated, and what was copied already
 * again, so that 40 bytes can ask for all memory there is.
 */
static bool grows_too_large(const char *text) {
        unsigned long sums[STEP_EXPRESSION_MAX + 2] = { 0 }, atom = 0;
        size_t depth = 0;

        assert(strlen(text) <= STEP_EXPRESSION_MAX);
        for (const char *p = text; *p;) {
                unsigned long copies = copies_of(p);

                if (copies > 1) { /* of the atom, which is in the sum once */
                        sums[depth] += atom * (copies - 1);
                        atom *= copies;
                        p++;
                } else if (*p == '(') {
                        sums[++depth] = atom = 0;
                        p++;
                } else if (*p == ')' && depth > 0) {
                        atom = sums[depth--] + 1;
                        sums[depth] += atom;
                        p++;
                } else if (*p == '*' || *p == '?')
                        p++;
                else {
                        atom = 1;
                        sums[depth] += atom;
                        p = *p == '[' ? behind_set(p + 1) : p + 1 + (*p == '\\' && p[1]);
                }
                if (sums[depth] > STEP_EXPRESSION_SIZE_MAX)
                        return true;
        }
        return false;
}

/* What is refused although it is an expression; NULL: nothing. */
static const char *refused(const char *text) {
        unsigned repeats = 0;

        for (const char *p = text; *p; p++) {
                if (*p == '\\' && p[1] >= '0' && p[1] <= '9')
                        return "it refers back to a group (\\1), which takes too long";
                if (*p == '\\' && p[1])
                        p++;
                else if (*p == '{' && (repeats++ > 3 || repeats_too_often(p + 1)))
                        return "it repeats ({N,M}) more than 100 times, or in more than four places";
        }
        return grows_too_large(text) ? "it repeats what is repeated, which takes too much memory" : NULL;
}

int step_expression_new(const char *text, char *why, size_t why_size, struct step_expression **ret) {
        struct step_expression *e;
        const char *no = strlen(text) > STEP_EXPRESSION_MAX ? "it is longer than 255 bytes" : refused(text);
        int r;

        if (no)
                return text_fail(why, why_size, -EINVAL, "%s", no);
        e = calloc(1, sizeof(*e));
        if (!e)
                return -ENOMEM;
        r = regcomp(&e->regex, text, REG_EXTENDED);
        if (r != 0)
                (void) regerror(r, &e->regex, why, why_size);
        else if (e->regex.re_nsub >= 1) {
                *ret = e;
                return 0;
        } else {
                (void) snprintf(why, why_size,
                                "it has no group for the step's number, as in \"step ([0-9]+)\"");
                regfree(&e->regex);
        }
        free(e);
        return r == REG_ESPACE ? -ENOMEM : -EINVAL;
}

struct step_expression *step_expression_free(struct step_expression *e) {
        if (!e)
                return NULL;
        regfree(&e->regex);
        free(e);
        return NULL;
}

static bool take_number(const char *p, const char *end, uint64_t *ret) {
        uint64_t n = 0;

        if (p == end)
                return false;
        for (; p < end; p++) {
                if (*p == ',')
                        continue;
                if (*p < '0' || *p > '9')
                        return false;
                n = n * 10 + (uint64_t) (*p - '0');
                if (n > STEP_MAX)
                        return false;
        }
        *ret = n;
        return true;
}

/* As step_line_parse(); all but the step is NAN. A line whose group is no number is no step line. */
static bool step_expression_parse(const struct step_expression *e, const char *line, size_t len,
                                  struct step_line *ret) {
        char text[STEP_EXPRESSION_LINE_MAX + 1];
        regmatch_t found[2];
        uint64_t step;

        len = MIN(len, (size_t) STEP_EXPRESSION_LINE_MAX);
        for (size_t i = 0; i < len; i++)
                text[i] = line[i] ? line[i] : ' ';
        text[len] = '\0';
        if (regexec(&e->regex, text, ELEMENTSOF(found), found, 0) != 0 || found[1].rm_so < 0 ||
            !take_number(text + found[1].rm_so, text + found[1].rm_eo, &step))
                return false;
        *ret = (struct step_line){
                .step = step, .seconds = NAN, .tflops = NAN, .tokens_per_second = NAN, .loss = NAN
        };
        return true;
}

bool step_of_line(const struct step_expression *e, const char *line, size_t len, struct step_line *ret) {
        if (e)
                return step_expression_parse(e, line, len, ret);
        return step_line_parse(line, len, ret) || torch_line_parse(line, len, ret);
}
