/* SPDX-License-Identifier: Apache-2.0 */
#include "check_path.h"
#include "ctl.h"
#include "host.h"
#include "identity.h"
#include "pathproof.h"
#include "report.h"

struct answer {
        sd_event *event;
        struct finding_list list;
        struct pathproof_summary summary;
};

static void on_done(struct finding_list *l, const struct pathproof_summary *s, void *userdata) {
        struct answer *a = userdata;

        a->list = *l;
        *l = FINDING_LIST_NULL;
        a->summary = *s;
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
        workers = r == 0 ? identity_get(&identity, IDENTITY_WORKER_HOSTNAMES) : NULL;
        if (!workers)
                return r;
        r = path_peers_add(peers, workers, why);
        if (r < 0)
                fprintf(stderr, "tpuctl check: worker-hostnames from %s: %s\n",
                        identity.fields[IDENTITY_WORKER_HOSTNAMES].origin, why);
        return r;
}

static int prove(const struct host *h, const struct path_peers *peers, bool asked_for, struct answer *ret) {
        _cleanup_(pathproof_freep) struct pathproof *p = NULL;
        int r = sd_event_new(&ret->event);

        if (r >= 0)
                r = pathproof_new(ret->event, h, peers, asked_for, on_done, ret, &p);
        if (r >= 0)
                r = sd_event_loop(ret->event);
        return r;
}

static int print(const struct host *h, const struct answer *a, bool json) {
        enum verdict worst = finding_list_worst(&a->list);
        double seconds = (double) a->summary.time / (double) USEC_PER_SEC;
        char name[HOST_NAME_SIZE];
        int r;

        if (host_name(h, name) < 0)
                name[0] = '\0';
        if (json)
                r = report_print_json(
                        stdout, json_pack("{s:s, s:s, s:o, s:I, s:I, s:f}", "host", name, "verdict",
                                          verdict_name(worst), "checks", finding_list_to_json(&a->list),
                                          "paths", (json_int_t) a->summary.paths, "packets",
                                          (json_int_t) a->summary.packets, "seconds", seconds));
        else {
                r = report_print_text(stdout, &a->list);
                printf("\n%zu paths tried with %zu packets in %.2f s\n", a->summary.paths,
                       a->summary.packets, seconds);
        }
        if (r < 0)
                fprintf(stderr, "tpuctl check: the report is not complete: %s\n", strerror(-r));
        return r < 0 || a->list.n == 0 ? EXIT_NO_ANSWER : verdict_exit_code(worst);
}

static int usage(const char *text) {
        fprintf(stderr, "tpuctl check: --peer: %s\n", text);
        return EXIT_USAGE;
}

int check_path(const struct options *o, const char *words, bool json) {
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        struct answer a = { 0 };
        char why[96];
        int r;

        if (words && path_peers_add(&peers, words, why) < 0)
                return usage(why);
        if (words && peers.n == 0)
                return usage("no peer is named");
        r = host_open(o->root, &h);
        if (r == 0 && !words)
                r = default_peers(&h, o->config, &peers);
        if (r == 0)
                r = prove(&h, &peers, words != NULL, &a);
        if (r < 0)
                fprintf(stderr, "tpuctl check: the paths cannot be tried: %s\n",
                        r == -EOPNOTSUPP ? "--root names another machine's files, and packets leave this one"
                        : r == -E2BIG    ? "too many peers; name some with --peer"
                                         : strerror(-r));
        r = r < 0 ? EXIT_NO_ANSWER : print(&h, &a, json);
        finding_list_clear(&a.list);
        (void) sd_event_unref(a.event);
        return r;
}
