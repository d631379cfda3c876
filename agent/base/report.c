/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

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

        for (size_t i = 0; array && i < l->n; i++)
                if (json_array_append_new(array, finding_to_json(&l->items[i])) < 0) {
                        json_decref(array);
                        return NULL;
                }
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
        bool colour;
};

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

static void print_finding(FILE *out, const struct columns *c, const struct finding *f) {
        fprintf(out, "%s%-7s%s  ", c->colour ? report_colour(f->verdict) : "", verdict_name(f->verdict),
                c->colour ? "\033[0m" : "");
        print_padded(out, f->check, c->check);
        fputs("  ", out);
        print_padded(out, f->subject, c->subject);
        fputs("  ", out);
        if (f->wanted[0] && (f->verdict != VERDICT_OK || !streq(f->found, f->wanted))) {
                print_padded(out, f->found[0] ? f->found : "-", c->found);
                fprintf(out, "  wanted %s", f->wanted);
        } else
                fputs(f->found, out);
        fputc('\n', out);
        if (f->verdict == VERDICT_OK)
                return;
        if (f->reason[0])
                fprintf(out, "         %s\n", f->reason);
        if (f->source[0] && f->wanted[0])
                fprintf(out, "         source: %s\n", f->source);
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
        print_list(out, &c, l);
        return fflush(out) == EOF ? -EIO : 0;
}

int report_print_groups(FILE *out, const struct report_group *groups, size_t n) {
        struct columns c = { .colour = report_in_colour(out) };
        bool printed[REPORT_GROUPS_MAX] = { false }, first = true;

        assert(n <= REPORT_GROUPS_MAX);
        for (size_t i = 0; i < n; i++)
                measure(groups[i].list, &c);
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
