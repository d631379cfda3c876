/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl cordon, uncordon, drain, silence, unsilence, mode: what a person orders for this host. */
#include "answer.h"
#include "clock.h"
#include "config.h"
#include "order.h"
#include "show.h"
#include "table.h"
#include "verb_words.h"

#define ORDER_TIMEOUT (20 * USEC_PER_SEC) /* the answer waits for the disk */
#define DAY (24 * 3600 * USEC_PER_SEC)
#define PATH_SIZE 4096

#define OPTION_UNTIL(until, help) { "until", "TIME", help ": 2h, 3d or 2026-11-21T10:00:00Z", until, NULL }

/* --- The end ------------------------------------------------------------------------------------------- */

static int parse_until(const char *given, char buf[static CLOCK_TEXT_MAX]) {
        size_t digits = strspn(given, "0123456789");
        char why[96];
        usec_t span;

        if (digits == strlen("2026") && given[digits] == '-')
                return snprintf(buf, CLOCK_TEXT_MAX, "%.31s", given) <
                       0; /* tpu-hostd says what is wrong with it */
        if (digits > 0 && digits < 4 && streq(given + digits, "d"))
                span = strtoull(given, NULL, 10) * DAY;
        else if (config_parse_usec(given, &span, why) < 0)
                return -EINVAL;
        if (span > 400 * DAY)
                return -EINVAL;
        (void) clock_text(clock_real(&clock_system) + span, buf);
        return 0;
}

int order_until(const struct options *o, const char *given, char buf[static CLOCK_TEXT_MAX]) {
        if (!given || parse_until(given, buf) == 0)
                return 0;
        return options_fail(o->program, -EINVAL,
                            "--until is a span as 30min, 2h or 3d, or a time as 2026-11-21T10:00:00Z, not "
                            "'%s'", given);
}

/* --- The call ------------------------------------------------------------------------------------------ */

/* What an order is about; NULL: nothing of the kind. */
struct about {
        const char *check, *subject, *reason, *until;
};

static int call_order(const struct options *o, const char *method, const char *where, const struct about *a,
                      json_t **ret, struct problem *problem) {
        char path[PATH_SIZE];
        int r;

        (void) snprintf(path, sizeof(path), "%s", where);
        r = path_parameter(path, sizeof(path), "check", a->check);
        if (r == 0)
                r = path_parameter(path, sizeof(path), "subject", a->subject);
        if (r == 0)
                r = path_parameter(path, sizeof(path), "reason", a->reason);
        if (r == 0)
                r = path_parameter(path, sizeof(path), "until", a->until);
        if (r < 0)
                return problem_set(problem, r, NULL, "check, subject or reason: %s", strerror(-r));
        return hostd_call(o->root, method, path, ORDER_TIMEOUT, ret, problem);
}

/* words from this one on are the reason: it need not be quoted. */
static int give_order(const struct options *o, const char *path, struct about a, const struct words *w,
                      size_t from, const char *word) {
        _cleanup_free_ char *reason = words_join(w, from);
        char until[CLOCK_TEXT_MAX];
        struct problem problem;
        json_auto_t *answer = NULL;

        if (!reason)
                return EXIT_REFUSED;
        if (order_until(o, a.until, until) < 0)
                return EXIT_USAGE;
        a.reason = reason;
        a.until = a.until ? until : NULL;
        if (call_order(o, "PUT", path, &a, &answer, &problem) < 0)
                return problem_complain(&problem);
        screen_order(word, answer, stdout);
        return 0;
}

/* -ENOENT: there was none, and that is no failure; else the exit code. */
static int end_order(const struct options *o, const char *path, const struct about *a, bool optional) {
        struct problem problem;
        json_auto_t *answer = NULL;
        int r = call_order(o, "DELETE", path, a, &answer, &problem);

        if (r == -ENOENT && optional)
                return -ENOENT;
        if (r < 0)
                return problem_complain(&problem);
        screen_order("ended:", answer, stdout);
        return 0;
}

/* --- Verbs --------------------------------------------------------------------------------------------- */

static int hold_runs(const struct ctl *c, int argc, char *argv[], const char *path, const char *word,
                     struct options *o) {
        const char *until = NULL;
        const struct option_def defs[] = { OPTION_UNTIL(&until, "ends by itself") };
        struct words w;
        int r;

        o->synopsis = "REASON [--until TIME]";
        o->defs = defs;
        o->n_defs = ELEMENTSOF(defs);
        r = words_parse(c, o, argc, argv, 1, WORDS_MAX, &w);
        return r < 0 ? options_exit(r) : give_order(o, path, (struct about){ .until = until }, &w, 0, word);
}

int verb_cordon(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl cordon",
                             .summary = "No new run should start on this host: 'tpuctl run' refuses. Runs "
                                        "that are here go on. "
                                        "Root only." };

        return hold_runs(c, argc, argv, "/v1/cordon", "cordoned", &o);
}

int verb_drain(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl drain",
                             .summary =
                                     "As cordon, and says when the last run has ended (tpuctl status; event "
                                     "tpu.host.drained). Ends no run. Root only." };

        return hold_runs(c, argc, argv, "/v1/drain", "draining", &o);
}

int verb_uncordon(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl uncordon",
                             .synopsis = "",
                             .summary = "Ends cordon and drain. Root only." };
        const struct about a = { 0 };
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w), cordon, drain;

        if (r < 0)
                return options_exit(r);
        cordon = end_order(&o, "/v1/cordon", &a, true);
        if (cordon > 0)
                return cordon;
        drain = end_order(&o, "/v1/drain", &a, true);
        if (drain > 0)
                return drain;
        if (cordon == -ENOENT && drain == -ENOENT)
                puts("this host was neither cordoned nor draining");
        return 0;
}

/* "nic.mtu:eth0" → check and subject (NULL: every one). */
static void split(const char *word, char *check, size_t size, const char **ret_subject) {
        const char *colon = strchr(word, ':');

        (void) snprintf(check, size, "%.*s",
                        (int) (colon ? colon - word : (ptrdiff_t) MIN(strlen(word), size - 1)), word);
        *ret_subject = colon && colon[1] ? colon + 1 : NULL;
}

int verb_silence(const struct ctl *c, int argc, char *argv[]) {
        struct about a = { 0 };
        const struct option_def defs[] = { OPTION_UNTIL(&a.until, "its end, which must be given") };
        struct options o = VERB_OPTIONS(
                "silence", "CHECK[:SUBJECT] --until TIME REASON", defs,
                "A check (nic.mtu, nic.mtu:eth0) or a group of checks (nic) does not count for the host's "
                "state. Its changes are still\n"
                "events. Root only.");
        struct words w;
        char check[128];
        int r = words_parse(c, &o, argc, argv, 2, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (!a.until)
                return options_fail("tpuctl silence", EXIT_USAGE,
                                    "--until is missing: a silence without an end is forgotten");
        split(w.items[0], check, sizeof(check), &a.subject);
        a.check = check;
        return give_order(&o, "/v1/silence", a, &w, 1, "silenced");
}

int verb_unsilence(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl unsilence",
                             .synopsis = "CHECK[:SUBJECT]",
                             .summary = "Ends a silence, named as 'tpuctl status' shows it. Root only." };
        struct about a = { 0 };
        char check[128];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        split(w.items[0], check, sizeof(check), &a.subject);
        a.check = check;
        return end_order(&o, "/v1/silence", &a, false);
}

static void warn_configured(const char *root) {
        struct problem problem;
        json_auto_t *status = NULL;

        if (hostd_call(root, NULL, "/v1/status", HOSTD_TIMEOUT, &status, &problem) == 0 &&
            json_is_true(json_object_get(status, "observe_configured")))
                fputs("tpuctl mode: Mode=observe of the configuration (section [Netcfg]) still holds\n",
                      stderr);
}

int verb_mode(const struct ctl *c, int argc, char *argv[]) {
        struct about a = { 0 };
        const struct option_def defs[] = { OPTION_UNTIL(&a.until, "observe ends by itself") };
        struct options o = VERB_OPTIONS(
                "mode", "observe|repair [REASON] [--until TIME]", defs,
                "observe: the agents of this host watch everything and change nothing. repair: as "
                "configured again. Root only.");
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (streq(w.items[0], "observe"))
                return give_order(&o, "/v1/observe", a, &w, 1, "observing");
        if (!streq(w.items[0], "repair") || w.n > 1 || a.until)
                return options_fail("tpuctl mode", EXIT_USAGE,
                                    "it is 'observe [REASON] [--until TIME]' or 'repair'");
        r = end_order(&o, "/v1/observe", &a, true);
        if (r == -ENOENT)
                puts("nobody had ordered to observe");
        if (r <= 0)
                warn_configured(o.root);
        return MAX(r, 0);
}

/* --- For other verbs ----------------------------------------------------------------------------------- */

int order_refuses_run(const char *root, struct problem *problem) {
        char by[FIELD_TEXT_MAX], reason[FIELD_TEXT_MAX];
        const json_t *drain, *o;
        struct problem ignored;
        json_auto_t *status = NULL;

        /* No agent, no order that could be known: runs do not depend on it. */
        if (hostd_call(root, NULL, "/v1/status", 2 * USEC_PER_SEC, &status, &ignored) < 0)
                return 0;
        drain = json_object_get(status, "drain");
        o = json_is_object(drain) ? drain : json_object_get(status, "cordon");
        if (!json_is_object(o))
                return 0;
        return problem_set(
                problem, -EACCES,
                "sudo tpuctl uncordon, when that is over; --despite-cordon starts it all the same",
                "this host is %s by %s: %s", o == drain ? "draining" : "cordoned",
                field_text(o, "by", by), field_text(o, "reason", reason));
}

int order_ask(const char *prompt, char *ret, size_t size) {
        if (!isatty(STDIN_FILENO) || !isatty(STDERR_FILENO))
                return -ENOTTY;
        print_clean(stderr, prompt, false);
        if (!fgets(ret, (int) size, stdin))
                return -EIO;
        if (!strchr(ret, '\n')) { /* the rest of a line that is too long is no answer to the next question */
                for (int c = getchar(); c != '\n' && c != EOF;)
                        c = getchar();
                return -E2BIG;
        }
        ret[strcspn(ret, "\n")] = '\0';
        return 0;
}

int order_ask_yes(const char *program, const char *prompt) {
        char answer[8];
        int r = order_ask(prompt, answer, sizeof(answer));

        if (r < 0 && r != -E2BIG)
                return options_fail(program, -EPERM,
                                    "nothing is ordered: there is no terminal to ask for a yes on\n"
                                    "to do:  the same with --yes");
        if (r == 0 && (streq(answer, "y") || streq(answer, "yes")))
                return 0;
        return options_fail(program, -EPERM, "nothing is ordered");
}
