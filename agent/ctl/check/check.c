/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl check: every probe, here and now, without any daemon and without root. */
#include <poll.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <time.h>

#include "answer.h"
#include "check_look.h"
#include "check_path.h"
#include "golden.h"
#include "identity.h"
#include "intent.h"
#include "report.h"
#include "verb_words.h"

#define WATCH_INTERVAL (5 * USEC_PER_SEC)

struct request {
        const struct options *options;
        const char *name; /* as given: "nic", "nic.mtu"; NULL: all */
        const struct probe *one;
        const char *only;
        bool json, watch;
        bool problems; /* what is OK is only counted */
        bool agent; /* what tpu-hostd says is asked for by name */
        struct finding_list *golden; /* NULL: none */
};

#define IDENTITY_CHECK "identity" /* who this host is: no probe, but a check like the others */

/* "nic" or "nic.mtu" → the probe; NULL stands for all, and for none with a name of the identity's or
 * tpu-hostd's checks.
 */
static int select_probe(const char *name, struct request *q) {
        char probe[32];

        q->name = name;
        if (!name)
                return 0;
        q->agent = check_agent_is(name);
        if (q->agent) {
                q->only = name;
                return 0;
        }
        (void) snprintf(probe, sizeof(probe), "%.*s", (int) strcspn(name, "."), name);
        q->one = probe_find(probe);
        q->only = strchr(name, '.') ? name : NULL;
        if (q->one || streq(probe, IDENTITY_CHECK))
                return 0;
        fprintf(stderr, "tpuctl check: there is no check '%s'. There are:\n", name);
        for (size_t i = 0; probe_table[i]; i++)
                fprintf(stderr, "  %-11s %s\n", probe_table[i]->name, probe_table[i]->summary);
        fprintf(stderr, "  %-11s %s\n", IDENTITY_CHECK,
                "slice, worker and chips: what does not fit together");
        fprintf(stderr, "  %-11s %s\n", CHECK_AGENT,
                "the BPF programs of tpu-hostd: which run, and why others do not");
        fprintf(stderr, "  %-11s %s\n  %-11s %s\n", "enroll", "the registry, and this host's place in it",
                "preflight", "what stands against a run with the other hosts");
        fprintf(stderr, "  %-11s %s\n", "path",
                "packets of full size to every peer (only when asked for by name)");
        return -EINVAL;
}

/* --- Printing ------------------------------------------------------------------------------------------ */

static int print_json(const struct host *h, enum verdict worst, const struct finding_list *l) {
        char host[HOST_NAME_SIZE];

        if (host_name(h, host) < 0)
                host[0] = '\0';
        return report_print_json(stdout, json_pack("{s:s, s:s, s:o}", "host", host, "verdict",
                                                   verdict_name(worst), "checks",
                                                   finding_list_to_json(l)));
}

static void print_sums(const struct finding_list *l) {
        size_t n[_VERDICT_MAX] = { 0 };

        for (size_t i = 0; i < l->n; i++)
                n[l->items[i].verdict]++;
        printf("\n%zu check%s: %zu OK, %zu WARN, %zu FAIL, %zu UNKNOWN\n", l->n, l->n == 1 ? "" : "s",
               n[VERDICT_OK], n[VERDICT_WARN], n[VERDICT_FAIL], n[VERDICT_UNKNOWN]);
}

/* What people ordered is known to tpu-hostd only; a look at the host does not need it. */
static void print_orders(const char *root) {
        struct problem ignored;
        json_t *status = NULL;

        if (hostd_call(root, NULL, "/v1/status", USEC_PER_SEC, &status, &ignored) == 0)
                screen_orders(status, "ordered:", stdout);
        json_decref(status);
}

/* It was just asked whether it answers: it is not waited for again. */
static bool hostd_is_silent(const struct seen *seen) {
        for (size_t i = 0; i < seen->all.n; i++)
                if (streq(seen->all.items[i].check, "daemon.state") &&
                    streq(seen->all.items[i].subject, "tpu-hostd"))
                        return seen->all.items[i].verdict != VERDICT_OK;
        return false;
}

static int take_problems(const struct finding_list *l, struct finding_list *ret) {
        int r = 0;

        for (size_t i = 0; i < l->n && r == 0; i++)
                if (l->items[i].verdict != VERDICT_OK)
                        r = finding_list_add(ret, &l->items[i]);
        return r;
}

/* A name asks for every line; the whole host is shown on one screen. */
static int print_text(const struct request *q, const struct seen *seen) {
        struct finding_list lines[_GROUP_MAX] = { FINDING_LIST_NULL };
        struct report_group groups[_GROUP_MAX];
        bool whole = q->name && !q->problems;
        size_t shown = 0;
        int r = 0;

        for (enum probe_group g = 0; g < _GROUP_MAX; g++) {
                if (r == 0 && !whole)
                        r = (q->problems ? take_problems : fold_findings)(&seen->groups[g], &lines[g]);
                groups[g] =
                        (struct report_group){ probe_group_title(g), whole ? &seen->groups[g] : &lines[g] };
                shown += groups[g].list->n;
        }
        if (r == 0)
                r = report_print_groups(stdout, groups, ELEMENTSOF(groups));
        if (seen->all.n > 0)
                print_sums(&seen->all);
        if (shown < seen->all.n && !q->problems)
                puts("OK and alike share a line; each has its own with a name, as in tpuctl check nic");
        for (enum probe_group g = 0; g < _GROUP_MAX; g++)
                finding_list_clear(&lines[g]);
        return r;
}

static int print_difference(const struct host *h, const struct request *q, const struct seen *seen) {
        _cleanup_finding_list_ struct finding_list differences = FINDING_LIST_NULL;
        int r;

        r = golden_compare(q->golden, &seen->all, q->name, &differences);
        if (r == 0)
                r = q->json ? print_json(h, finding_list_worst(&differences), &differences)
                            : report_print_text(stdout, &differences);
        if (r == 0 && !q->json)
                printf("%s%zu of %zu checks differ%s from the golden report\n",
                       differences.n > 0 ? "\n" : "", differences.n, seen->all.n,
                       differences.n == 1 ? "s" : "");
        return r < 0 ? r : verdict_exit_code(finding_list_worst(&differences));
}

/* The exit code. */
static int print_report(const struct host *h, const struct request *q, const struct seen *seen) {
        enum verdict worst = q->agent ? finding_list_worst(&seen->all) : check_agent_worst(&seen->all);
        int r, code;

        if (q->golden)
                r = code = print_difference(h, q, seen);
        else {
                _cleanup_finding_list_ struct finding_list problems = FINDING_LIST_NULL;

                r = q->json && q->problems ? take_problems(&seen->all, &problems) : 0;
                if (r == 0)
                        r = q->json ? print_json(h, worst, q->problems ? &problems : &seen->all)
                                    : print_text(q, seen);
                if (!q->json)
                        print_orders(q->options->root);
                code = seen->all.n == 0 ? EXIT_NO_ANSWER : verdict_exit_code(worst);
        }
        if (r >= 0 && !seen->incomplete)
                return code;
        fprintf(stderr, "tpuctl check: the report is not complete: %s\n",
                r < 0 ? strerror(-r) : "more findings than fit");
        return EXIT_NO_ANSWER;
}

/* --- Looking ------------------------------------------------------------------------------------------- */

static void check_identity(const struct identity *i, const char *only, struct seen *seen) {
        _cleanup_finding_list_ struct finding_list findings = FINDING_LIST_NULL;

        seen->incomplete |= identity_check(i, &findings) < 0;
        for (size_t k = 0; k < findings.n; k++)
                seen_add(seen, GROUP_IDENTITY, only, &findings.items[k]);
}

/* Of a machine without TPUs, which is nobody's worker, one line is all unless more is asked for. */
static bool is_only_without(const struct look *look, const struct request *q, const struct identity *i,
                            struct seen *ret) {
        struct look tpu = *look;

        if (q->name || q->golden || !look->context->intent || !look->context->intent->no_tpu ||
            identity_get(i, IDENTITY_SLICE_NAME))
                return false;
        tpu.one = probe_find("tpu");
        check_look(&tpu, ret);
        if (ret->all.n == 1 && ret->all.items[0].verdict == VERDICT_OK)
                return true;
        seen_clear(ret);
        *ret = (struct seen) { 0 };
        return false;
}

/* What is wanted is read again each time: --watch shows what an edit does. False: there is no more to look
 * at. */
static bool look_at_host(const struct host *h, const struct request *q, bool again, struct seen *ret) {
        struct look look;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        struct probe_context context = { 0 };
        struct intent intent;
        int r;

        r = intent_load(h, q->options->config, &intent);
        if (r < 0 && !again)
                fprintf(stderr, "tpuctl check: no network profile can be read: %s\n", strerror(-r));
        if (r == 0) {
                context.intent = &intent;
                if (intent.profile_note[0] && !intent.no_tpu && !again)
                        fprintf(stderr, "tpuctl check: %s\n", intent.profile_note);
        }
        if (identity_load(h, q->options->config, &identity) == 0) {
                context.machine_type = identity_get(&identity, IDENTITY_MACHINE_TYPE);
                if (!identity_is_derived(&identity, IDENTITY_CHIPS) &&
                    identity_get_u32(&identity, IDENTITY_CHIPS, &context.chips_wanted) == 0)
                        context.chips_source = identity.fields[IDENTITY_CHIPS].origin;
        }
        look = (struct look) { h, &context, q->one, q->only };
        if (is_only_without(&look, q, &identity, ret))
                return false;
        if (q->one || !q->name)
                check_look(&look, ret);
        if (!q->one)
                check_identity(&identity, q->only, ret);
        return true;
}

static int look_once(const struct host *h, const struct request *q, bool again) {
        _cleanup_seen_ struct seen seen = { 0 };

        bool more = q->agent || look_at_host(h, q, again, &seen);

        /* Of all of them; or of the daemons alone, what only tpu-hostd knows of its own disk. */
        bool disk = q->one && streq(q->one->name, "daemon");
        const char *only = q->agent    ? q->only
                           : q->golden ? CHECK_AGENT
                           : disk      ? (q->only ? q->only : "daemon.disk")
                                       : q->only;

        if (q->agent || (more && (!q->name || disk) && !hostd_is_silent(&seen)))
                check_agent(q->options->root, only, q->agent, &seen);
        if (q->only && seen.all.n == 0)
                fprintf(stderr,
                        "tpuctl check: no check answers to the name '%s'; those that do: tpuctl check "
                        "%.*s\n",
                        q->only, (int) strcspn(q->only, startswith(q->only, CHECK_AGENT) ? "_" : "."),
                        q->only);
        if (q->watch && !q->json) {
                char now[CLOCK_TEXT_MAX];

                printf("%s%s: every %u s, Ctrl-C ends\n\n",
                       isatty(STDOUT_FILENO) ? "\033[H\033[2J"
                       : again               ? "\n"
                                             : "",
                       clock_text(host_now_real(h), now), (unsigned) (WATCH_INTERVAL / USEC_PER_SEC));
        }
        return print_report(h, q, &seen);
}

/* Ctrl-C and SIGTERM end it; the exit code is the last look's. */
static int watch_host(const struct host *h, const struct request *q) {
        _cleanup_close_ int fd = -1;
        sigset_t ends;
        int code, r;

        (void) sigemptyset(&ends);
        (void) sigaddset(&ends, SIGINT);
        (void) sigaddset(&ends, SIGTERM);
        if (sigprocmask(SIG_BLOCK, &ends, NULL) < 0 || (fd = signalfd(-1, &ends, SFD_CLOEXEC)) < 0) {
                fprintf(stderr, "tpuctl check: --watch: signals cannot be watched: %s\n", strerror(errno));
                return EXIT_NO_ANSWER;
        }
        for (bool again = false;; again = true) {
                struct pollfd p = { .fd = fd, .events = POLLIN };

                code = look_once(h, q, again);
                if (fflush(stdout) == EOF)
                        return code; /* nobody reads any more */
                r = poll(&p, 1, (int) (WATCH_INTERVAL / USEC_PER_MSEC));
                if (r > 0 || (r < 0 && errno != EINTR))
                        return code;
        }
}

static int check_host(const struct request *q, const char *probe) {
        _cleanup_host_ struct host h = HOST_NULL;
        const char *root = q->options->root;
        int r;

        r = host_open(root, &h);
        if (r < 0) {
                fprintf(stderr, "tpuctl check: --root '%s' cannot be opened: %s\n", root ? root : "/",
                        strerror(-r));
                return EXIT_USAGE;
        }
        if (probe)
                return check_serve(&h, probe);
        return q->watch ? watch_host(&h, q) : look_once(&h, q, false);
}

/* 1: the path proof is meant; 0: it is not; -EINVAL after saying what does not go together. */
static int is_path(const char *name, const struct check_path_request *paths, bool others) {
        bool path = name && (streq(name, "path") || streq(name, "path.mtu"));

        if (path && others)
                fputs("tpuctl check: 'path' takes none of --golden, --problems and --watch\n", stderr);
        else if (!path && (paths->peers || paths->peer_report))
                fputs("tpuctl check: --peer and --peer-report belong to 'tpuctl check path'\n", stderr);
        else
                return path;
        return -EINVAL;
}

static int load_golden(const char *path, struct finding_list *ret) {
        char why[GOLDEN_WHY_MAX];
        int r = golden_load(path, ret, why);

        if (r < 0)
                fprintf(stderr,
                        "tpuctl check: --golden '%s': %s\nMake one on a good host: tpuctl check --json "
                        ">FILE\n",
                        path, why);
        return r;
}

int verb_check(const struct ctl *c, int argc, char *argv[]) {
        _cleanup_finding_list_ struct finding_list wanted = FINDING_LIST_NULL;
        const char *golden = NULL, *probe = NULL;
        struct check_path_request paths = { 0 };
        struct request q = { 0 };
        const struct option_def defs[] = {
                { "json", NULL, "print JSON", NULL, &q.json },
                { "problems", NULL, "show only what is not OK", NULL, &q.problems },
                { "watch", NULL, "again every 5 s, until Ctrl-C", NULL, &q.watch },
                { "golden", "FILE", "show differences to a good host's saved --json only", &golden, NULL },
                { "peer", "A,B", "check path: these hosts, or NIC=ADDRESS", &paths.peers, NULL },
                { "peer-report", "FILE", "check path: the peers' saved --json, which shows the direction",
                  &paths.peer_report, NULL },
                { "probe", "NAME", "run one probe, print its lines and exit (for tpuctl itself)", &probe,
                  NULL },
        };
        struct options o = { .program = "tpuctl check",
                             .synopsis = "[NAME] [--problems] [--json] [--watch] [--golden FILE] "
                                         "[--peer A,B] [--peer-report FILE]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Looks at this host now, without any daemon and without root. NAME "
                                        "is a group of checks (tpu, nic, disk,\n"
                                        "identity, …) or one of them (nic.mtu). 'path' sends packets of "
                                        "full size to the peers\n"
                                        "and finds what does not arrive; it runs only when asked for.\n"
                                        "Exit code: 0 all OK, 1 WARN, 2 FAIL, 3 UNKNOWN." };
        const char *name;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 1, &w);
        if (r < 0)
                return options_exit(r);
        name = w.n > 0 ? w.items[0] : NULL;
        r = is_path(name, &paths, golden || q.watch || q.problems);
        if (r < 0)
                return EXIT_USAGE;
        paths.json = q.json;
        if (r > 0)
                return check_path(&o, &paths);
        q.options = &o;
        if (golden && q.problems) {
                fputs("tpuctl check: --golden shows differences alone, without --problems\n", stderr);
                return EXIT_USAGE;
        }
        if (select_probe(name, &q) < 0)
                return EXIT_REFUSED; /* as any unknown name */
        if (golden && load_golden(golden, &wanted) < 0)
                return EXIT_USAGE;
        q.golden = golden ? &wanted : NULL;
        return check_host(&q, probe);
}
