/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path proof for the API's callers: at most one at a time, in this loop, and its report is kept until
 * the next. Whoever opens the socket may have the host's own peers proven, so that starts are apart in time;
 * other addresses are for root of this very host to name: what leaves from here must not be anybody's choice.
 */
#include <malloc.h>

#include "agent.h"
#include "calls.h"
#include "log.h"
#include "pathproof.h"
#include "http_routes.h"

#define PEERS_MAX 256 /* of one proof: what PATHPROOF_TIME is kept for */
#define APART (10 * USEC_PER_SEC)

struct agent_path {
        struct bus *bus;
        struct path_peers configured;
        struct pathproof *proof; /* NULL: none is under way */
        struct http_call *call; /* waits for it; NULL: nobody does */
        struct http_caller caller; /* who started it */
        usec_t started; /* boot clock, of the last; 0: never */
        char *last; /* the last report; NULL: none yet */
};

/* --- The end ------------------------------------------------------------------------------------------- */

static void tell(struct agent_path *p, const struct path_report *report) {
        char result[96];

        (void) snprintf(result, sizeof(result), "%zu paths tried with %zu packets: %s", report->n_results,
                        report->packets, verdict_name(finding_list_worst(&report->findings)));
        call_audit(p->bus, "POST /v1/path", &p->caller, result);
}

static void on_done(struct path_report *report, void *userdata) {
        struct agent_path *p = userdata;
        json_t *o = path_report_to_json(report);
        struct http_reply answer;

        tell(p, report);
        p->proof = pathproof_free(p->proof); /* and the report with it */
        free(p->last);
        p->last = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        (void) answer_json(&answer, 200, o);
        http_answer(TAKE_PTR(p->call), &answer);
        (void) malloc_trim(0); /* hundreds of findings were here; nothing like them comes for a long time */
}

/* --- Calls --------------------------------------------------------------------------------------------- */

static int default_peers(const struct bus *b, struct path_peers *peers, char why[static 96]) {
        const char *workers = identity_get(&b->identity, identity_workers(&b->identity));

        for (size_t i = 0; i < agent_of(b)->path->configured.n; i++) {
                int r = path_peers_add_one(peers, &agent_of(b)->path->configured.items[i], why);

                if (r < 0)
                        return r;
        }
        return workers ? path_peers_add(peers, workers, why) : 0;
}

/* 0: may start; 1: *ret says why not. */
static int check_call(struct bus *b, const struct http_request *r, struct http_reply *ret) {
        usec_t now = host_now(b->host);

        if (route_text(r, "peer") && !caller_is_root(r->caller))
                return call_refuse(b, r, ret, NULL, 403, "only root may name peers",
                              "POST /v1/path without peer= tries the workers of the slice; "
                              "tpuctl check path --peer A,B runs as you") == 0;
        if (agent_of(b)->path->proof)
                return call_refuse(b, r, ret, NULL, 409, "a proof is under way",
                              "GET /v1/path has its result within 3 s") == 0;
        if (!caller_is_root(r->caller) && agent_of(b)->path->started > 0 && now < agent_of(b)->path->started + APART)
                return call_refuse(b, r, ret, NULL, 429, "the last proof was started less than 10 s ago",
                              "GET /v1/path has its result; tpuctl check path runs as you") == 0;
        return 0;
}

int agent_path_post(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        const char *names = route_text(r, "peer");
        struct agent_path *p = agent_of(b)->path;
        char why[96];
        int k;

        if (check_call(b, r, ret) > 0)
                return 0;
        k = names ? path_peers_add(&peers, names, why) : default_peers(b, &peers, why);
        if (k == 0 && names && peers.n == 0) {
                (void) snprintf(why, sizeof(why), "peer= names nobody");
                k = -EINVAL;
        }
        if (k < 0)
                return call_refuse(b, r, ret, NULL, 400, why, "POST /v1/path?peer=HOST,NIC=ADDRESS");
        if (peers.n > PEERS_MAX)
                return call_refuse(b, r, ret, NULL, 400, "more than 256 peers",
                              "name some: peer=A,B; or tpuctl check path");
        k = pathproof_new(b->event, b->host, &b->intent, &peers, names != NULL, on_done, p, &p->proof);
        if (k == -EOPNOTSUPP)
                return call_refuse(b, r, ret, NULL, 503,
                              "--root names another machine's files, and packets leave this one",
                              "tpuctl check path on that machine");
        if (k < 0)
                return call_refuse(b, r, ret, NULL, 503, strerror(-k), "tpuctl check path");
        p->started = host_now(b->host);
        http_hold(r, &p->call);
        p->caller = *r->caller;
        return 1;
}

int agent_path_get(void *self, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = self;
        char *text;

        (void) r;
        if (!agent_of(b)->path->last)
                return answer_error(ret, 404, "POST /v1/path starts one",
                                          "no path was proven since tpu-hostd started");
        text = strdup(agent_of(b)->path->last);
        if (!text)
                return answer_error(ret, 500, "", "out of memory");
        *ret = (struct http_reply){
                .status = 200, .content_type = "application/json", .body = text, .len = strlen(text)
        };
        return 0;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

void agent_path_reload(struct bus *b) {
        struct path_peers fresh = PATH_PEERS_NULL;
        int r = path_peers_load(b->host, b->config_file, &fresh);

        if (r < 0) {
                log_warning_errno(r, "[Path] cannot be read: %m; what was known of it stays");
                path_peers_clear(&fresh);
                return;
        }
        path_peers_clear(&agent_of(b)->path->configured);
        agent_of(b)->path->configured = fresh;
}

int agent_path_start(struct bus *b) {
        agent_of(b)->path = calloc(1, sizeof(*agent_of(b)->path));
        if (!agent_of(b)->path)
                return -ENOMEM;
        agent_of(b)->path->bus = b;
        agent_path_reload(b);
        return 0;
}

void agent_path_stop(struct bus *b) {
        if (!agent_of(b)->path)
                return;
        (void) pathproof_free(agent_of(b)->path->proof);
        path_peers_clear(&agent_of(b)->path->configured);
        free(agent_of(b)->path->last);
        free(agent_of(b)->path);
        agent_of(b)->path = NULL;
}
