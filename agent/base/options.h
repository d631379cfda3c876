/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The command line every program shares: --help --version --root DIR --config FILE, and the program's
 * own options from one table, so that --help can never be out of date. Long options only ("--name VALUE"
 * or "--name=VALUE"), but for -h and -V; "--" ends options; the first word that is no option ends them, too.
 * The word "help" alone is --help.
 */
#include "base.h"

#define EXIT_USAGE 64 /* sysexits.h EX_USAGE: a usage error, by DESIGN */

struct option_def {
        const char *name;     /* without dashes */
        const char *argument; /* name of the value in --help, or NULL for a flag */
        const char *help;
        const char **value; /* where the value goes (borrowed from argv), when argument is set */
        bool *flag;         /* set to true when argument is NULL */
};

struct options {
        const char *program, *synopsis, *summary; /* for --help */
        const struct option_def *defs;
        size_t n_defs;
        const char *root;   /* --root, or NULL */
        const char *config; /* --config, or NULL */
        bool further;       /* words stand before these: "help" is one of them */
};

/*
 * Returns the index of the first word that is not an option, or -errno after printing what is wrong, or
 * -ECANCELED after --help or --version was printed (exit 0 then). Use options_exit() for the exit code.
 */
int options_parse(struct options *o, int argc, char *argv[]);
/* Says on standard error what is wrong, "PROGRAM: TEXT", and returns code. */
_printf_(3, 4) int options_fail(const char *program, int code, const char *fmt, ...);
/* 0 for -ECANCELED, EXIT_USAGE for every other failure of options_parse(). */
int options_exit(int r);
