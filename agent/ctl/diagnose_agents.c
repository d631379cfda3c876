/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnose_agents.h"

#include "again.h"
#include "capture_files.h"
#include "hostd.h"
#include "json_text.h"
#include "paths.h"
#include "table.h"
#include "utf8.h"

#define PATIENCE   (40 * USEC_PER_SEC) /* an agent gives its tpu-launchd 25 s */
#define ASK_STATUS (10 * USEC_PER_SEC)
#define BETWEEN    (5 * USEC_PER_SEC)
#define URL_BYTES  256

struct asking {
        struct host_capture *hosts; /* who they are; no stacks */
        size_t n, own;              /* own: which is this host; n: none is */
        char (*urls)[URL_BYTES];
        struct http_request *requests;
        json_t **answers;
        struct problem *problems;
        char *socket;
        struct ctl_settings settings; /* its texts are the requests' */
};

static void asking_clear(struct asking *a) {
        free(a->hosts);
        free(a->urls);
        free(a->requests);
        free(a->answers);
        free(a->problems);
        free(a->socket);
}

/* --- Who there is -------------------------------------------------------------------------------------- */

static void take_host(struct asking *a, const char *slice, const char *own, const json_t *v) {
        struct host_capture *h = &a->hosts[a->n];
        const json_t *worker = json_object_get(v, "worker");

        host_capture_init(h);
        utf8_copy(h->slice, sizeof(h->slice), slice);
        utf8_copy(h->host, sizeof(h->host), json_text_of(v, "host"));
        utf8_copy(h->address, sizeof(h->address),
                  json_string_value(json_array_get(json_object_get(v, "address"), 0)));
        if (json_is_integer(worker) && json_integer_value(worker) >= 0 &&
            json_integer_value(worker) < CAPTURE_WORKER_NONE)
                h->worker = (uint32_t) json_integer_value(worker);
        if (streq(h->host, own))
                a->own = a->n;
        a->n++;
}

static int take_slice(struct asking *a, const char *slice, const json_t *status, struct problem *problem) {
        const json_t *record = json_object_get(status, "slice"), *roster = json_object_get(record, "roster"),
                     *missing = json_object_get(record, "missing"), *v;
        size_t most = json_array_size(roster) + json_array_size(missing), i;
        const char *known = json_text_of(record, "slice");

        if (!streq(known, slice) || most == 0 || most > HTTP_MANY_MAX)
                return problem_set(problem, -ENOENT,
                                   "run it on a host of that slice, or ask the collector: --from collector",
                                   "the agent of this host knows %s%s, not slice %s",
                                   known[0] ? "slice " : "no slice", known, slice);
        a->hosts = calloc(most, sizeof(*a->hosts));
        a->urls = calloc(most, sizeof(*a->urls));
        a->requests = calloc(most, sizeof(*a->requests));
        a->answers = calloc(most, sizeof(json_t *));
        a->problems = calloc(most, sizeof(*a->problems));
        if (!a->hosts || !a->urls || !a->requests || !a->answers || !a->problems)
                return problem_set(problem, -ENOMEM, NULL, "out of memory");
        a->own = most;
        json_array_foreach (roster, i, v)
                take_host(a, slice, json_text_of(status, "host"), v);
        json_array_foreach (missing, i, v)
                take_host(a, slice, json_text_of(status, "host"), v);
        return 0;
}

/* --- Asking -------------------------------------------------------------------------------------------- */

static int prepare(struct asking *a, const struct options *o, struct problem *problem) {
        int r = ctl_settings_load(o, &a->settings);

        if (r < 0)
                return problem_set(problem, r, NULL, "tpuctl.conf cannot be used");
        r = socket_path(o->root, PATH_HOSTD_SOCKET, &a->socket);
        if (r < 0)
                return problem_set(problem, r, NULL, "the path of tpu-hostd's socket below --root: %s",
                                   strerror(-r));
        for (size_t i = 0; i < a->n; i++) {
                const char *to = a->hosts[i].address[0] ? a->hosts[i].address : a->hosts[i].host;
                bool six = strchr(to, ':') != NULL;

                if (i == a->own)
                        (void) snprintf(a->urls[i], URL_BYTES, "http://localhost/v1/captures");
                else
                        (void) snprintf(a->urls[i], URL_BYTES, "https://%s%s%s:%d/v1/captures",
                                        six ? "[" : "", to, six ? "]" : "", PORT_HOSTD_API);
                a->requests[i] =
                        (struct http_request){ .url = a->urls[i], .post = true, .timeout = PATIENCE };
                if (i == a->own)
                        a->requests[i].unix_socket = a->socket;
                else {
                        a->requests[i].ca = a->settings.agents.ca;
                        a->requests[i].certificate = a->settings.agents.certificate;
                        a->requests[i].key = a->settings.agents.key;
                }
        }
        return 0;
}

/* Who gives none is named: the others' stand without it. What another host says is a stranger's text. */
static void complain(const struct asking *a, size_t i) {
        fprintf(stderr, "tpuctl diagnose: %s (%s) gives no capture: ", a->hosts[i].host,
                a->hosts[i].address);
        print_clean(stderr, a->problems[i].text, false);
        fputc('\n', stderr);
}

static int take_capture(struct asking *a, size_t i, const json_t *v, unsigned round, struct scene *s,
                        bool *answered) {
        struct host_capture who = a->hosts[i];
        int r;

        who.round = round;
        r = capture_hex_add(s, json_text_of(v, "capture"), &who);
        *answered = *answered || r > 0;
        return MIN(r, 0);
}

static int take_answer(struct asking *a, size_t i, unsigned round, struct scene *s, bool *answered) {
        const json_t *v = json_array_get(json_object_get(a->answers[i], "captures"), 0);

        if (!a->answers[i] && round == 0)
                complain(a, i);
        return v ? take_capture(a, i, v, round, s, answered) : 0;
}

/* Only those who were refused for a moment, when the longest of their moments is over. */
static int ask_refused_again(struct asking *a, struct again *again) {
        _cleanup_free_ struct http_request *requests = calloc(a->n, sizeof(*requests));
        _cleanup_free_ struct problem *problems = calloc(a->n, sizeof(*problems));
        _cleanup_free_ json_t **answers = calloc(a->n, sizeof(json_t *));
        _cleanup_free_ size_t *who = calloc(a->n, sizeof(*who));
        const struct problem *longest = NULL;
        size_t n = 0;
        int r;

        if (!requests || !problems || !answers || !who)
                return -ENOMEM;
        for (size_t i = 0; i < a->n; i++)
                if (!a->answers[i] && a->problems[i].retry_after > 0) {
                        requests[n] = a->requests[i];
                        who[n++] = i;
                        if (!longest || a->problems[i].retry_after > longest->retry_after)
                                longest = &a->problems[i];
                }
        if (n == 0 || !again_wait(again, longest, "tpuctl diagnose"))
                return 0;
        r = http_json_many(requests, n, answers, problems);
        for (size_t k = 0; r == 0 && k < n; k++) {
                a->answers[who[k]] = answers[k];
                a->problems[who[k]] = problems[k];
        }
        return r < 0 ? r : 1;
}

static int ask_round(struct asking *a, unsigned round, struct scene *s, bool *answered,
                     struct problem *problem) {
        struct again again = AGAIN_NULL;
        int r = http_json_many(a->requests, a->n, a->answers, a->problems), more = r == 0;

        while (more > 0)
                more = ask_refused_again(a, &again);
        r = more < 0 ? more : r;
        for (size_t i = 0; i < a->n; i++) {
                if (r == 0)
                        r = take_answer(a, i, round, s, &answered[i]);
                json_decref(a->answers[i]);
                a->answers[i] = NULL;
        }
        return r < 0 ? problem_set(problem, r, NULL, "%s", strerror(-r)) : 0;
}

static int ask_all(struct asking *a, struct scene *s, struct problem *problem) {
        _cleanup_free_ bool *answered = calloc(a->n, sizeof(*answered));
        int r = answered ? ask_round(a, 0, s, answered, problem) : -ENOMEM;
        bool any = false;

        for (size_t i = 0; r == 0 && i < a->n; i++)
                any = any || answered[i];
        if (r == 0 && !any)
                return problem_set(problem, -ENODATA,
                                   "are AgentCa=, AgentCertificate= and AgentKey= of tpuctl.conf set, and "
                                   "is this root?",
                                   "no agent of the slice gives a capture");
        if (r == 0) {
                (void) usleep(BETWEEN);
                r = ask_round(a, 1, s, answered, problem);
        }
        for (size_t i = 0; r == 0 && i < a->n; i++)
                if (!answered[i]) {
                        struct host_capture silent = a->hosts[i];

                        silent.silent = true;
                        r = scene_add(s, &silent, NULL);
                }
        return r;
}

int diagnose_agents_load(const struct options *o, const char *slice, struct scene *s,
                         struct problem *problem) {
        struct asking a = { .n = 0 };
        json_t *status = NULL;
        int r = hostd_ask(o->root, "/v1/status", false, ASK_STATUS, &status, problem);

        if (r < 0)
                return r;
        r = take_slice(&a, slice, status, problem);
        json_decref(status);
        if (r == 0)
                r = prepare(&a, o, problem);
        if (r == 0)
                r = ask_all(&a, s, problem);
        asking_clear(&a);
        return r;
}
