/* SPDX-License-Identifier: Apache-2.0 */
#include "verb_words.h"

#include <assert.h>
#include <signal.h>
#include <stdarg.h>

#include "run_key.h"

int words_misuse(const struct options *o, const char *text, const char *word) {
        return options_fail(o->program, -EINVAL, "%s%s%s%s\nTry '%s --help'.", text, word ? " '" : "",
                            word ? word : "", word ? "'" : "", o->program);
}

static int keep_word(struct words *w, const char *word) {
        if (w->n == WORDS_MAX)
                return -E2BIG;
        w->items[w->n++] = word;
        return 0;
}

int words_parse(const struct ctl *c, struct options *o, int argc, char *argv[], size_t min, size_t max,
                struct words *ret) {
        int at = 0; /* options_parse() passes over argv[at]: the verb, or the word before */
        int r = 0;

        assert(min <= max && max <= WORDS_MAX);
        o->root = c->root;
        o->config = c->config;
        ret->n = 0;
        while (r == 0 && at < argc) {
                int i = options_parse(o, argc - at, argv + at);
                bool only_words;

                if (i < 0)
                        return i;
                only_words = i > 1 && streq(argv[at + i - 1], "--");
                at += i;
                o->further = true;
                if (at < argc)
                        r = keep_word(ret, argv[at]);
                while (only_words && r == 0 && ++at < argc)
                        r = keep_word(ret, argv[at]);
        }
        if (r < 0)
                return words_misuse(o, "too many words", NULL);
        if (ret->n > max)
                return words_misuse(o, "one word too many:", ret->items[max]);
        return ret->n < min ? words_misuse(o, "a word is missing; usage:", o->synopsis) : 0;
}

static bool takes_value(const struct options *o, const char *word) {
        if (streq(word, "--root") || streq(word, "--config"))
                return true;
        for (size_t i = 0; i < o->n_defs; i++)
                if (o->defs[i].argument && streq(word + 2, o->defs[i].name))
                        return true;
        return false;
}

int words_first(const struct options *o, int argc, char *argv[]) {
        int i = 1;

        while (i < argc && argv[i][0] == '-')
                i += startswith(argv[i], "--") && takes_value(o, argv[i]) ? 2 : 1;
        return MIN(i, argc);
}

void words_spell_out(const struct options *o, char letter, char *spelled, int argc, char *argv[]) {
        for (int i = 1; i < argc && argv[i][0] == '-' && !streq(argv[i], "--"); i++) {
                if (argv[i][1] == letter && argv[i][2] == '\0')
                        argv[i] = spelled;
                if (startswith(argv[i], "--") && takes_value(o, argv[i]))
                        i++;
        }
}

int words_take_repeated(const struct options *o, const char *name, int *argc, char *argv[],
                        struct words *ret) {
        int from = 1, to = 1;
        size_t n = strlen(name);

        while (from < *argc && startswith(argv[from], "--") && argv[from][2] != '\0') {
                const char *word = argv[from++];
                bool ours = strncmp(word + 2, name, n) == 0;

                if (ours && word[2 + n] == '=') {
                        if (keep_word(ret, word + 3 + n) < 0)
                                return words_misuse(o, "too often:", word);
                } else if (ours && word[2 + n] == '\0') {
                        if (from == *argc || keep_word(ret, argv[from++]) < 0)
                                return words_misuse(o, "a value is missing after", word);
                } else {
                        argv[to++] = argv[from - 1];
                        if (takes_value(o, word) && from < *argc)
                                argv[to++] = argv[from++];
                }
        }
        while (from < *argc)
                argv[to++] = argv[from++];
        *argc = to;
        return 0;
}

int words_check_run_name(const struct options *o, const char *name) {
        if (run_name_is_valid(name))
                return 0;
        return words_misuse(o, "a run's name is 1 to 41 of a-z, 0-9 and '-', not", name);
}

static char interrupt_text[256];

static void on_interrupt(int number) {
        ssize_t n = write(STDERR_FILENO, interrupt_text, strlen(interrupt_text));

        (void) n;
        (void) raise(number); /* the handler stands for one time */
}

void words_at_interrupt(const char *fmt, ...) {
        struct sigaction action = { .sa_handler = on_interrupt, .sa_flags = (int) SA_RESETHAND };
        va_list ap;
        int n;

        va_start(ap, fmt);
        interrupt_text[0] = '\n'; /* behind the terminal's ^C */
        n = vsnprintf(interrupt_text + 1, sizeof(interrupt_text) - 2, fmt, ap);
        va_end(ap);
        assert(n > 0 && (size_t) n < sizeof(interrupt_text) - 2);
        interrupt_text[n + 1] = '\n';
        interrupt_text[n + 2] = '\0';
        (void) sigaction(SIGINT, &action, NULL); /* cannot fail for this signal */
}

char *words_join(const struct words *w, size_t from) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        for (size_t i = from; i < w->n; i++)
                fprintf(f, "%s%s", i > from ? " " : "", w->items[i]);
        return memstream_close(f, &text);
}
