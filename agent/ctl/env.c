/* SPDX-License-Identifier: Apache-2.0 */
#include "ask.h"
#include "ctl.h"
#include "environment.h"
#include "host.h"
#include "intent.h"
#include "options.h"
#include "own_identity.h"
#include "report.h"
#include "run_key.h"
#include "table.h"
#include "verb_words.h"

/* tpuctl identity: who this host is, and where each answer comes from. */

static int print_text(const struct identity *i, const struct finding_list *findings) {
        _cleanup_table_ struct table t = TABLE_NULL(3);
        int r = table_add(&t, (const char *const[]) { "FIELD", "FROM", "VALUE" });

        for (enum identity_field f = 0; f < _IDENTITY_FIELD_MAX && r == 0; f++)
                r = table_add(&t, (const char *const[]) { identity_field_name(f), i->fields[f].origin,
                                                         identity_get(i, f) });
        if (r == 0)
                r = table_print(&t, stdout);
        if (r == 0 && findings->n > 0) {
                putchar('\n');
                r = report_print_text(stdout, findings);
        }
        return r;
}

static int print_json(const struct identity *i, const struct finding_list *findings) {
        json_t *v = identity_to_json(i);

        return report_print_json(
                stdout,
                v ? json_pack("{s:o, s:o}", "identity", v, "checks", finding_list_to_json(findings)) : NULL);
}

int verb_identity(const struct ctl *c, int argc, char *argv[]) {
        _cleanup_finding_list_ struct finding_list findings = FINDING_LIST_NULL;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        bool json = false;
        const struct option_def defs[] = { { "json", NULL, "print JSON", NULL, &json } };
        struct options o = VERB_OPTIONS(
                "identity", "[--json]", defs,
                "Shows slice, worker, peers and chips of this host, the source of each, and what "
                "contradicts what.\n"
                "--config FILE replaces identity.conf. Exit code as of a check.");
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w);

        if (r < 0)
                return options_exit(r);
        r = host_open(o.root, &h);
        if (r == 0)
                r = own_identity(&h, &o, &identity);
        if (r == 0)
                r = identity_check(&identity, &findings);
        if (r == 0)
                r = json ? print_json(&identity, &findings) : print_text(&identity, &findings);
        if (r < 0)
                return options_fail("tpuctl identity", EXIT_NO_ANSWER, "%s%s%s", o.config ? o.config : "",
                                    o.config ? ": " : "", strerror(-r));
        return verdict_exit_code(finding_list_worst(&findings));
}

/* tpuctl env: the environment that a run would get. */

static void print_entry(const struct environment_entry *x, bool explain) {
        if (explain) {
                fputs("# ", stdout);
                print_clean(stdout, x->reason, false);
                putchar('\n');
        }
        if (x->conflict) {
                fprintf(stderr, "tpuctl env: %.*s: ", (int) strcspn(x->assignment, "="), x->assignment);
                print_clean(stderr, x->conflict, false);
                fputc('\n', stderr);
        }
        print_shell_assignment(stdout, x->assignment);
}

static int print_environment(const struct environment *e, bool explain, bool json) {
        if (json)
                return report_print_json(stdout, json_pack("{s:o}", "environment", environment_to_json(e)));
        for (size_t i = 0; i < e->n; i++)
                print_entry(&e->entries[i], explain);
        if (explain) /* which of both is not known before the run is asked for */
                puts("# LD_PRELOAD: 'tpuctl run' adds tcmalloc where this host can load it (--malloc). In a "
                     "container (--image) it adds nothing: what the image has stands, by default glibc's.");
        return fflush(stdout) == EOF ? -EIO : 0;
}

/*
 * The NICs that a run's traffic between slices takes; none when they are not known: it is then left open.
 */
static void find_nics(const struct host *h, char ret[static INTENT_NICS_TEXT_MAX]) {
        struct link_table links = LINK_TABLE_NULL;
        struct intent intent = { 0 };

        ret[0] = '\0';
        if (links_read(h, &links) == 0 && intent_load(h, NULL, &intent) >= 0)
                intent_data_nics(&intent, &links, ret);
        link_table_clear(&links);
}

static int env(const struct options *o, struct environment_options *wanted, bool explain, bool json) {
        _cleanup_environment_ struct environment e = ENVIRONMENT_NULL;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        char why[ENVIRONMENT_WHY_MAX] = "", nics[INTENT_NICS_TEXT_MAX] = "";
        int r = host_open(o->root, &h);

        if (r == 0)
                find_nics(&h, nics);
        wanted->interfaces = nics;
        if (r == 0)
                r = own_identity(&h, o, &identity);
        if (r == 0)
                r = environment_build(&identity, wanted, &e, why);
        if (r < 0) {
                fputs("tpuctl env: ", stderr);
                print_clean(stderr, why[0] ? why : strerror(-r), false);
                fputc('\n', stderr);
                return r == -EINVAL ? EXIT_USAGE : EXIT_NO_ANSWER;
        }
        return print_environment(&e, explain, json) < 0 ? EXIT_REFUSED : 0;
}

/* Of a run that is there, as tpu-launchd froze it. */
static int env_of_run(const struct options *o, const char *name, bool json) {
        Local__EnvironmentRequest m = LOCAL__ENVIRONMENT_REQUEST__INIT;
        _cleanup_launchd_reply_ ProtobufCMessage *answer = NULL;
        const Local__EnvironmentReply *reply;
        struct problem problem;
        json_auto_t *list = NULL;
        int r;

        m.name = wire_text(name);
        r = launchd_ask(o->root, LOCAL__KIND__KIND_ENVIRONMENT_REQUEST, &m.base,
                        LOCAL__KIND__KIND_ENVIRONMENT_REPLY, &local__environment_reply__descriptor,
                        5 * USEC_PER_SEC, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        reply = (const Local__EnvironmentReply *) answer;
        list = json_array();
        for (size_t i = 0; i < reply->n_env; i++) {
                if (!json) {
                        print_shell_assignment(stdout, reply->env[i]);
                        continue;
                }
                (void) json_array_append_new(
                        list, json_string(reply->env[i])); /* no UTF-8: tpu-launchd takes none */
        }
        for (size_t i = 0; i < reply->n_hidden; i++) {
                fputs("tpuctl env: not shown, for its name is a secret's: ", stderr);
                print_clean(stderr, reply->hidden[i], false);
                fputc('\n', stderr);
        }
        r = json ? report_print_json(stdout, json_pack("{s:s, s:O}", "name", name, "environment", list)) : 0;
        return r < 0 || fflush(stdout) == EOF ? EXIT_REFUSED : 0;
}

static int parse_chip(const char *text, struct environment_options *wanted) {
        size_t n = strspn(text, "0123456789");

        if (n == 0 || n > 2 || text[n])
                return options_fail("tpuctl env", -EINVAL, "--chip is a number from 0, not '%s'", text);
        wanted->process_per_chip = true;
        wanted->chip = (uint32_t) atoi(text);
        return 0;
}

int verb_env(const struct ctl *c, int argc, char *argv[]) {
        const char *framework = "plain", *chip = NULL, *ray_head = NULL;
        bool explain = false, json = false;
        char help[160], why[RUN_WHY_MAX];
        const struct option_def defs[] = {
                { "framework", "NAME", run_key_help(run_key_find("framework"), help, sizeof(help)),
                  &framework, NULL },
                { "chip", "N", "torch_xla with one process per chip: of process N", &chip, NULL },
                { "ray-head", "HOST:PORT", "ray: a head outside of this slice", &ray_head, NULL },
                { "explain", NULL, "say in a comment before each line where it comes from", NULL, &explain },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = VERB_OPTIONS(
                "env", "[--framework NAME] [--explain | --json] [KEY=VALUE… | RUN]", defs,
                "Prints the environment that 'tpuctl run' gives a run, ready for a shell. KEY=VALUE: what "
                "you would set yourself;\n"
                "it is never overridden, and a difference is reported on standard error. RUN: what a run "
                "of this host has, for\n"
                "its user and root; values of secrets are not shown.");
        struct environment_options wanted = { .framework = FRAMEWORK_PLAIN };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (w.n == 1 && !strchr(w.items[0], '='))
                return words_check_run_name(&o, w.items[0]) < 0 ? EXIT_USAGE
                                                                : env_of_run(&o, w.items[0], json);
        if (framework_parse(framework, &wanted.framework) < 0) {
                (void) run_key_refuse(run_key_find("framework"), framework, why);
                return options_fail("tpuctl env", EXIT_USAGE, "%s", why);
        }
        if (chip && parse_chip(chip, &wanted) < 0)
                return EXIT_USAGE;
        wanted.user = w.items;
        wanted.n_user = w.n;
        wanted.ray_head = ray_head;
        return env(&o, &wanted, explain, json);
}
