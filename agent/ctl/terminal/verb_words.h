/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The command line of one verb: options and words in any order. */
#include "ctl.h"

#define WORDS_MAX 1024

/* A verb's options: its name, what --help says, and its table. */
#define VERB_OPTIONS(verb, usage, table, text)                                                              \
        {                                                                                                   \
                .program = "tpuctl " verb, .synopsis = (usage), .summary = (text), .defs = (table),         \
                .n_defs = ELEMENTSOF(table)                                                                 \
        }

struct words {
        const char *items[WORDS_MAX]; /* borrowed from argv */
        size_t n;
};

/*
 * Takes the verb's options out of argv wherever they stand and keeps the other words (all words behind
 * "--"). o gets --root and --config from before the verb. Fewer than min or more than max words is a usage
 * error. Returns 0 or -errno for options_exit(), after saying why.
 */
int words_parse(const struct ctl *c, struct options *o, int argc, char *argv[], size_t min, size_t max,
                struct words *ret);

/*
 * Takes every "--NAME VALUE" or "--NAME=VALUE" out of argv, which is shortened, for an option that may be
 * given many times. Looks only at options: ends at "--" and at the first word. defs says which options take
 * a value. -EINVAL after saying that a value is missing.
 */
int words_take_repeated(const struct options *o, const char *name, int *argc, char *argv[],
                        struct words *ret);

/* Where the first word stands behind options; the number of words: there is none. */
int words_first(const struct options *o, int argc, char *argv[]);

/* Writes "--LONG" where "-C" stands among the options; what stands behind the first word is the command's
 * own. */
void words_spell_out(const struct options *o, char letter, char *spelled, int argc, char *argv[]);

/* "PROGRAM: TEXT 'WORD'" (word NULL: the text alone) and where to read on, on standard error. -EINVAL. */
int words_misuse(const struct options *o, const char *text, const char *word);

/* A run's name: [a-z0-9][a-z0-9-]{0,40}. Else says so and returns -EINVAL. */
int words_check_run_name(const struct options *o, const char *name);

/* What Ctrl-C says, in one line, before it ends tpuctl: what goes on all the same. */
void words_at_interrupt(const char *fmt, ...) _printf_(1, 2);

/* The words from this one on, with blanks between: a reason need not be quoted. malloc'ed; NULL without
 * memory. */
char *words_join(const struct words *w, size_t from);
