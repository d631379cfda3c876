/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl env: the environment that a run would get. */
#include "ctl.h"
#include "environment.h"
#include "table.h"
#include "words.h"

static void print(const struct environment *e, bool explain) {
        for (size_t i = 0; i < e->n; i++) {
                if (explain) {
                        fputs("# ", stdout);
                        print_clean(stdout, e->entries[i].reason, false);
                        putchar('\n');
                }
                if (e->entries[i].conflict) {
                        fprintf(stderr, "tpuctl env: %.*s: ", (int) strcspn(e->entries[i].assignment, "="),
                                e->entries[i].assignment);
                        print_clean(stderr, e->entries[i].conflict, false);
                        fputc('\n', stderr);
                }
                print_shell_assignment(stdout, e->entries[i].assignment);
        }
}

static int env(const struct options *o, enum framework f, const struct words *user, bool explain) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        char why[256] = "";
        int r;

        r = host_open(o->root, &h);
        if (r == 0)
                r = identity_load(&h, o->config, &identity);
        if (r == 0)
                r = environment_build(&identity, f, user->items, user->n, &e, why);
        if (r < 0) {
                fputs("tpuctl env: ", stderr);
                print_clean(stderr, why[0] ? why : strerror(-r), false);
                fputc('\n', stderr);
                return r == -EINVAL ? EXIT_USAGE : EXIT_NO_ANSWER;
        }
        print(&e, explain);
        return fflush(stdout) == EOF ? EXIT_REFUSED : 0;
}

int verb_env(const struct ctl *c, int argc, char *argv[]) {
        const char *framework = "plain";
        bool explain = false;
        const struct option_def defs[] = {
                { "framework", "NAME", "plain (default) or jax", &framework, NULL },
                { "explain", NULL, "say in a comment before each line where it comes from", NULL, &explain },
        };
        struct options o = {
                .program = "tpuctl env",
                .synopsis = "[--framework NAME] [--explain] [KEY=VALUE…]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Prints the environment that 'tpuctl run' gives a run, ready for a shell. "
                           "KEY=VALUE: what you would set yourself;\n"
                           "it is never overridden, and a difference is reported on standard error."
        };
        enum framework f;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, WORDS_MAX, &w);
        if (r < 0)
                return options_exit(r);
        if (framework_parse(framework, &f) < 0) {
                fprintf(stderr, "tpuctl env: --framework is plain or jax, not '%s'\n", framework);
                return EXIT_USAGE;
        }
        return env(&o, f, &w, explain);
}
