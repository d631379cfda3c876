/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl check: every probe, here and now, without any daemon and without root. */
#include "answer.h"
#include "check_look.h"
#include "identity.h"
#include "intent.h"
#include "report.h"
#include "verb_words.h"

struct request {
        const struct options *options;
        const char *name; /* as given: "nic", "nic.mtu"; NULL: all */
        const struct probe *one;
        const char *only;
        bool json;
        bool problems; /* what is OK is only counted */
        bool agent; /* what tpu-hostd says is asked for by name */
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
        json_auto_t *status = NULL;

        if (hostd_call(root, NULL, "/v1/status", USEC_PER_SEC, &status, &ignored) == 0)
                screen_orders(status, "ordered:", stdout);
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

/* The exit code. */
static int print_report(const struct host *h, const struct request *q, const struct seen *seen) {
        enum verdict worst = q->agent ? finding_list_worst(&seen->all) : check_agent_worst(&seen->all);
        _cleanup_finding_list_ struct finding_list problems = FINDING_LIST_NULL;
        int r = q->json && q->problems ? take_problems(&seen->all, &problems) : 0;

        if (r == 0)
                r = q->json ? print_json(h, worst, q->problems ? &problems : &seen->all)
                            : print_text(q, seen);
        if (!q->json)
                print_orders(q->options->root);
        if (r >= 0 && !seen->incomplete)
                return seen->all.n == 0 ? EXIT_NO_ANSWER : verdict_exit_code(worst);
        return options_fail("tpuctl check", EXIT_NO_ANSWER, "the report is not complete: %s",
                            r < 0 ? strerror(-r) : "more findings than fit");
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

        if (q->name || !look->context->intent || !look->context->intent->no_tpu ||
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

/* False: there is no more to look at. */
static bool look_at_host(const struct host *h, const struct request *q, struct seen *ret) {
        struct look look;
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        struct probe_context context = { 0 };
        struct intent intent;
        int r = intent_load(h, q->options->config, &intent);

        if (r < 0)
                fprintf(stderr, "tpuctl check: no network profile can be read: %s\n", strerror(-r));
        if (r == 0) {
                context.intent = &intent;
                if (intent.profile_note[0] && !intent.no_tpu)
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

static int look_once(const struct host *h, const struct request *q) {
        _cleanup_seen_ struct seen seen = { 0 };
        bool more = q->agent || look_at_host(h, q, &seen);

        /* Of all of them; or of the daemons alone, what only tpu-hostd knows of its own disk. */
        bool disk = q->one && streq(q->one->name, "daemon");
        const char *only = q->agent ? q->only
                           : disk   ? (q->only ? q->only : "daemon.disk")
                                    : q->only;

        if (q->agent || (more && (!q->name || disk) && !hostd_is_silent(&seen)))
                check_agent(q->options->root, only, q->agent, &seen);
        if (q->only && seen.all.n == 0)
                fprintf(stderr,
                        "tpuctl check: no check answers to the name '%s'; those that do: tpuctl check "
                        "%.*s\n",
                        q->only, (int) strcspn(q->only, startswith(q->only, CHECK_AGENT) ? "_" : "."),
                        q->only);
        return print_report(h, q, &seen);
}

static int check_host(const struct request *q, const char *probe) {
        _cleanup_host_ struct host h = HOST_NULL;
        const char *root = q->options->root;
        int r = host_open(root, &h);

        if (r < 0)
                return options_fail("tpuctl check", EXIT_USAGE, "--root '%s' cannot be opened: %s",
                                    root ? root : "/", strerror(-r));
        if (probe)
                return check_serve(&h, probe);
        return look_once(&h, q);
}

/* 1: the path proof is meant; 0: it is not; -EINVAL after saying what does not go together. */
static int is_path(const char *name, const char *peers, bool others) {
        bool path = name && (streq(name, "path") || streq(name, "path.mtu"));

        if (path && others)
                fputs("tpuctl check: 'path' goes without --problems\n", stderr);
        else if (!path && peers)
                fputs("tpuctl check: --peer belongs to 'tpuctl check path'\n", stderr);
        else
                return path;
        return -EINVAL;
}

int verb_check(const struct ctl *c, int argc, char *argv[]) {
        const char *peers = NULL, *probe = NULL;
        struct request q = { 0 };
        const struct option_def defs[] = {
                { "json", NULL, "print JSON", NULL, &q.json },
                { "problems", NULL, "show only what is not OK", NULL, &q.problems },
                { "peer", "A,B", "check path: these hosts, or NIC=ADDRESS", &peers, NULL },
                { "probe", "NAME", "run one probe, print its lines and exit (for tpuctl itself)", &probe,
                  NULL },
        };
        struct options o = VERB_OPTIONS(
                "check", "[NAME] [--problems] [--json] [--peer A,B]", defs,
                "Looks at this host now, without any daemon and without root. NAME is a group of checks "
                "(tpu, nic, disk,\n"
                "identity, …) or one of them (nic.mtu). 'path' sends packets of full size to the peers\n"
                "and finds what does not arrive; it runs only when asked for.\n"
                "Exit code: 0 all OK, 1 WARN, 2 FAIL, 3 UNKNOWN.");
        const char *name;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 1, &w);

        if (r < 0)
                return options_exit(r);
        name = w.n > 0 ? w.items[0] : NULL;
        r = is_path(name, peers, q.problems);
        if (r < 0)
                return EXIT_USAGE;
        if (r > 0)
                return check_path(&o, peers, q.json);
        q.options = &o;
        if (select_probe(name, &q) < 0)
                return EXIT_REFUSED; /* as any unknown name */
        return check_host(&q, probe);
}
