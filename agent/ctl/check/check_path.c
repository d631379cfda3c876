/* SPDX-License-Identifier: Apache-2.0 */
#include "check_path.h"

#include "ctl.h"
#include "host.h"
#include "identity.h"
#include "pathproof.h"
#include "report.h"
#include "table.h"
#include "verdict.h"

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

/* --- Saved reports ------------------------------------------------------------------------------------- */

static int read_reports(const char *path, struct ctl_reports *ret, char why[static PATH_REPORT_WHY_MAX]) {
        _cleanup_fclose_ FILE *f = fopen(path, "re");
        _cleanup_free_ char *text = f ? malloc(PATH_REPORT_BYTES_MAX) : NULL;
        size_t n = text ? fread(text, 1, PATH_REPORT_BYTES_MAX, f) : 0;
        int r = !text || ferror(f) ? -errno : n == PATH_REPORT_BYTES_MAX ? -EFBIG : 0;

        if (r < 0)
                (void) snprintf(why, PATH_REPORT_WHY_MAX, "%s", strerror(-r));
        return r < 0 ? r : ctl_reports_add(ret, text, n, why);
}

/* One report or several, one after the other. -errno after saying why. */
static int load_reports(const char *path, struct ctl_reports *ret) {
        char why[PATH_REPORT_WHY_MAX];
        int r = read_reports(path, ret, why);

        if (r < 0)
                fprintf(stderr,
                        "tpuctl check: --peer-report '%s': %s\n"
                        "Make one there with: tpuctl check path --json >FILE\n",
                        path, why);
        return r;
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
        fprintf(stderr, "tpuctl check: --peer: %s\n", text);
        return EXIT_USAGE;
}

int check_path(const struct options *o, const struct check_path_request *q) {
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        _cleanup_(ctl_reports_clear) struct ctl_reports others = { 0 };
        _cleanup_path_report_ struct path_report report = PATH_REPORT_NULL;
        char why[96];

        if (q->peers && path_peers_add(&peers, q->peers, why) < 0)
                return refuse_peers(why);
        if (q->peers && peers.n == 0)
                return refuse_peers("no peer is named");
        if (q->peer_report && load_reports(q->peer_report, &others) < 0)
                return EXIT_USAGE;
        if (prove(o, q->peers, &report) < 0 || peer_agents_ask(o, &report, &others) < 0)
                return EXIT_NO_ANSWER;
        if (others.n > 0)
                path_report_add_witnesses(&report, others.items, others.n);
        return print_path_report(&report, q->json);
}

/* --- What the peers' own agents found ------------------------------------------------------------------ */

#define ASKED_MAX 32 /* peers: more do not fit on a screen, and show the same */
#define PATIENCE (3 * USEC_PER_SEC)
#define SEGMENT 1000 /* bytes of TCP payload: a packet of less than 1280 */

void ctl_reports_clear(struct ctl_reports *l) {
        for (size_t i = 0; i < l->n; i++)
                path_report_clear(&l->items[i]);
        free(l->items);
}

int ctl_reports_add(struct ctl_reports *l, const char *text, size_t len,
                    char why[static PATH_REPORT_WHY_MAX]) {
        size_t at = 0, used;
        int r;

        do {
                struct path_report *items = reallocarray(l->items, l->n + 1, sizeof(*items));

                if (!items) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "%s", strerror(ENOMEM));
                        return -ENOMEM;
                }
                l->items = items;
                if (l->n == REPORTS_MAX) {
                        (void) snprintf(why, PATH_REPORT_WHY_MAX, "holds too many reports");
                        return -E2BIG;
                }
                r = path_report_parse(text + at, len - at, &items[l->n], &used, why);
                if (r < 0)
                        return r;
                l->n++;
                for (at += used; at < len && strchr(" \t\r\n", text[at]) && text[at]; at++)
                        ;
        } while (at < len);
        return 0;
}

void peer_agents_name(const struct path_result *r, char ret[static PATH_NAME_MAX]) {
        size_t name = strlen(r->peer), nic = strlen(r->nic);

        (void) snprintf(ret, PATH_NAME_MAX, "%s", r->peer);
        if (name > nic + 1 && nic > 0 && ret[name - nic - 1] == '-' && streq(ret + name - nic, r->nic))
                ret[name - nic - 1] = '\0';
}

/* Of whom no packet comes, no answer comes. */
static bool wants_the_peers_word(const struct path_result *r) {
        return r->proof.answer == PROOF_SMALLER || r->proof.answer == PROOF_PIECES;
}

/* What another host says is a stranger's text. */
static void complain_of_agent(const char *name, const char *what, const char *why) {
        fprintf(stderr, "tpuctl check: the agent of %s %s: ", name, what);
        print_clean(stderr, why, false);
        fputc('\n', stderr);
}

static int ask_agent(const struct ctl_certificates *c, const char *name, struct ctl_reports *ret) {
        struct http_question q = { .timeout = PATIENCE, .segment = SEGMENT };
        char url[AGENT_URL_MAX], why[PATH_REPORT_WHY_MAX];
        struct problem problem;
        json_t *answer = NULL;
        char *text;
        int r;

        agent_request(c, name, "/v1/path", url, &q);
        r = http_json(&q, &answer, &problem);
        if (r < 0) {
                complain_of_agent(name, "gives no report", problem.text);
                return r;
        }
        text = json_dumps(answer, JSON_COMPACT);
        json_decref(answer);
        r = text ? ctl_reports_add(ret, text, strlen(text), why) : -ENOMEM;
        if (r < 0)
                complain_of_agent(name, "gives a report that is none", text ? why : strerror(ENOMEM));
        free(text);
        return r;
}

int peer_agents_ask(const struct options *o, const struct path_report *own, struct ctl_reports *ret) {
        char asked[ASKED_MAX][PATH_NAME_MAX], name[PATH_NAME_MAX];
        struct ctl_settings s;
        size_t n = 0;
        int r;

        r = ctl_settings_load(o, &s);
        if (r < 0 || !s.agents.certificate[0])
                return r;
        for (size_t i = 0; i < own->n_results && n < ASKED_MAX; i++) {
                size_t k = 0;

                if (!wants_the_peers_word(&own->results[i]))
                        continue;
                peer_agents_name(&own->results[i], name);
                while (k < n && !streq(asked[k], name))
                        k++;
                if (k < n)
                        continue;
                memcpy(asked[n++], name, sizeof(name));
                (void) ask_agent(&s.agents, name, ret); /* it has said why */
        }
        return 0;
}
