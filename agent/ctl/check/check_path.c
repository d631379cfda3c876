/* SPDX-License-Identifier: Apache-2.0 */
#include "check_look.h"

#include "ctl.h"
#include "host.h"
#include "identity.h"
#include "pathproof.h"
#include "report.h"
#include "table.h"

struct answer {
        sd_event *event;
        struct path_report report;
};

static void on_done(struct path_report *r, void *userdata) {
        struct answer *a = userdata;

        a->report = *r;
        *r = PATH_REPORT_NULL;
        (void) sd_event_exit(a->event, 0); /* fails only in a loop that has ended */
}

/* Every worker of the slice, and what the configuration names; this host's own name falls out by its
 * address. */
static int default_peers(const struct host *h, const char *config, struct path_peers *peers) {
        _cleanup_identity_ struct identity identity = IDENTITY_NULL;
        const char *workers;
        char why[96];
        int r = path_peers_load(h, config, peers);

        if (r == 0)
                r = identity_load(h, config, &identity);
        workers = r == 0 ? identity_get(&identity, identity_workers(&identity)) : NULL;
        if (!workers)
                return r;
        r = path_peers_add(peers, workers, why);
        if (r < 0)
                fprintf(stderr, "tpuctl check: %s from %s: %s\n",
                        identity_field_name(identity_workers(&identity)),
                        identity.fields[identity_workers(&identity)].origin, why);
        return r;
}

static int run_proof(const struct host *h, const char *config, const struct path_peers *peers,
                     bool asked_for, struct answer *a) {
        _cleanup_(pathproof_freep) struct pathproof *p = NULL;
        struct intent intent = { 0 };
        int r;

        /* Nics= and IgnoreNics= are all that is wanted of it: without any profile, NICs are
         * distinguished. */
        (void) intent_load(h, config, &intent);
        r = sd_event_new(&a->event);
        if (r >= 0)
                r = pathproof_new(a->event, h, &intent, peers, asked_for, on_done, a, &p);
        if (r >= 0)
                r = sd_event_loop(a->event);
        return r;
}

/* Sends packets. -errno after saying why. */
static int prove(const struct options *o, const char *words, struct path_report *ret) {
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        struct answer a = { 0 };
        char why[96];
        int r = host_open(o->root, &h);

        if (r == 0)
                r = words ? path_peers_add(&peers, words, why) : default_peers(&h, o->config, &peers);
        if (r == 0)
                r = run_proof(&h, o->config, &peers, words != NULL, &a);
        (void) sd_event_unref(a.event);
        if (r < 0)
                fprintf(stderr, "tpuctl check: the paths cannot be tried: %s\n",
                        r == -EOPNOTSUPP ? "--root names another machine's files, and packets leave this one"
                        : r == -E2BIG    ? "too many peers; name some with --peer"
                                         : strerror(-r));
        *ret = a.report;
        return MIN(r, 0);
}

/* --- The verb ------------------------------------------------------------------------------------------ */

static int print_path_report(const struct path_report *p, bool json) {
        enum verdict worst = finding_list_worst(&p->findings);
        int r;

        if (json)
                r = report_print_json(stdout, path_report_to_json(p));
        else {
                r = report_print_text(stdout, &p->findings);
                printf("\n%zu path%s tried with %zu packet%s in %.2f s\n", p->n_results,
                       p->n_results == 1 ? "" : "s", p->packets, p->packets == 1 ? "" : "s",
                       (double) p->duration / (double) USEC_PER_SEC);
        }
        if (r < 0)
                fprintf(stderr, "tpuctl check: the report is not complete: %s\n", strerror(-r));
        return r < 0 || p->findings.n == 0 ? EXIT_NO_ANSWER : verdict_exit_code(worst);
}

static int refuse_peers(const char *text) {
        return options_fail("tpuctl check", EXIT_USAGE, "--peer: %s", text);
}

int check_path(const struct options *o, const char *names, bool json) {
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        _cleanup_path_report_ struct path_report report = PATH_REPORT_NULL;
        char why[96];

        if (names && path_peers_add(&peers, names, why) < 0)
                return refuse_peers(why);
        if (names && peers.n == 0)
                return refuse_peers("no peer is named");
        if (prove(o, names, &report) < 0)
                return EXIT_NO_ANSWER;
        return print_path_report(&report, json);
}
