/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl run: asks tpu-launchd to start a run, with the caller's own rights. */
#include "ctl.h"
#include "environment.h"
#include "launchd.h"
#include "order.h"
#include "table.h"
#include "words.h"

#define RUN_TIMEOUT (60 * USEC_PER_SEC) /* starting a unit waits for its exec */

static int check_words(const struct options *o, const Local__RunRequest *m) {
        static const char *const mallocs[] = { "auto", "tcmalloc", "glibc" };
        enum framework f;
        size_t i = 0;

        if (m->name[0] && words_check_run_name(o, m->name) < 0)
                return -EINVAL;
        while (i < ELEMENTSOF(mallocs) && !streq(mallocs[i], m->malloc))
                i++;
        if (i == ELEMENTSOF(mallocs))
                fprintf(stderr, "tpuctl run: --malloc is auto, tcmalloc or glibc, not '%s'\n", m->malloc);
        else if (framework_parse(m->framework, &f) < 0)
                fprintf(stderr, "tpuctl run: --framework is " FRAMEWORK_NAMES ", not '%s'\n", m->framework);
        else if (m->directory[0] && m->directory[0] != '/')
                fprintf(stderr, "tpuctl run: --directory must be absolute, not '%s'\n", m->directory);
        else if (m->n_argv == 0)
                fprintf(stderr, "tpuctl run: which command? Usage: tpuctl run %s\n", o->synopsis);
        else
                return 0;
        return -EINVAL;
}

static int print(const struct frame *f) {
        struct problem problem = { 0 };
        Local__RunReply *reply = local__run_reply__unpack(NULL, f->len, f->data);

        if (!reply) {
                (void) launchd_garbled(&problem);
                return problem_complain(&problem);
        }
        print_clean(stdout, reply->name, false);
        fputs(" started as ", stdout);
        print_clean(stdout, reply->unit, false);
        if (reply->malloc[0]) {
                fputs(", malloc ", stdout);
                print_clean(stdout, reply->malloc, false);
        }
        putchar('\n');
        for (size_t i = 0; i < reply->n_conflict; i++) {
                fputs("tpuctl run: warning: ", stderr);
                print_clean(stderr, reply->conflict[i], false);
                fputc('\n', stderr);
        }
        local__run_reply__free_unpacked(reply, NULL);
        return fflush(stdout) == EOF ? EXIT_REFUSED : 0;
}

int verb_run(const struct ctl *c, int argc, char *argv[]) {
        const char *name = "", *framework = "plain", *allocator = "auto", *user = "", *directory = "",
                   *assignment = NULL;
        bool despite = false;
        const struct option_def defs[] = {
                { "name", "NAME", "the run's name: a-z, 0-9 and '-'; default: one is chosen", &name, NULL },
                { "framework", "NAME", "plain (default), jax, torch_xla, ray or torch", &framework, NULL },
                { "malloc", "NAME", "auto (default), tcmalloc or glibc", &allocator, NULL },
                { "user", "USER", "run as USER (root only); default: you", &user, NULL },
                { "directory", "DIR", "working directory; default: the user's home", &directory, NULL },
                { "env", "KEY=VALUE", "a variable of the run, never overridden; may be repeated",
                  &assignment, NULL },
                { "despite-cordon", NULL, "also where the host is cordoned or draining", NULL, &despite },
        };
        struct options o = { .program = "tpuctl run",
                             .synopsis = "[OPTION…] -- COMMAND…",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .root = c->root,
                             .config = c->config,
                             .summary = "Starts COMMAND as a service of its own that outlives tpuctl and "
                                        "every agent, with the environment that\n"
                                        "'tpuctl env' shows. Watch it with 'tpuctl jobs' and 'tpuctl logs "
                                        "NAME', end it with 'tpuctl stop NAME'." };
        _cleanup_free_ uint8_t *buf = NULL;
        Local__RunRequest m = LOCAL__RUN_REQUEST__INIT;
        struct problem problem = { 0 };
        struct words env = { .n = 0 };
        struct frame reply;
        int r;

        r = words_take_repeated(&o, "env", &argc, argv, &env);
        if (r == 0)
                r = options_parse(&o, argc, argv);
        if (r < 0)
                return options_exit(r);
        m.name = wire_text(name);
        m.framework = wire_text(framework);
        m.malloc = wire_text(allocator);
        m.user = wire_text(user);
        m.directory = wire_text(directory);
        m.argv = argv + r;
        m.n_argv = (size_t) (argc - r);
        m.env = wire_list(env.items);
        m.n_env = env.n;
        if (check_words(&o, &m) < 0)
                return EXIT_USAGE;
        if (!despite && order_refuses_run(o.root, &problem) < 0)
                return problem_complain(&problem);
        r = launchd_ask(o.root, LOCAL__KIND__KIND_RUN_REQUEST, &m.base, LOCAL__KIND__KIND_RUN_REPLY,
                        RUN_TIMEOUT, &reply, &buf, &problem);
        return r < 0 ? problem_complain(&problem) : print(&reply);
}
