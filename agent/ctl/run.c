/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl run: a run on this host, asked of tpu-launchd with the caller's own rights, or over slices, by an
 * intent. */
#include <fcntl.h>
#include <pwd.h>

#include "ask.h"
#include "chips.h"
#include "ctl.h"
#include "environment.h"
#include "identity_facts.h"
#include "io.h"
#include "order.h"
#include "own_identity.h"
#include "run_fleet.h"
#include "run_spec.h"
#include "table.h"
#include "texts.h"
#include "verb_words.h"

#define FILE_MAX (256 * 1024)
#define HELP_MAX 200
#define RUN_TIMEOUT (60 * USEC_PER_SEC) /* starting a unit waits for its exec */

static int refuse_options(const char *text) {
        return options_fail("tpuctl run", -EINVAL, "%s", text);
}

/* --- Secrets ----------------------------------------------------------------------------------------- */

/* "--secret NAME=FILE": variables of a run whose values are read here from files, so that they stand in no
 * command line, and that tpu-launchd keeps in memory and shows to nobody. */
#define RUN_SECRETS_MAX 64 /* of one run, as tpu-launchd takes them */
#define RUN_SECRETS_BYTES_MAX (64 * 1024)

struct run_secrets {
        Local__Secret items[RUN_SECRETS_MAX], *list[RUN_SECRETS_MAX];
        size_t n;
};

static int refuse_secret(const char *what, const char *why) {
        return options_fail("tpuctl run", -EINVAL, "--secret %.200s: %s", what, why);
}

static int read_secret(const char *path, char **ret) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        char *text = calloc(1, RUN_SECRETS_BYTES_MAX + 2);
        ssize_t n = fd < 0 ? -errno : text ? io_read_up_to(fd, text, RUN_SECRETS_BYTES_MAX + 1) : -ENOMEM;
        const char *why = NULL;

        if (n > 0 && text[n - 1] == '\n')
                text[--n] = '\0';
        if (n < 0)
                why = strerror((int) -n);
        else if (n > RUN_SECRETS_BYTES_MAX)
                why = "longer than 64 KiB";
        else if (n == 0)
                why = "it is empty";
        else if (strlen(text) != (size_t) n)
                why = "it holds a NUL byte";
        if (!why) {
                *ret = text;
                return 0;
        }
        if (text)
                explicit_bzero(text, RUN_SECRETS_BYTES_MAX + 2);
        free(text);
        return refuse_secret(path, why);
}

/* given: NAME=FILE each. The newline at a file's end is no part of the value. -errno after saying what is
 * wrong, naming the file. */
static int run_secrets_read(const struct words *given, struct run_secrets *ret) {
        if (given->n > RUN_SECRETS_MAX)
                return refuse_secret("NAME=FILE", "more than 64");
        for (size_t i = 0; i < given->n; i++) {
                const char *equals = strchr(given->items[i], '=');
                Local__Secret *s = &ret->items[ret->n];
                int r;

                if (!equals || equals == given->items[i] || !equals[1])
                        return refuse_secret(given->items[i],
                                      "it is NAME=FILE: a variable's name, and a file that holds its value");
                local__secret__init(s);
                s->name = strndup(given->items[i], (size_t) (equals - given->items[i]));
                if (!s->name)
                        return -ENOMEM;
                ret->list[ret->n] = s;
                ret->n++;
                r = read_secret(equals + 1, &s->value);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Overwrites the values. */
static void run_secrets_clear(struct run_secrets *s) {
        for (size_t i = 0; i < s->n; i++) {
                if (s->items[i].value && s->items[i].value[0]) { /* else it is protobuf-c's empty text */
                        explicit_bzero(s->items[i].value, strlen(s->items[i].value));
                        free(s->items[i].value);
                }
                free(s->items[i].name);
        }
        s->n = 0;
}

/* What only a run of this host may have. */
struct here {
        bool despite_cordon, replace, yes;
        struct run_secrets secrets;
};

/* --- On this host -------------------------------------------------------------------------------------- */

/* The same after every start. url: as it was given, so that each line can be typed. */
static void print_hints(const char *name, bool fleet, const char *url) {
        static const struct {
                const char *title, *verb;
                bool name;
        } hints[] = { { "watch: ", "runs", false },
                      { "lines: ", "logs -f", true },
                      { "stop:  ", "stop", true } };

        for (size_t i = 0; i < ELEMENTSOF(hints); i++) {
                printf("%stpuctl %s%s", hints[i].title, hints[i].verb, fleet ? " --fleet" : "");
                if (url) /* of several with blanks between */
                        printf(strchr(url, ' ') ? " --collector '%s'" : " --collector %s", url);
                fputs(hints[i].name ? " " : "", stdout);
                print_clean(stdout, hints[i].name ? name : "", false);
                putchar('\n');
        }
}

static int print_started(const Local__RunReply *reply) {
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
        print_hints(reply->name, false, NULL);
        return fflush(stdout) == EOF ? EXIT_REFUSED : 0;
}

static int load_identity(const struct options *o, struct identity *ret) {
        _cleanup_host_ struct host h = HOST_NULL;
        int r = host_open(o->root, &h);

        if (r == 0)
                r = own_identity(&h, o, ret);
        if (r < 0)
                fprintf(stderr, "tpuctl run: who this host is cannot be read: %s\n", strerror(-r));
        return r;
}

static int run_here(const struct options *o, Run__Spec *s, const struct here *only) {
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        Local__RunRequest m = LOCAL__RUN_REQUEST__INIT;
        _cleanup_launchd_reply_ ProtobufCMessage *reply = NULL;
        struct identity_facts facts;
        struct problem problem = { 0 };
        int r;

        if (!only->despite_cordon && order_refuses_run(o->root, &problem) < 0)
                return problem_complain(&problem);
        if (load_identity(o, &identity) < 0)
                return EXIT_REFUSED;
        r = only->replace ? replace_holders(o, only->yes) : 0;
        if (r != 0)
                return r;
        identity_facts_fill(&identity, &facts);
        m.spec = s;
        m.world = &facts.world;
        m.secret = (Local__Secret **) (uintptr_t) only->secrets.list; /* protobuf-c writes to none of them */
        m.n_secret = only->secrets.n;
        r = launchd_ask(o->root, LOCAL__KIND__KIND_RUN_REQUEST, &m.base, LOCAL__KIND__KIND_RUN_REPLY,
                        &local__run_reply__descriptor, RUN_TIMEOUT, &reply, &problem);
        return r < 0 ? problem_complain(&problem) : print_started((const Local__RunReply *) reply);
}

/* --- Over slices --------------------------------------------------------------------------------------- */

/* A run by intent is nobody's by credentials: it says whose it is, and each host decides whether it may. */
static int name_user(Run__Spec *s) {
        const struct passwd *p = s->user[0] ? NULL : getpwuid(getuid());

        return p ? run_key_set_text(run_key_find("user"), s, p->pw_name) : 0;
}

/* As many slices as are named, and the port where the framework's own coordinator listens. */
static void complete_slices(Run__Spec *s) {
        enum framework f;

        if (!s->has_min && s->n_slices > 0) {
                s->has_min = s->has_max = true;
                s->min = s->max = (uint32_t) s->n_slices;
        }
        if (!s->has_port && framework_parse(s->framework, &f) == 0 && framework_port(f) > 0) {
                s->has_port = true;
                s->port = framework_port(f);
        }
}

static int run_fleet(const struct options *o, const Run__Spec *s, const char *url, bool detach) {
        char serial[64];
        struct collector c;
        json_t *intent = run_spec_to_json(s);
        int code;

        if (!intent || json_object_set_new(intent, "v", json_integer(1)) < 0) {
                json_decref(intent);
                (void) refuse_options("out of memory");
                return EXIT_REFUSED;
        }
        code = collector_open(o, url, &c) < 0 ? EXIT_USAGE : run_fleet_start(&c, intent, serial);
        json_decref(intent);
        if (code != 0)
                return code;
        printf("%s: handed to %s\n", s->name, c.urls[0]);
        (void) fflush(stdout); /* the exit code says it */
        words_at_interrupt("tpuctl run: %s goes on; watch it: tpuctl runs --fleet; end it: tpuctl stop "
                           "--fleet %s",
                           s->name, s->name);
        if (!detach)
                code = run_fleet_watch(&c, s->name, serial, stdout);
        if (code == 0)
                print_hints(s->name, true, url);
        return code;
}

/* --- The verb ------------------------------------------------------------------------------------------ */

static int read_spec_file(Run__Spec *s, const char *path, char why[static RUN_WHY_MAX]) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        _cleanup_free_ char *text = NULL;
        size_t len;
        int r = fd < 0 ? -errno : io_read_whole(fd, FILE_MAX, &text, &len);

        if (r == 0)
                return run_spec_parse_file(s, path, text, len, why);
        return text_fail(why, RUN_WHY_MAX, -EINVAL, "%.200s: %s", path,
                         r == -E2BIG ? "longer than 256 KiB" : strerror(-r));
}

/* The options of the keys, behind those that the verb has besides. */
struct key_options {
        struct option_def defs[RUN_KEYS_MAX + 8];
        size_t n;
        const char *texts[RUN_KEYS_MAX];
        bool flags[RUN_KEYS_MAX];
        char names[RUN_KEYS_MAX][RUN_KEY_TEXT_MAX], help[RUN_KEYS_MAX][HELP_MAX];
};

static void add_key_options(struct key_options *k) {
        for (size_t i = 0; i < run_keys_count(); i++) {
                const struct run_key *key = run_key_at(i);

                if (run_key_flag(key, k->names[i]))
                        k->defs[k->n++] = (struct option_def){ k->names[i], key->value,
                                                               run_key_help(key, k->help[i], HELP_MAX),
                                                               &k->texts[i], &k->flags[i] };
        }
}

static int take_key_options(const struct key_options *k, Run__Spec *s, char why[static RUN_WHY_MAX]) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < run_keys_count(); i++) {
                const struct run_key *key = run_key_at(i);
                const char *text = k->flags[i] ? "yes" : k->texts[i];

                if (text && key->kind != RUN_KEY_VARIABLES) /* these may be given many times */
                        r = run_key_parse(key, s, text, why);
        }
        return r;
}

static int take_env_and_command(const struct words *env, char *const *argv, size_t n, Run__Spec *s,
                                char why[static RUN_WHY_MAX]) {
        int r = 0;

        for (size_t i = 0; r == 0 && i < env->n; i++)
                r = run_key_parse(run_key_find("env"), s, env->items[i], why);
        for (size_t i = 0; r == 0 && i < n; i++)
                r = run_key_append(run_key_find("argv"), s, argv[i]);
        return r;
}

/* All that is given: the command line, and behind it the file. */
static int gather_spec(struct options *o, int argc, char *argv[], const struct key_options *k,
                       const char *const *file, Run__Spec *s, struct here *only) {
        char why[RUN_WHY_MAX] = "out of memory";
        struct words env = { .n = 0 }, secrets = { .n = 0 };
        int r = words_take_repeated(o, "env", &argc, argv, &env), first;

        if (r == 0)
                r = words_take_repeated(o, "secret", &argc, argv, &secrets);
        if (r == 0)
                r = options_parse(o, argc, argv);
        if (r < 0)
                return r;
        first = r;
        r = take_key_options(k, s, why);
        if (r == 0)
                r = take_env_and_command(&env, argv + first, (size_t) (argc - first), s, why);
        if (r == 0 && *file)
                r = read_spec_file(s, *file, why);
        if (r < 0)
                return refuse_options(why);
        return run_secrets_read(&secrets, &only->secrets);
}

static int start_run(struct options *o, Run__Spec *s, const char *url, const struct here *only,
                     bool detach) {
        bool over_slices = run_spec_is_over_slices(s);
        char why[RUN_WHY_MAX] = "out of memory";

        if (over_slices)
                complete_slices(s);
        if (over_slices && only->secrets.n > 0)
                (void) refuse_options("--secret is for runs of one host: every host reads an intent");
        else if ((over_slices && name_user(s) < 0) ||
                 run_spec_check(s, over_slices ? RUN_SLICES : RUN_HERE, why) < 0)
                (void) refuse_options(why);
        else if (over_slices && only->replace)
                (void) refuse_options("--replace is for runs of one host");
        else if (!over_slices && (url || detach))
                (void) refuse_options("--detach and --collector are for runs over slices (--slices, --on)");
        else
                return over_slices ? run_fleet(o, s, url, detach) : run_here(o, s, only);
        return EXIT_USAGE;
}

static void here_clear(struct here *h) {
        run_secrets_clear(&h->secrets);
}

int verb_run(const struct ctl *c, int argc, char *argv[]) {
        static char long_file[] = "--file";
        _cleanup_(run_spec_freep) Run__Spec *s = run_spec_new();
        _cleanup_(here_clear) struct here only = { .despite_cordon = false };
        const char *secret = NULL, *file = NULL, *url = NULL;
        bool detach = false;
        struct key_options k = {
                .defs = { { "despite-cordon", NULL, "also where the host is cordoned or draining", NULL,
                            &only.despite_cordon },
                          { "secret", "NAME=FILE",
                            "a variable whose value is in FILE, shown by nothing; may be repeated", &secret,
                            NULL },
                          { "replace", NULL, "end who holds the chips first, with your own rights", NULL,
                            &only.replace },
                          { "yes", NULL, "with --replace: do not ask before they are ended", NULL,
                            &only.yes },
                          { "detach", NULL, "over slices: do not wait until it runs", NULL, &detach },
                          { "collector", "URL",
                            "whose registry starts it; default: tpuctl.conf, else " COLLECTOR_DEFAULT, &url,
                            NULL },
                          { "file", "FILE",
                            "[Run] with the others as Name=, Env=, …, and Command= (also: -f)", &file,
                            NULL } },
                .n = 7,
        };
        struct options o = { .program = "tpuctl run",
                             .synopsis = "[OPTION…] -- COMMAND…",
                             .defs = k.defs,
                             .root = c->root,
                             .config = c->config,
                             .summary = "Starts COMMAND as a service of its own that outlives tpuctl and "
                                        "every agent, with the environment that\n"
                                        "'tpuctl env' shows. Watch it with 'tpuctl runs' and 'tpuctl logs "
                                        "NAME', end it with 'tpuctl stop NAME'.\nWith --slices or --on it "
                                        "runs on all hosts of "
                                        "those slices, where each lets tpu-hostd start runs of that "
                                        "user;\nmissing hosts are "
                                        "shown until it runs. Ctrl-C ends only the showing." };
        int r;

        add_key_options(&k);
        o.n_defs = k.n;
        words_spell_out(&o, 'f', long_file, argc, argv);
        r = s ? gather_spec(&o, argc, argv, &k, &file, s, &only) : -ENOMEM;
        if (r == -ECANCELED)
                return options_exit(r);
        return r < 0 ? EXIT_USAGE : start_run(&o, s, url, &only, detach);
}
