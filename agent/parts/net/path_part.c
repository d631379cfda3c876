/* SPDX-License-Identifier: Apache-2.0 */
#include "net_part.h"

#include <malloc.h>

#include "calls.h"
#include "log.h"
#include "pathproof.h"

#define PEERS_MAX 256 /* of one proof: so many are proven in its time */
#define APART (10 * USEC_PER_SEC)

struct path_state {
        struct bus *bus;
        struct path_peers configured;
        struct pathproof *proof; /* NULL: none is in progress */
        struct http_call *call; /* waits for it; NULL: nobody does */
        struct http_caller caller; /* who started it */
        usec_t started; /* boot clock, of the last; 0: never */
        char *last; /* the last report; NULL: none yet */
};

/* --- The end ------------------------------------------------------------------------------------------- */

static void audit_proof(struct path_state *p, const struct path_report *report) {
        char result[96];

        (void) snprintf(result, sizeof(result), "%zu paths tried with %zu packets: %s", report->n_results,
                        report->packets, verdict_name(finding_list_worst(&report->findings)));
        call_audit(p->bus, "POST /v1/path", &p->caller, result);
}

static void on_done(struct path_report *report, void *userdata) {
        struct path_state *p = userdata;
        json_t *o = path_report_to_json(report);
        struct http_reply answer;

        audit_proof(p, report);
        p->proof = pathproof_free(p->proof); /* and the report with it */
        free(p->last);
        p->last = o ? json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
        (void) answer_json(&answer, 200, o);
        http_answer(TAKE_PTR(p->call), &answer);
        (void) malloc_trim(0); /* hundreds of findings were here; nothing like them comes for a long time */
}

/* --- Calls --------------------------------------------------------------------------------------------- */

/* Those of the configuration, and the workers of the slice. */
static int add_own_peers(const struct path_state *p, struct path_peers *peers, char why[static 96]) {
        const char *workers = identity_get(&p->bus->identity, identity_workers(&p->bus->identity));

        for (size_t i = 0; i < p->configured.n; i++) {
                int r = path_peers_add_one(peers, &p->configured.items[i], why);

                if (r < 0)
                        return r;
        }
        return workers ? path_peers_add(peers, workers, why) : 0;
}

/* 0: may start; 1: *ret says why not. */
static int check_call(const struct path_state *p, const struct http_request *r, struct http_reply *ret) {
        struct bus *b = p->bus;

        if (route_text(r, "peer") && !caller_is_root(r->caller))
                return call_refuse(b, r, ret, NULL, 403, "only root may name peers",
                                   "POST /v1/path without peer= tries the workers of the slice; "
                                   "tpuctl check path --peer A,B runs as you") == 0;
        if (p->proof)
                return call_refuse(b, r, ret, NULL, 409, "a proof is in progress",
                                   "GET /v1/path has its result within 3 s") == 0;
        if (!caller_is_root(r->caller) && p->started > 0 && host_now(b->host) < p->started + APART)
                return call_refuse(b, r, ret, NULL, 429, "the last proof was started less than 10 s ago",
                                   "GET /v1/path has its result; tpuctl check path runs as you") == 0;
        return 0;
}

static int post_path(void *self, const struct http_request *r, struct http_reply *ret) {
        _cleanup_path_peers_ struct path_peers peers = PATH_PEERS_NULL;
        const char *names = route_text(r, "peer");
        struct path_state *p = self;
        struct bus *b = p->bus;
        char why[96];
        int k;

        if (check_call(p, r, ret) > 0)
                return 0;
        k = names ? path_peers_add(&peers, names, why) : add_own_peers(p, &peers, why);
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

static int get_path(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct path_state *p = self;
        char *text;

        (void) r;
        if (!p->last)
                return answer_error(ret, 404, "POST /v1/path starts one",
                                    "no path was proven since tpu-hostd started");
        text = strdup(p->last);
        if (!text)
                return answer_error(ret, 500, "", "out of memory");
        *ret = (struct http_reply){
                .status = 200, .content_type = "application/json", .body = text, .len = strlen(text)
        };
        return 0;
}

/* --- The part ------------------------------------------------------------------------------------------ */

static void reload_path(void *self) {
        struct path_peers fresh = PATH_PEERS_NULL;
        struct path_state *p = self;
        int r = path_peers_load(p->bus->host, p->bus->config_file, &fresh);

        if (r < 0) {
                (void) log_warning_errno(r, "[Path] cannot be read: %m; what was known of it stays");
                path_peers_clear(&fresh);
                return;
        }
        path_peers_clear(&p->configured);
        p->configured = fresh;
}

static int start_path(void *self) {
        reload_path(self);
        return 0;
}

static void stop_path(void *self) {
        struct path_state *p = self;

        p->proof = pathproof_free(p->proof);
        path_peers_clear(&p->configured);
        free(p->last);
}

static const struct part_route routes[] = {
        { ROUTE("GET", "/v1/path"), .call = get_path },
        { ROUTE_WITH("POST", "/v1/path", ARGUMENTS(TAKES_SOME("peer"))), .call = post_path },
        PART_ROUTES_END,
};

const struct part path_part = {
        .name = "path",
        .size = sizeof(struct path_state),
        .routes = routes,
        .start = start_path,
        .reload = reload_path,
        .stop = stop_path,
};
