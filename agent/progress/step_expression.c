/* SPDX-License-Identifier: Apache-2.0 */
#include "step_expression.h"

#include <math.h>
#include <regex.h>

#include "steps_torch.h"

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
        return NULL;
}

int step_expression_new(const char *text, char *why, size_t why_size, struct step_expression **ret) {
        struct step_expression *e;
        const char *no = strlen(text) > STEP_EXPRESSION_MAX ? "it is longer than 255 bytes" : refused(text);
        int r;

        if (no) {
                (void) snprintf(why, why_size, "%s", no);
                return -EINVAL;
        }
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
                (void) snprintf(why, why_size, "it has no group for the step's number, as in \"step ([0-9]+)\"");
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
static bool step_expression_parse(const struct step_expression *e, const char *line, size_t len, struct step_line *ret) {
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
        *ret = (struct step_line){ .step = step, .seconds = NAN, .tflops = NAN, .tokens_per_second = NAN, .loss = NAN };
        return true;
}

bool step_of_line(const struct step_expression *e, const char *line, size_t len, struct step_line *ret) {
        if (e)
                return step_expression_parse(e, line, len, ret);
        return step_line_parse(line, len, ret) || torch_line_parse(line, len, ret);
}
