/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl cordon, uncordon, drain, silence, unsilence, mode: what a person orders for this host. */
#include <curl/curl.h>

#include "clock.h"
#include "config.h"
#include "ctl.h"
#include "hostd.h"
#include "order.h"
#include "screen.h"
#include "table.h"
#include "words.h"

#define ORDER_TIMEOUT (20 * USEC_PER_SEC) /* the answer waits for the disk */
#define DAY (24 * 3600 * USEC_PER_SEC)

/* --- The end ------------------------------------------------------------------------------------------- */

/* "2h", "30min", "3d" from now, or the time itself. */
int order_until_text(const char *given, char buf[static CLOCK_TEXT_MAX]) {
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

/* --- The call ------------------------------------------------------------------------------------------ */

struct argument {
        const char *name, *value; /* value NULL: not given */
};

static char *make_path(const char *path, const struct argument *arguments, size_t n) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);
        const char *between = "?";
        bool failed = !f;

        if (!f)
                return NULL;
        fputs(path, f);
        for (size_t i = 0; i < n; i++) {
                char *escaped = arguments[i].value ? curl_easy_escape(NULL, arguments[i].value, 0) : NULL;

                if (!arguments[i].value)
                        continue;
                failed |= !escaped;
                fprintf(f, "%s%s=%s", between, arguments[i].name, escaped ? escaped : "");
                curl_free(escaped);
                between = "&";
        }
        if (fclose(f) == EOF || failed) {
                free(text);
                return NULL;
        }
        return text;
}

static int call(const struct options *o, const char *method, const char *path,
                const struct argument *arguments, size_t n, json_t **ret, struct problem *problem) {
        _cleanup_free_ char *whole = make_path(path, arguments, n);

        *problem = (struct problem){ 0 };
        if (!whole)
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        return hostd_call(o->root, method, whole, ORDER_TIMEOUT, ret, problem);
}

/* Words joined by blanks: a reason need not be quoted. */
static char *join(const struct words *w, size_t from) {
        char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        for (size_t i = from; i < w->n; i++)
                fprintf(f, "%s%s", i > from ? " " : "", w->items[i]);
        if (fclose(f) == EOF) {
                free(text);
                return NULL;
        }
        return text;
}

static int order(const struct options *o, const char *path, const char *check, const char *subject,
                 const char *reason, const char *until, const char *word) {
        char end[CLOCK_TEXT_MAX];
        const struct argument arguments[] = { { "check", check },
                                              { "subject", subject },
                                              { "reason", reason },
                                              { "until", until ? end : NULL } };
        struct problem problem;
        json_t *answer;

        if (until && order_until_text(until, end) < 0) {
                fprintf(stderr,
                        "%s: --until is a span as 30min, 2h or 3d, or a time as 2026-11-21T10:00:00Z, not "
                        "'%s'\n",
                        o->program, until);
                return EXIT_USAGE;
        }
        if (call(o, "PUT", path, arguments, ELEMENTSOF(arguments), &answer, &problem) < 0)
                return problem_complain(&problem);
        screen_order(word, answer, stdout);
        json_decref(answer);
        return 0;
}

static int end(const struct options *o, const char *path, const char *check, const char *subject,
               bool optional) {
        const struct argument arguments[] = { { "check", check }, { "subject", subject } };
        struct problem problem;
        json_t *answer;
        int r;

        r = call(o, "DELETE", path, arguments, ELEMENTSOF(arguments), &answer, &problem);
        if (r == -ENOENT && optional)
                return -ENOENT;
        if (r < 0)
                return problem_complain(&problem);
        screen_order("ended:", answer, stdout);
        json_decref(answer);
        return 0;
}

/* --- Verbs --------------------------------------------------------------------------------------------- */

static int hold_runs(const struct ctl *c, int argc, char *argv[], const char *path, const char *word,
                     struct options *o) {
        const char *until = NULL;
        const struct option_def defs[] = {
                { "until", "TIME", "ends by itself: 2h, 3d or 2026-11-21T10:00:00Z", &until, NULL }
        };
        _cleanup_free_ char *reason = NULL;
        struct words w;
        int r;

        o->synopsis = "REASON [--until TIME]";
        o->defs = defs;
        o->n_defs = ELEMENTSOF(defs);
        r = words_parse(c, o, argc, argv, 1, WORDS_MAX, &w);
        if (r < 0)
                return options_exit(r);
        reason = join(&w, 0);
        return reason ? order(o, path, NULL, NULL, reason, until, word) : EXIT_REFUSED;
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
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 0, &w), cordon, drain;

        if (r < 0)
                return options_exit(r);
        cordon = end(&o, "/v1/cordon", NULL, NULL, true);
        if (cordon > 0)
                return cordon;
        drain = end(&o, "/v1/drain", NULL, NULL, true);
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
        const char *until = NULL, *subject;
        const struct option_def defs[] = { { "until", "TIME",
                                             "its end, which must be given: 2h, 3d or 2026-11-21T10:00:00Z",
                                             &until, NULL } };
        struct options o = { .program = "tpuctl silence",
                             .synopsis = "CHECK[:SUBJECT] --until TIME REASON",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "A check (nic.mtu, nic.mtu:eth0) or a group of checks (nic) does "
                                        "not count for the host's "
                                        "state. Its changes are still\nevents. Root only." };
        _cleanup_free_ char *reason = NULL;
        char check[128];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 2, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (!until) {
                fputs("tpuctl silence: --until is missing: a silence without an end is forgotten\n", stderr);
                return EXIT_USAGE;
        }
        split(w.items[0], check, sizeof(check), &subject);
        reason = join(&w, 1);
        return reason ? order(&o, "/v1/silence", check, subject, reason, until, "silenced") : EXIT_REFUSED;
}

int verb_unsilence(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl unsilence",
                             .synopsis = "CHECK[:SUBJECT]",
                             .summary = "Ends a silence, named as 'tpuctl status' shows it. Root only." };
        const char *subject;
        char check[128];
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, 1, &w);

        if (r < 0)
                return options_exit(r);
        split(w.items[0], check, sizeof(check), &subject);
        return end(&o, "/v1/silence", check, subject, false);
}

static void warn_configured(const char *root) {
        struct problem problem = { 0 };
        json_t *status = NULL;

        if (hostd_ask(root, "/v1/status", false, 5 * USEC_PER_SEC, &status, &problem) == 0 &&
            json_is_true(json_object_get(status, "observe_configured")))
                fputs("tpuctl mode: Mode=observe of the configuration (section [Netcfg]) still holds\n",
                      stderr);
        json_decref(status);
}

int verb_mode(const struct ctl *c, int argc, char *argv[]) {
        const char *until = NULL;
        const struct option_def defs[] = {
                { "until", "TIME", "observe ends by itself: 2h, 3d or 2026-11-21T10:00:00Z", &until, NULL }
        };
        struct options o = {
                .program = "tpuctl mode",
                .synopsis = "observe|repair [REASON] [--until TIME]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary =
                        "observe: the agents of this host watch everything and change nothing. repair: as "
                        "configured again. Root only."
        };
        _cleanup_free_ char *reason = NULL;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 1, WORDS_MAX, &w);

        if (r < 0)
                return options_exit(r);
        if (streq(w.items[0], "observe")) {
                reason = join(&w, 1);
                return reason ? order(&o, "/v1/observe", NULL, NULL, reason, until, "observing")
                              : EXIT_REFUSED;
        }
        if (!streq(w.items[0], "repair") || w.n > 1 || until) {
                fputs("tpuctl mode: it is 'observe [REASON] [--until TIME]' or 'repair'\n", stderr);
                return EXIT_USAGE;
        }
        r = end(&o, "/v1/observe", NULL, NULL, true);
        if (r == -ENOENT)
                puts("nobody had ordered to observe");
        if (r <= 0)
                warn_configured(o.root);
        return MAX(r, 0);
}

/* --- For other verbs ----------------------------------------------------------------------------------- */

static const json_t *order_against_runs(const json_t *status, const char **ret_word) {
        const json_t *drain = json_object_get(status, "drain"), *cordon = json_object_get(status, "cordon");

        *ret_word = json_is_object(drain) ? "draining" : "cordoned";
        return json_is_object(drain) ? drain : json_is_object(cordon) ? cordon : NULL;
}

int order_refuses_run(const char *root, struct problem *problem) {
        struct problem ignored = { 0 };
        json_t *status = NULL;
        const json_t *o;
        const char *word;
        int r = 0;

        /* No agent, no order that could be known: runs do not depend on it. */
        if (hostd_ask(root, "/v1/status", false, 2 * USEC_PER_SEC, &status, &ignored) < 0)
                return 0;
        o = order_against_runs(status, &word);
        if (o) {
                char n[3][FIELD_TEXT_MAX];

                r = problem_set(
                        problem, -EACCES,
                        "sudo tpuctl uncordon, when that is over; --despite-cordon starts it all the same",
                        "this host is %s by %s: %s", word, field_text(o, "by", n[0]),
                        field_text(o, "reason", n[1]));
        }
        json_decref(status);
        return r;
}
