/* SPDX-License-Identifier: Apache-2.0 */
/* Which calls there are (docs/api.md, docs/openapi-agent.yaml), and which arguments each takes. */
#include "agent_calls.h"
#include "agent_watch.h"
#include "arguments.h"

#define LIST_MAX 900 /* bytes of all calls by name */

struct route {
        const char *method, *path; /* NAME in a path: of a run, checked by the call */
        const char *arguments[ARGUMENTS_MAX];
        int (*call)(struct agent *a, const struct api_request *r, struct api_answer *ret);
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

static int no_such_path(struct api_answer *ret) {
        char list[LIST_MAX] = "there are ";
        size_t n = strlen(list);

        for (size_t i = 0; i < ELEMENTSOF(routes) && n < sizeof(list); i++)
                n += (size_t) snprintf(list + n, sizeof(list) - n, "%s%s %s", i > 0 ? ", " : "",
                                       routes[i].method, routes[i].path);
        return agent_answer_error(ret, 404, list, "there is no such call");
}

static int no_such_method(const struct api_request *r, struct api_answer *ret) {
        char allow[API_ALLOW_MAX] = "", use[API_ALLOW_MAX + 8];
        size_t n = 0;

        for (size_t i = 0; i < ELEMENTSOF(routes) && n < sizeof(allow); i++)
                if (path_is(routes[i].path, r->path))
                        n += (size_t) snprintf(allow + n, sizeof(allow) - n, "%s%s", n > 0 ? ", " : "",
                                               streq(routes[i].method, "GET") ? "GET, HEAD"
                                                                              : routes[i].method);
        (void) snprintf(use, sizeof(use), "use %s", allow);
        (void) agent_answer_error(ret, 405, use, "%.16s %.80s is not a call", r->method, r->path);
        memcpy(ret->allow, allow, sizeof(allow));
        return 0;
}

static int take_argument(const char *name, void *userdata) {
        return arguments_take(userdata, name);
}

/* --- Handlers ------------------------------------------------------------------------------------------ */

static int on_request(const struct api_request *r, struct api_answer *ret, void *userdata) {
        struct agent *a = userdata;
        bool known = false;

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
                if (api_arguments(r, take_argument, &arguments) < 0)
                        return agent_answer_error(ret, 400, "see docs/api.md", "%s", arguments.why);
                return routes[i].call(a, r, ret);
        }
        return known ? no_such_method(r, ret) : no_such_path(ret);
}

static void on_abandoned(struct api_call *call, void *userdata) {
        struct agent *a = userdata;

        agent_path_abandoned(a, call);
        agent_watch_abandoned(a, call);
        agent_orders_abandoned(a, call);
        agent_events_abandoned(a, call);
        agent_stacks_abandoned(a, call);
        agent_jobs_abandoned(a, call);
        agent_captures_abandoned(a, call);
}

static bool takes_body(const char *method, const char *path) {
        return streq(method, "POST") && streq(path, "/v1/jobs");
}

const struct api_handlers agent_api_handlers = { .request = on_request,
                                                 .takes_body = takes_body,
                                                 .abandoned = on_abandoned };
