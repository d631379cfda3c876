/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <sys/ioctl.h>

#include "report.h"
#include "json_text.h"
#include "utf8.h"

static const struct {
        const char *key;
        size_t at, size;
} texts[] = {
#define TEXT(member) { #member, offsetof(struct finding, member), sizeof(((struct finding *) NULL)->member) }
        TEXT(check),  TEXT(subject), TEXT(found),  TEXT(wanted),
        TEXT(source), TEXT(reason),  TEXT(remedy),
#undef TEXT
};

json_t *finding_to_json(const struct finding *f) {
        json_t *o = json_pack("{s:s}", "verdict", verdict_name(f->verdict));

        for (size_t i = 0; o && i < ELEMENTSOF(texts); i++)
                o = json_member_add(o, texts[i].key, json_string((const char *) f + texts[i].at));
        return o;
}

int finding_from_json(const json_t *o, struct finding *ret) {
        const char *verdict = json_string_value(json_object_get(o, "verdict"));

        finding_init(ret, "", "");
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                const char *text = json_string_value(json_object_get(o, texts[i].key));

                finding_format((char *) ret + texts[i].at, texts[i].size, "%s", text ? text : "");
                (void) utf8_scrub((char *) ret + texts[i].at, strlen((char *) ret + texts[i].at));
        }
        return !verdict || verdict_parse(verdict, &ret->verdict) < 0 ? -EBADMSG : 0;
}

json_t *finding_list_to_json(const struct finding_list *l) {
        json_t *array = json_array();

        for (size_t i = 0; i < l->n; i++)
                array = json_list_add(array, finding_to_json(&l->items[i]));
        return array;
}

int report_print_json(FILE *out, json_t *v) {
        int r;

        if (!v)
                return -ENOMEM;
        r = json_dumpf(v, out, JSON_INDENT(2) | JSON_SORT_KEYS);
        json_decref(v);
        return r < 0 || fputc('\n', out) == EOF || fflush(out) == EOF ? -EIO : 0;
}

#define FOUND_COLUMN_MAX 48 /* one long value must not push every other column off the screen */

struct columns {
        int check, subject, found;
        size_t width; /* of the terminal, where the columns do not fit into it; else 0 */
        bool colour;
};

size_t report_width(FILE *out) {
        struct winsize size;

        return isatty(fileno(out)) && ioctl(fileno(out), TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

static bool says_wanted(const struct finding *f) {
        return f->wanted[0] && (f->verdict != VERDICT_OK || !streq(f->found, f->wanted));
}

#define VERDICT_COLUMN 9 /* with the blanks behind it */

/* Whether a row of these columns is wider than the terminal. */
static bool is_too_wide(const struct finding *f, const struct columns *c, size_t width) {
        size_t found = utf8_width(f->found),
               used = VERDICT_COLUMN + (size_t) c->check + 2 + (size_t) c->subject + 2;

        if (says_wanted(f))
                found = MAX(found, (size_t) c->found) + strlen("  wanted ") + utf8_width(f->wanted);
        return used + found > width || VERDICT_COLUMN + utf8_width(f->reason) > width ||
               VERDICT_COLUMN + strlen("source: ") + utf8_width(f->source) > width;
}

static void fit(const struct finding_list *l, struct columns *c, FILE *out) {
        size_t width = report_width(out);

        for (size_t i = 0; i < l->n && width > 0 && c->width == 0; i++)
                if (is_too_wide(&l->items[i], c, width))
                        c->width = width;
}

static void measure(const struct finding_list *l, struct columns *c) {
        for (size_t i = 0; i < l->n; i++) {
                c->check = MAX(c->check, (int) utf8_width(l->items[i].check));
                c->subject = MAX(c->subject, (int) utf8_width(l->items[i].subject));
                c->found = MAX(c->found, MIN((int) utf8_width(l->items[i].found), FOUND_COLUMN_MAX));
        }
}

bool report_in_colour(FILE *out) {
        const char *no = getenv("NO_COLOR"); /* https://no-color.org */

        return isatty(fileno(out)) && !(no && *no);
}

const char *report_colour(enum verdict v) {
        switch (v) {
        case VERDICT_OK:
                return "\033[32m";
        case VERDICT_WARN:
                return "\033[33m";
        case VERDICT_FAIL:
                return "\033[1;31m";
        case VERDICT_UNKNOWN:
        case _VERDICT_MAX:
                break;
        }
        return "\033[35m";
}

static void print_padded(FILE *out, const char *s, int width) {
        fprintf(out, "%s%*s", s, MAX(0, width - (int) utf8_width(s)), "");
}

/* Words behind what stands in at columns of the line; further lines begin at indent. Returns where the line
 * ends. A word that is wider than the terminal is left to it. */
static size_t print_words(FILE *out, size_t at, size_t indent, size_t width, const char *text) {
        while (*text) {
                size_t n = strcspn(text, " ");
                _cleanup_free_ char *word = strndup(text, n);
                size_t w = word ? utf8_width(word) : 0;

                if (width > 0 && at > indent && at + 1 + w > width) {
                        fprintf(out, "\n%*s", (int) indent, "");
                        at = indent;
                } else if (at > indent) {
                        fputc(' ', out);
                        at++;
                }
                fputs(word ? word : "", out);
                at += w;
                text += n + strspn(text + n, " ");
        }
        return at;
}

/* Where there is no room for columns. */
static void print_narrow(FILE *out, const struct columns *c, const struct finding *f) {
        size_t indent = VERDICT_COLUMN + (size_t) c->check + 2, at = indent;
        char subject[sizeof(f->subject) + 1];

        (void) snprintf(subject, sizeof(subject), "%s%s", f->subject, f->subject[0] ? ":" : "");
        at = print_words(out, at, indent, c->width, subject);
        at = print_words(out, at, indent, c->width, f->found[0] || !says_wanted(f) ? f->found : "-");
        if (says_wanted(f)) {
                at = print_words(out, at, indent, c->width, "(wanted");
                (void) print_words(out, at, indent, c->width - 1, f->wanted);
                fputc(')', out);
        }
}

static void print_wide(FILE *out, const struct columns *c, const struct finding *f) {
        print_padded(out, f->subject, c->subject);
        fputs("  ", out);
        if (says_wanted(f)) {
                print_padded(out, f->found[0] ? f->found : "-", c->found);
                fprintf(out, "  wanted %s", f->wanted);
        } else
                fputs(f->found, out);
}

static void print_below(FILE *out, const struct columns *c, const char *title, const char *text) {
        fprintf(out, "%*s%s", VERDICT_COLUMN, "", title);
        if (c->width > 0)
                (void) print_words(out, VERDICT_COLUMN + strlen(title), VERDICT_COLUMN + strlen(title),
                                   c->width, text);
        else
                fputs(text, out);
        fputc('\n', out);
}

static void print_finding(FILE *out, const struct columns *c, const struct finding *f) {
        fprintf(out, "%s%-7s%s  ", c->colour ? report_colour(f->verdict) : "", verdict_name(f->verdict),
                c->colour ? "\033[0m" : "");
        print_padded(out, f->check, c->check);
        fputs("  ", out);
        (c->width > 0 ? print_narrow : print_wide)(out, c, f);
        fputc('\n', out);
        if (f->verdict == VERDICT_OK)
                return;
        if (f->reason[0])
                print_below(out, c, "", f->reason);
        if (f->source[0] && f->wanted[0])
                print_below(out, c, "source: ", f->source);
        if (f->remedy[0])
                fprintf(out, "         to do:  %s\n", f->remedy);
}

static void print_list(FILE *out, const struct columns *c, const struct finding_list *l) {
        static const enum verdict order[] = { VERDICT_FAIL, VERDICT_WARN, VERDICT_UNKNOWN, VERDICT_OK };

        for (size_t k = 0; k < ELEMENTSOF(order); k++)
                for (size_t i = 0; i < l->n; i++)
                        if (l->items[i].verdict == order[k])
                                print_finding(out, c, &l->items[i]);
}

int report_print_text(FILE *out, const struct finding_list *l) {
        struct columns c = { .colour = report_in_colour(out) };

        measure(l, &c);
        fit(l, &c, out);
        print_list(out, &c, l);
        return fflush(out) == EOF ? -EIO : 0;
}

int report_print_groups(FILE *out, const struct report_group *groups, size_t n) {
        struct columns c = { .colour = report_in_colour(out) };
        bool printed[REPORT_GROUPS_MAX] = { false }, first = true;

        assert(n <= REPORT_GROUPS_MAX);
        for (size_t i = 0; i < n; i++)
                measure(groups[i].list, &c);
        for (size_t i = 0; i < n; i++)
                fit(groups[i].list, &c, out);
        for (;;) {
                const struct report_group *next = NULL;

                /* Of equally grave ones, the first: the order given is the reader's habit. */
                for (size_t i = 0; i < n; i++)
                        if (!printed[i] && groups[i].list->n > 0 &&
                            (!next || verdict_worse(finding_list_worst(next->list),
                                                    finding_list_worst(groups[i].list)) !=
                                              finding_list_worst(next->list)))
                                next = &groups[i];
                if (!next)
                        break;
                printed[next - groups] = true;
                fprintf(out, "%s%s%s%s\n", first ? "" : "\n", c.colour ? "\033[1m" : "", next->title,
                        c.colour ? "\033[0m" : "");
                print_list(out, &c, next->list);
                first = false;
        }
        return fflush(out) == EOF ? -EIO : 0;
}
