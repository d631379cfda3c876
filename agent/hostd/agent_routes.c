/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-agent.yaml), and which arguments each takes. */
#include <assert.h>

#include "agent_calls.h"
#include "agent_watch.h"
#include "arguments.h"

#define LIST_MAX 900 /* bytes of all calls by name */

#define LOCAL_CONNECTIONS 32 /* beyond, clients wait */
#define TLS_CONNECTIONS 64
#define TLS_OF_ADDRESS 16
#define TLS_LIFE (600 * USEC_PER_SEC)
#define TLS_CHECK_AGAIN (60 * USEC_PER_SEC)
#define HEADER_MAX ((size_t) 16 * 1024)
#define BODY_MAX ((size_t) 64 * 1024)
#define BODIES_MAX (16 * BODY_MAX)
#define DISCARD_MAX ((uint64_t) 1024 * 1024)
#define REQUEST_TIME (15 * USEC_PER_SEC)
#define ANSWER_TIME (60 * USEC_PER_SEC)

struct route {
        const char *method, *path; /* NAME in a path: of a run, checked by the call */
        const char *arguments[ARGUMENTS_MAX];
        int (*call)(struct agent *a, const struct http_request *r, struct http_reply *ret);
};

static const struct route routes[] = {
        { "GET", "/healthz", { 0 }, agent_get_healthz },
        { "GET", "/metrics", { 0 }, agent_get_metrics },
        { "GET", "/v1/status", { 0 }, agent_get_status },
        { "GET", "/v1/checks", { 0 }, agent_get_checks },
        { "GET", "/v1/identity", { 0 }, agent_get_identity },
        { "GET", "/v1/jobs", { 0 }, agent_get_jobs },
        { "POST", "/v1/jobs", { 0 }, agent_post_job },
        { "DELETE", "/v1/jobs/NAME", { 0 }, agent_delete_job },
        { "GET", "/v1/runs", { 0 }, agent_get_runs },
        { "POST", "/v1/jobs/NAME/stack", { 0 }, agent_post_stack },
        { "GET", "/v1/captures", { 0 }, agent_get_captures },
        { "POST", "/v1/captures", { "run" }, agent_post_capture },
        { "GET", "/v1/events", { "since", "wait" }, agent_get_events },
        { "GET", "/v1/sched", { "run", "watch" }, agent_get_sched },
        { "GET", "/v1/io", { "run", "watch" }, agent_get_io },
        { "GET", "/v1/net", { "peer" }, agent_get_net },
        { "GET", "/v1/path", { 0 }, agent_path_get },
        { "POST", "/v1/path", { "peer" }, agent_path_post },
        { "PUT", "/v1/cordon", { "reason", "until" }, agent_orders_call },
        { "DELETE", "/v1/cordon", { 0 }, agent_orders_call },
        { "PUT", "/v1/drain", { "reason", "until" }, agent_orders_call },
        { "DELETE", "/v1/drain", { 0 }, agent_orders_call },
        { "PUT", "/v1/observe", { "reason", "until" }, agent_orders_call },
        { "DELETE", "/v1/observe", { 0 }, agent_orders_call },
        { "PUT", "/v1/silence", { "check", "subject", "reason", "until" }, agent_orders_call },
        { "DELETE", "/v1/silence", { "check", "subject" }, agent_orders_call },
};

static bool path_is(const char *pattern, const char *path) {
        const char *name = strstr(pattern, "NAME"), *rest;
        size_t before, len = strlen(path);

        if (!name)
                return streq(path, pattern);
        before = (size_t) (name - pattern);
        rest = name + strlen("NAME");
        return len > before + strlen(rest) && memcmp(path, pattern, before) == 0 &&
               streq(path + len - strlen(rest), rest) && (rest[0] || !strchr(path + before, '/'));
}

static bool method_is(const char *of_route, const char *method) {
        return streq(of_route, method) || (streq(of_route, "GET") && streq(method, "HEAD"));
}

/* --- What is no call ----------------------------------------------------------------------------------- */

static int no_such_path(struct http_reply *ret) {
        char list[LIST_MAX] = "there are ";
        size_t n = strlen(list);

        for (size_t i = 0; i < ELEMENTSOF(routes) && n < sizeof(list); i++)
                n += (size_t) snprintf(list + n, sizeof(list) - n, "%s%s %s", i > 0 ? ", " : "",
                                       routes[i].method, routes[i].path);
        return agent_answer_error(ret, 404, list, "there is no such call");
}

static int no_such_method(const struct http_request *r, struct http_reply *ret) {
        static const char *const sets[] = { "GET, HEAD", "GET, HEAD, POST", "POST", "PUT, DELETE",
                                            "DELETE" };
        char allow[48] = "", use[sizeof(allow) + 8];
        size_t n = 0, set = 0;

        for (size_t i = 0; i < ELEMENTSOF(routes) && n < sizeof(allow); i++)
                if (path_is(routes[i].path, r->path))
                        n += (size_t) snprintf(allow + n, sizeof(allow) - n, "%s%s", n > 0 ? ", " : "",
                                               streq(routes[i].method, "GET") ? "GET, HEAD"
                                                                              : routes[i].method);
        (void) snprintf(use, sizeof(use), "use %s", allow);
        (void) agent_answer_error(ret, 405, use, "%.16s %.80s is not a call", r->method, r->path);
        while (!streq(sets[set], allow)) {
                set++;
                assert(set < ELEMENTSOF(sets)); /* a route with other methods needs one more */
        }
        ret->allow = sets[set];
        return 0;
}

static int too_much(const struct http_request *r, struct http_reply *ret) {
        if (r->no_room)
                return agent_answer_error(ret, 503, "try again", "too many bodies at once");
        return agent_answer_error(ret, 413, "arguments go behind a question mark: docs/api.md",
                                  "no call has so long a body");
}

static int take_argument(const char *name, const char *value, void *userdata) {
        (void) value;
        return arguments_take(userdata, name);
}

/* --- Handlers ------------------------------------------------------------------------------------------ */

/* 1: the answer follows. */
static int answer(struct agent *a, const struct http_request *r, struct http_reply *ret) {
        bool known = false;

        if (r->received > BODY_MAX || r->no_room)
                return too_much(r, ret);
        if (agent_caller_is_refused(a, r, ret))
                return 0;
        for (size_t i = 0; i < ELEMENTSOF(routes); i++) {
                struct arguments arguments = { 0 };

                if (!path_is(routes[i].path, r->path))
                        continue;
                known = true;
                if (!method_is(routes[i].method, r->method))
                        continue;
                memcpy(arguments.allowed, routes[i].arguments, sizeof(arguments.allowed));
                if (http_query(r, take_argument, &arguments) < 0)
                        return agent_answer_error(ret, 400, "see docs/api.md", "%s", arguments.why);
                return routes[i].call(a, r, ret);
        }
        return known ? no_such_method(r, ret) : no_such_path(ret);
}

static void on_request(const struct http_request *r, struct http_reply *ret, void *userdata) {
        ret->later = answer(userdata, r, ret) == 1;
}

/* Other bodies are passed over. */
static bool takes_body(const struct http_request *r) {
        return streq(r->method, "POST") && streq(r->path, "/v1/jobs");
}

int agent_api_serve(struct agent *a, int fd, struct server_certificate *certificate,
                    struct http_server **ret) {
        const struct http_server_options o = {
                .name = certificate ? "api-tls" : "api",
                .fd = fd,
                .connections = certificate ? TLS_CONNECTIONS : LOCAL_CONNECTIONS,
                .of_address = certificate ? TLS_OF_ADDRESS : 0,
                .header_max = HEADER_MAX,
                .bodies_max = BODIES_MAX,
                .discard_max = DISCARD_MAX,
                .header_time = REQUEST_TIME,
                .answer_time = ANSWER_TIME,
                .certificate = certificate,
                .allow = "",
                .act = "",
                .life = TLS_LIFE,
                .check_again = TLS_CHECK_AGAIN,
                .body_max = BODY_MAX,
                .takes_body = takes_body,
                .handle = on_request,
                .userdata = a,
        };

        return http_server_new(a->event, &o, ret);
}
