/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <stdarg.h>

#include "known_names.h"

static void print_row(const char *name, const char *argument, const char *help) {
        char left[64];

        (void) snprintf(left, sizeof(left), "--%s%s%s", name, argument ? " " : "", argument ? argument : "");
        printf("  %-26s %s\n", left, help);
}

static void print_help(const struct options *o) {
        printf("Usage: %s%s%s\n\n%s\n\nOptions:\n", o->program, o->synopsis[0] ? " " : "", o->synopsis,
               o->summary);
        for (size_t i = 0; i < o->n_defs; i++)
                print_row(o->defs[i].name, o->defs[i].argument, o->defs[i].help);
        print_row("root", "DIR", "look at the machine below DIR instead of /");
        print_row("config", "FILE", "read FILE instead of the configuration directories");
        print_row("help", NULL, "show this text (also: -h, help)");
        print_row("version", NULL, "show the version (also: -V)");
}

static int usage_error(const struct options *o, const char *what, const char *word) {
        return options_fail(o->program, -EINVAL, "%s '%s'\nTry '%s --help'.", what, word, o->program);
}

static int unknown_option(const struct options *o, const char *word) {
        static const char *const shared[] = { "--root", "--config", "--help", "--version" };
        struct known_names k = known_names(word);
        char *value = strchr(k.wanted, '='), name[KNOWN_NAME_MAX], buf[KNOWN_TEXT_MAX];

        if (value)
                *value = '\0';
        for (size_t i = 0; i < o->n_defs; i++) {
                (void) snprintf(name, sizeof(name), "--%s", o->defs[i].name);
                known_names_add(&k, name);
        }
        for (size_t i = 0; i < ELEMENTSOF(shared); i++)
                known_names_add(&k, shared[i]);
        return options_fail(o->program, -EINVAL, "unknown option '%s'%s\nTry '%s --help'.", word,
                            known_names_meant(&k, buf), o->program);
}

/* Whether word is "--NAME" or "--NAME=VALUE"; *ret_value points behind '=' or is NULL. */
static bool matches_option(const char *word, const char *name, const char **ret_value) {
        size_t n = strlen(name);

        if (strncmp(word + 2, name, n) != 0 || (word[2 + n] != '\0' && word[2 + n] != '='))
                return false;
        *ret_value = word[2 + n] == '=' ? word + 2 + n + 1 : NULL;
        return true;
}

/* Takes the value of an option at argv[*i]: behind '=', or the next word. */
static int take_value(const struct options *o, int argc, char *argv[], int *i, const char *inline_value,
                      const char **dest) {
        if (inline_value) {
                *dest = inline_value;
                return 0;
        }
        if (*i + 1 >= argc)
                return usage_error(o, "a value is missing after", argv[*i]);
        *dest = argv[++*i];
        return 0;
}

/* --help and --version, as words or as letters. */
static int take_flag(const struct options *o, const char *word) {
        if (streq(word, "--help") || streq(word, "-h")) {
                print_help(o);
                return -ECANCELED;
        }
        if (streq(word, "--version") || streq(word, "-V")) {
                printf("%s %s\n", o->program, TPU_HOSTD_VERSION);
                return -ECANCELED;
        }
        return unknown_option(o, word);
}

static int take_shared(struct options *o, int argc, char *argv[], int *i) {
        const char *value;

        if (matches_option(argv[*i], "root", &value))
                return take_value(o, argc, argv, i, value, &o->root);
        if (matches_option(argv[*i], "config", &value))
                return take_value(o, argc, argv, i, value, &o->config);
        return take_flag(o, argv[*i]);
}

static int take_option(struct options *o, int argc, char *argv[], int *i) {
        for (size_t k = 0; k < o->n_defs; k++) {
                const struct option_def *d = &o->defs[k];
                const char *value;

                if (!matches_option(argv[*i], d->name, &value))
                        continue;
                if (d->argument)
                        return take_value(o, argc, argv, i, value, d->value);
                if (value)
                        return usage_error(o, "no value is taken by", argv[*i]);
                *d->flag = true;
                return 0;
        }
        return take_shared(o, argc, argv, i);
}

int options_parse(struct options *o, int argc, char *argv[]) {
        int i;

        if (argc == 2 && streq(argv[1], "help") && !o->further)
                return take_flag(o, "--help");
        for (i = 1; i < argc && argv[i][0] == '-' && argv[i][1] != '\0'; i++) {
                int r;

                if (streq(argv[i], "--"))
                        return i + 1;
                r = argv[i][1] == '-' ? take_option(o, argc, argv, &i) : take_flag(o, argv[i]);
                if (r < 0)
                        return r;
        }
        return i;
}

int options_fail(const char *program, int code, const char *fmt, ...) {
        va_list ap;

        fprintf(stderr, "%s: ", program);
        va_start(ap, fmt);
        (void) vfprintf(stderr, fmt, ap);
        va_end(ap);
        fputc('\n', stderr);
        return code;
}

int options_exit(int r) {
        return r == -ECANCELED ? 0 : EXIT_USAGE;
}
