/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl run: a run on this host, asked of tpu-launchd with the caller's own rights, or over slices, by an
 * intent. */
#include <pwd.h>

#include "ask.h"
#include "ctl.h"
#include "environment.h"
#include "order.h"
#include "run_fleet.h"
#include "run_secrets.h"
#include "run_spec.h"
#include "steps.h"
#include "table.h"
#include "words.h"

#define RUN_TIMEOUT (60 * USEC_PER_SEC) /* starting a unit waits for its exec */

static int refuse(const char *text) {
        fprintf(stderr, "tpuctl run: %s\n", text);
        return -EINVAL;
}

static int check_words(const struct options *o, const struct run_spec *s) {
        static const char *const mallocs[] = { "auto", "tcmalloc", "glibc" };
        enum framework f;
        size_t i = 0;

        if (s->name && words_check_run_name(o, s->name) < 0)
                return -EINVAL;
        while (s->malloc && i < ELEMENTSOF(mallocs) && !streq(mallocs[i], s->malloc))
                i++;
        if (i == ELEMENTSOF(mallocs))
                fprintf(stderr, "tpuctl run: --malloc is auto, tcmalloc or glibc, not '%s'\n", s->malloc);
        else if (s->framework && framework_parse(s->framework, &f) < 0)
                fprintf(stderr, "tpuctl run: --framework is " FRAMEWORK_NAMES ", not '%s'\n", s->framework);
        else if (s->directory && s->directory[0] && s->directory[0] != '/')
                fprintf(stderr, "tpuctl run: --directory must be absolute, not '%s'\n", s->directory);
        else if (s->n_argv == 0)
                fprintf(stderr, "tpuctl run: which command? Usage: tpuctl run %s\n", o->synopsis);
        else if (run_spec_is_fleet(s) && !s->name)
                fprintf(stderr, "tpuctl run: a run over slices needs a name: --name\n");
        else
                return 0;
        return -EINVAL;
}

/* What only a run of this host may have. */
struct here {
        bool despite_cordon, share_devices;
        struct run_secrets secrets;
};

/* --- On this host -------------------------------------------------------------------------------------- */

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
        for (size_t i = 0; i < reply->n_conflict + reply->n_warning; i++) {
                fputs("tpuctl run: warning: ", stderr);
                print_clean(stderr,
                            i < reply->n_conflict ? reply->conflict[i]
                                                  : reply->warning[i - reply->n_conflict],
                            false);
                fputc('\n', stderr);
        }
        local__run_reply__free_unpacked(reply, NULL);
        return fflush(stdout) == EOF ? EXIT_REFUSED : 0;
}

/* False: none is given. */
static bool set_limits(const struct run_spec *s, const struct run_numbers *n, Local__RunLimits *l) {
        l->memlock = n->memlock;
        l->nofile = n->nofile;
        l->memory_max = n->memory;
        l->memory_total = n->memory_total;
        l->memory_high = n->memory_high;
        l->cpus = wire_text(s->cpus ? s->cpus : "");
        l->numa = wire_text(s->numa ? s->numa : "");
        l->core = wire_text(s->core ? s->core : "");
        return s->memlock || s->nofile || s->memory || s->memory_total || s->memory_high || s->cpus ||
               s->numa || s->core;
}

static int run_here(const struct options *o, const struct run_spec *s, const struct run_numbers *n,
                    const struct here *only) {
        Local__RunLimits limits = LOCAL__RUN_LIMITS__INIT;
        Local__RunRequest m = LOCAL__RUN_REQUEST__INIT;
        Local__Preempt preempt = LOCAL__PREEMPT__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        struct problem problem = { 0 };
        struct frame reply;
        int r;

        m.name = wire_text(s->name ? s->name : "");
        m.framework = wire_text(s->framework ? s->framework : "plain");
        m.malloc = wire_text(s->malloc ? s->malloc : "auto");
        m.user = wire_text(s->user ? s->user : "");
        m.directory = wire_text(s->directory ? s->directory : "");
        m.argv = wire_list(s->argv);
        m.n_argv = s->n_argv;
        m.env = wire_list(s->env);
        m.n_env = s->n_env;
        m.restarts = n->restarts;
        m.grace_usec = n->grace == USEC_INFINITY ? 0 : n->grace;
        preempt.signal = wire_text(s->preempt ? s->preempt : "TERM");
        m.preempt = &preempt;
        if (set_limits(s, n, &limits))
                m.limits = &limits;
        m.share_devices = only->share_devices;
        m.devices = wire_text(s->devices ? s->devices : "");
        m.secret = (Local__Secret **) (uintptr_t) only->secrets.list; /* protobuf-c writes to none of them */
        m.n_secret = only->secrets.n;
        r = launchd_ask(o->root, LOCAL__KIND__KIND_RUN_REQUEST, &m.base, LOCAL__KIND__KIND_RUN_REPLY,
                        RUN_TIMEOUT, &reply, &buf, &problem);
        return r < 0 ? problem_complain(&problem) : print(&reply);
}

/* --- Over slices --------------------------------------------------------------------------------------- */

/* A run by intent is nobody's by credentials: it says whose it is, and each host decides whether it may. */
static const char *user_of(const struct run_spec *s, char buf[static 64]) {
        const struct passwd *p;

        if (s->user && s->user[0])
                return s->user;
        p = getpwuid(getuid());
        (void) snprintf(buf, 64, "%s", p ? p->pw_name : "");
        return buf;
}

static int run_fleet(const struct options *o, const struct run_spec *s, const char *url, bool detach) {
        char user[64], serial[64], why[RUN_SPEC_WHY_MAX];
        struct collector c;
        json_t *intent;
        int code;

        if (run_spec_intent(s, user_of(s, user), &intent, why) < 0) {
                (void) refuse(why);
                return EXIT_USAGE;
        }
        if (streq(user_of(s, user), "root")) {
                json_decref(intent);
                (void) refuse("nothing that comes by the registry runs as root: --user USER names whose run "
                              "it is");
                return EXIT_USAGE;
        }
        code = collector_open(o, url, &c) < 0 ? EXIT_USAGE : run_fleet_start(&c, intent, serial);
        json_decref(intent);
        if (code != 0)
                return code;
        printf("%s: handed to %s\n", s->name, c.urls[0]);
        (void) fflush(stdout); /* the exit code says it */
        if (!detach)
                code = run_fleet_watch(&c, s->name, serial, stdout);
        if (code == 0)
                printf("watch it: tpuctl jobs --fleet; tpuctl logs -f %s; end it: tpuctl stop %s\n", s->name,
                       s->name);
        return code;
}

/* --- The verb ------------------------------------------------------------------------------------------ */

/* All that is given: the command line, and behind it the file. */
static int gather(struct options *o, int argc, char *argv[], const char *const *file, struct run_spec *s,
                  struct here *only) {
        char why[RUN_SPEC_WHY_MAX];
        struct words env = { .n = 0 }, secrets = { .n = 0 };
        int r = words_take_repeated(o, "env", &argc, argv, &env);

        if (r == 0)
                r = words_take_repeated(o, "secret", &argc, argv, &secrets);
        if (r == 0)
                r = options_parse(o, argc, argv);
        if (r < 0)
                return r;
        if (argc - r > RUN_SPEC_ARGV_MAX || env.n > RUN_SPEC_ENV_MAX)
                return refuse("more than 1024 words or variables: put them into a file");
        for (; r < argc; r++)
                s->argv[s->n_argv++] = argv[r];
        for (size_t i = 0; i < env.n; i++)
                s->env[s->n_env++] = env.items[i];
        if (*file && run_spec_read(s, *file, why) < 0)
                return refuse(why);
        r = check_words(o, s);
        return r < 0 ? r : run_secrets_read(&secrets, &only->secrets);
}

static int act(struct options *o, const struct run_spec *s, const char *url, const struct here *only,
               bool detach) {
        char why[RUN_SPEC_WHY_MAX];
        struct run_numbers n;
        struct problem problem = { 0 };

        if (run_spec_numbers(s, &n, why) < 0) {
                (void) refuse(why);
                return EXIT_USAGE;
        }
        if (run_spec_is_fleet(s) && (only->share_devices || only->secrets.n > 0)) {
                (void) refuse("--secret and --share-devices are for runs of this host: what an intent says "
                              "is read by every host");
                return EXIT_USAGE;
        }
        if (run_spec_is_fleet(s))
                return run_fleet(o, s, url, detach);
        if (s->wait || s->late || s->port || s->last_call || s->shrink_after || s->grow_after || url ||
            detach) {
                (void) refuse("--wait, --late, --last-call, --shrink-after, --grow-after, --port, --detach "
                              "and --collector are "
                              "for runs over slices (--slices, --on)");
                return EXIT_USAGE;
        }
        if (!only->despite_cordon && order_refuses_run(o->root, &problem) < 0)
                return problem_complain(&problem);
        return run_here(o, s, &n, only);
}

static void here_clear(struct here *h) {
        run_secrets_clear(&h->secrets);
}

/* It goes with the run's environment, to whatever host. variable is borrowed by s. */
static int add_expression(struct run_spec *s, const char *text, char *variable, size_t size) {
        _cleanup_(step_expression_freep) struct step_expression *e = NULL;
        char why[96] = "out of memory";

        if (step_expression_new(text, why, sizeof(why), &e) < 0) {
                fprintf(stderr, "tpuctl run: --step-regex '%s': %s\n", text, why);
                return -EINVAL;
        }
        if (s->n_env == ELEMENTSOF(s->env)) {
                fputs("tpuctl run: --step-regex: the run has too many variables already\n", stderr);
                return -E2BIG;
        }
        (void) snprintf(variable, size, STEP_EXPRESSION_VARIABLE "=%s", text);
        s->env[s->n_env++] = variable;
        return 0;
}

int verb_run(const struct ctl *c, int argc, char *argv[]) {
        static char long_file[] = "--file";
        _cleanup_run_spec_ struct run_spec s = { .n_env = 0 };
        _cleanup_(here_clear) struct here only = { .despite_cordon = false };
        const char *assignment = NULL, *secret = NULL, *file = NULL, *url = NULL, *expression = NULL;
        char variable[STEP_EXPRESSION_MAX + sizeof(STEP_EXPRESSION_VARIABLE) + 1];
        bool detach = false;
        const struct option_def defs[] = {
                { "name", "NAME", "the run's name: a-z, 0-9 and '-'; default: one is chosen", &s.name,
                  NULL },
                { "framework", "NAME", "plain (default), jax, torch_xla, ray or torch", &s.framework, NULL },
                { "malloc", "NAME", "auto (default), tcmalloc or glibc", &s.malloc, NULL },
                { "user", "USER", "run as USER (on this host: root only); default: you", &s.user, NULL },
                { "directory", "DIR", "working directory; default: the user's home", &s.directory, NULL },
                { "env", "KEY=VALUE", "a variable of the run, never overridden; may be repeated",
                  &assignment, NULL },
                { "step-regex", "EXPRESSION",
                  "how a step line of its log looks, first group: the step (regex(7), extended)",
                  &expression, NULL },
                { "restarts", "N", "start it again so often when it fails; default 0", &s.restarts, NULL },
                { "grace", "SPAN", "from TERM to KILL, when it is ended", &s.grace, NULL },
                { "preempt", "SIGNAL",
                  "what tells it that its host goes: TERM (default), INT, USR1, USR2, none, or a command: "
                  "/…",
                  &s.preempt, NULL },
                { "despite-cordon", NULL, "also where the host is cordoned or draining", NULL,
                  &only.despite_cordon },
                { "share-devices", NULL, "also while another process has a TPU open", NULL,
                  &only.share_devices },
                { "secret", "NAME=FILE",
                  "a variable whose value is in FILE, shown by nothing; may be repeated", &secret, NULL },
                { "memlock", "BYTES", "memory that it may lock; default infinity", &s.memlock, NULL },
                { "nofile", "N", "files that it may have open; default 100000", &s.nofile, NULL },
                { "memory", "BYTES", "memory that it may use; default infinity", &s.memory, NULL },
                { "memory-total", "BYTES",
                  "memory for it and the containers it starts, in all; default infinity", &s.memory_total,
                  NULL },
                { "memory-high", "BYTES", "of that, above which it is slowed down and memory taken back",
                  &s.memory_high, NULL },
                { "cpus", "LIST", "CPUs that it may run on: 0-3,8", &s.cpus, NULL },
                { "numa", "LIST", "NUMA nodes that it takes memory from", &s.numa, NULL },
                { "core", "WORD", "core dumps: none (default) or keep", &s.core, NULL },
                { "devices", "LIST",
                  "what it may open: tpu (default), any, or more nodes: /dev/net/tun,char-nvidia",
                  &s.devices, NULL },
                { "slices", "MIN:MAX", "over so many slices, all hosts of each; one number: just so many",
                  &s.slices, NULL },
                { "on", "SLICE,SLICE", "over these slices", &s.on, NULL },
                { "wait", "SPAN", "how long it may wait for hosts; default 10min", &s.wait, NULL },
                { "late", "WORD", "and then: fail (default), or min: go on with what is there, at least MIN",
                  &s.late, NULL },
                { "last-call", "SPAN", "with MIN there, so long more are waited for; default 30s",
                  &s.last_call, NULL },
                { "shrink-after", "SPAN", "a lost host's slice may come back for so long; default 30s",
                  &s.shrink_after, NULL },
                { "grow-after", "SPAN", "a slice below MAX that is fit for so long is taken; default 30s",
                  &s.grow_after, NULL },
                { "port", "PORT", "of the coordinator, on its first host", &s.port, NULL },
                { "detach", NULL, "do not wait until it runs", NULL, &detach },
                { "collector", "URL",
                  "whom slices are asked of; default: tpuctl.conf, else " COLLECTOR_DEFAULT,
                  &url, NULL },
                { "file", "FILE", "[Job] with these as Name=, Env=, …, and Command= (also: -f)", &file,
                  NULL },
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
                                        "NAME', end it with 'tpuctl stop NAME'.\nWith --slices or --on it "
                                        "runs on all hosts of "
                                        "those slices, where each lets tpu-hostd start runs of that "
                                        "user;\nwho is missing is "
                                        "said until it runs." };
        int r;

        words_spell_out(&o, 'f', long_file, argc, argv);
        r = gather(&o, argc, argv, &file, &s, &only);
        if (r == -ECANCELED)
                return options_exit(r);
        if (r >= 0 && expression)
                r = add_expression(&s, expression, variable, sizeof(variable));
        return r < 0 ? EXIT_USAGE : act(&o, &s, url, &only, detach);
}
