/* SPDX-License-Identifier: Apache-2.0 */
/* Spec files: ini by the table of keys. */
#include <stdarg.h>

#include "config.h"
#include "run_spec.h"
#include "texts.h"

struct reading {
        Run__Spec *spec;
        const char *path;
        bool given[RUN_KEYS_MAX]; /* what was there before the file: never replaced */
        int error;
        char *why;
};

_printf_(3, 4) static int refuse_line(struct reading *r, unsigned line, const char *fmt, ...) {
        char text[RUN_WHY_MAX - 80];
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(text, sizeof(text), fmt, ap);
        va_end(ap);
        return text_fail(r->why, RUN_WHY_MAX, -EINVAL, "%.60s:%u: %s", r->path, line, text);
}

/* Words as a shell has them, without its substitutions. -EBADMSG: a quote is not closed. */
static int add_command(const struct run_key *argv, Run__Spec *s, const char *value) {
        char word[CONFIG_LINE_MAX + 1];
        int r = 0;

        while (r == 0 && *(value += strspn(value, " \t"))) {
                char quote = '\0';
                size_t n = 0;

                for (; *value && (quote || (*value != ' ' && *value != '\t')); value++) {
                        if (quote ? *value == quote : *value == '"' || *value == '\'')
                                quote = quote ? '\0' : *value;
                        else
                                word[n++] = *value;
                }
                word[n] = '\0';
                r = quote ? -EBADMSG : run_key_append(argv, s, word);
        }
        return r;
}

static int take_words(struct reading *r, unsigned line, const char *key, const char *value) {
        const struct run_key *argv = run_key_find("argv");
        int k;

        if (r->given[argv - run_key_at(0)])
                return 0;
        k = streq(key, "Command") ? add_command(argv, r->spec, value) : run_key_append(argv, r->spec, value);
        if (k == -EBADMSG)
                return refuse_line(r, line, "a quote is not closed");
        return k;
}

static int take_key(struct reading *r, unsigned line, const char *key, const char *value) {
        char name[RUN_KEY_TEXT_MAX], why[RUN_WHY_MAX];

        if (streq(key, "Command") || streq(key, "Argument"))
                return take_words(r, line, key, value);
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *k = run_key_at(i);
                int x;

                if (!run_key_ini(k, name) || !streq(name, key))
                        continue;
                if (r->given[i])
                        return 0;
                x = run_key_parse(k, r->spec, value, why);
                return x == -EINVAL ? refuse_line(r, line, "%.200s", why) : x;
        }
        return refuse_line(r, line, "there is no key %.40s=", key);
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key,
                     const char *value) {
        struct reading *r = userdata;

        if (r->error < 0)
                return;
        if (!streq(section, "Run"))
                r->error = refuse_line(r, line, "section [%.40s]: there is only [Run]", section);
        else
                r->error = take_key(r, line, key, value);
}

static void on_problem(void *userdata, unsigned line, const char *text) {
        struct reading *r = userdata;

        if (r->error == 0)
                r->error = refuse_line(r, line, "%.120s", text);
}

/* The n first variables come last. */
static void turn(char **list, size_t n, size_t all) {
        for (size_t i = 0; i < n; i++) {
                char *first = list[0];

                memmove(list, list + 1, (all - 1) * sizeof(*list));
                list[all - 1] = first;
        }
}

int run_spec_parse_file(Run__Spec *s, const char *path, const char *text, size_t len,
                        char why[static RUN_WHY_MAX]) {
        struct reading r = { .spec = s, .path = path, .why = why };
        const struct config_reader reader = { .entry = on_entry, .problem = on_problem, .userdata = &r };
        size_t own = s->n_env;
        int k;

        for (size_t i = 0; i < run_keys_count(); i++)
                r.given[i] = run_key_at(i)->kind != RUN_KEY_VARIABLES && run_key_given(run_key_at(i), s);
        k = config_read_text(&reader, text, len);
        if (r.error == 0 && k < 0)
                r.error = k;
        if (r.error < 0 && r.error != -EINVAL)
                (void) snprintf(why, RUN_WHY_MAX, "%.100s: %s", path, strerror(-r.error));
        turn(s->env, own, s->n_env);
        return r.error;
}
