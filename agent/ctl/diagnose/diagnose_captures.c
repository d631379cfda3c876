/* SPDX-License-Identifier: Apache-2.0 */

#include "diagnose_captures.h"

#include "capture_files.h"
#include "json_text.h"
#include "table.h"

#define PATIENCE   (40 * USEC_PER_SEC) /* an agent gives its tpu-launchd 25 s */
#define ASK_STATUS (10 * USEC_PER_SEC)
#define BETWEEN    (5 * USEC_PER_SEC)

struct asking {
        struct host_capture *hosts; /* who they are; no stacks */
        struct http_exchange *exchanges;
        char (*urls)[AGENT_URL_MAX];
        size_t n, own; /* own: which is this host; n: none is */
        char *socket;
        struct ctl_settings settings; /* its texts are the requests' */
};

static void asking_clear(struct asking *a) {
        for (size_t i = 0; i < a->n; i++)
                json_decref(a->exchanges[i].answer);
        free(a->hosts);
        free(a->exchanges);
        free(a->urls);
        free(a->socket);
}

/* --- Who there is -------------------------------------------------------------------------------------- */

static void take_host(struct asking *a, const char *slice, const char *own, const json_t *v) {
        capture_who(&a->hosts[a->n], v, slice);
        if (streq(a->hosts[a->n].host, own))
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
        a->exchanges = calloc(most, sizeof(*a->exchanges));
        if (!a->hosts || !a->urls || !a->exchanges)
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
                struct http_question *q = &a->exchanges[i].request;

                *q = (struct http_question){ .url = a->urls[i], .method = "POST", .timeout = PATIENCE };
                if (i == a->own) {
                        (void) snprintf(a->urls[i], AGENT_URL_MAX, "http://localhost/v1/captures");
                        q->unix_socket = a->socket;
                } else
                        agent_request(&a->settings.agents, to, "/v1/captures", a->urls[i], q);
        }
        return 0;
}

/* Who gives none is named: the others' stand without it. What another host says is a stranger's text. */
static void complain(const struct asking *a, size_t i) {
        fprintf(stderr, "tpuctl diagnose: %s (%s) gives no capture: ", a->hosts[i].host,
                a->hosts[i].address);
        print_clean(stderr, a->exchanges[i].problem.text, false);
        fputc('\n', stderr);
}

static int take_answer(struct asking *a, size_t i, unsigned round, struct scene *s, bool *answered) {
        struct host_capture who = a->hosts[i];
        uint64_t next;
        int r;

        if (!a->exchanges[i].answer) {
                if (round == 0)
                        complain(a, i);
                return 0;
        }
        who.round = round;
        r = captures_add(s, a->exchanges[i].answer, &who, &next);
        *answered = *answered || r > 0;
        return MIN(r, 0);
}

/* Only those who were refused for a moment, when the longest of their moments is over. 1: asked. */
static int ask_refused_again(struct asking *a, struct again *again) {
        const struct problem *longest = NULL;
        int r;

        for (size_t i = 0; i < a->n; i++) {
                struct http_exchange *x = &a->exchanges[i];

                x->skip = x->answer || x->problem.retry_after == 0;
                if (!x->skip && (!longest || x->problem.retry_after > longest->retry_after))
                        longest = &x->problem;
        }
        if (!longest || !again_wait(again, longest, "tpuctl diagnose"))
                return 0;
        r = http_json_many(a->exchanges, a->n);
        return r < 0 ? r : 1;
}

static int ask_round(struct asking *a, unsigned round, struct scene *s, bool *answered,
                     struct problem *problem) {
        struct again again = AGAIN_NULL;
        int r;

        for (size_t i = 0; i < a->n; i++)
                a->exchanges[i].skip = false;
        r = http_json_many(a->exchanges, a->n);
        if (r == 0)
                do
                        r = ask_refused_again(a, &again);
                while (r > 0);
        for (size_t i = 0; i < a->n; i++) {
                if (r == 0)
                        r = take_answer(a, i, round, s, &answered[i]);
                json_decref(TAKE_PTR(a->exchanges[i].answer));
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
                        r = scene_add(s, &silent);
                }
        return r;
}

int diagnose_agents_load(const struct options *o, const char *slice, struct scene *s,
                         struct problem *problem) {
        struct asking a = { .n = 0 };
        json_auto_t *status = NULL;
        int r = hostd_call(o->root, NULL, "/v1/status", ASK_STATUS, &status, problem);

        if (r < 0)
                return r;
        r = take_slice(&a, slice, status, problem);
        if (r == 0)
                r = prepare(&a, o, problem);
        if (r == 0)
                r = ask_all(&a, s, problem);
        asking_clear(&a);
        return r;
}

/* --- Of a collector ---------------------------------------------------------------------------------- */

#define PATH_MAX_BYTES 512
#define WAIT_MAX       (90 * USEC_PER_SEC) /* who is silent is waited for, and then it is diagnosed */
#define LOOK_EVERY     (500 * USEC_PER_MSEC)

static int ask_collector(struct collector *c, const char *method, const char *slice, const char *what,
                         const char *episode, int64_t since, json_t **ret, struct problem *problem) {
        char path[PATH_MAX_BYTES], number[24];
        struct again again = AGAIN_NULL;
        int r = 0;

        (void) snprintf(path, sizeof(path), "/api/v1/slices/%.63s/%s", slice, what);
        (void) snprintf(number, sizeof(number), "%" PRIi64, since);
        r = path_parameter(path, sizeof(path), "episode", episode);
        if (r == 0)
                r = path_parameter(path, sizeof(path), "since", since > 0 ? number : NULL);
        if (r < 0)
                return problem_set(problem, r, NULL, "'%s' cannot be asked for: %s", slice, strerror(-r));
        do
                r = collector_call(c, method, path, NULL, 0, ret, problem);
        while (r < 0 && again_wait(&again, problem, "tpuctl diagnose"));
        return r;
}

bool diagnose_collector_lacks(struct collector *c, const char *slice) {
        struct problem problem;
        json_auto_t *v = NULL;

        return ask_collector(c, NULL, slice, "episodes", NULL, 0, &v, &problem) == -ENOENT;
}

/* --- A new round --------------------------------------------------------------------------------------- */

static int wait_verdict(struct collector *c, const char *slice, const char *episode,
                        struct problem *problem) {
        for (usec_t until = 0; until < WAIT_MAX; until += LOOK_EVERY) {
                json_auto_t *v = NULL;
                int r = ask_collector(c, NULL, slice, "diagnosis", episode, 0, &v, problem);

                if (r < 0)
                        return r;
                if (*json_text_of(v, "outcome"))
                        return 0;
                (void) usleep(LOOK_EVERY);
        }
        return problem_set(problem, -ETIMEDOUT, NULL, "the collector has no verdict about episode %s yet",
                           episode);
}

int diagnose_collector_capture(struct collector *c, const char *slice, char episode[static 64],
                               struct problem *problem) {
        json_auto_t *v = NULL;
        int r = ask_collector(c, "POST", slice, "capture", NULL, 0, &v, problem);

        if (r == -EBUSY) /* there was a round a moment ago */
                (void) snprintf(problem->remedy, sizeof(problem->remedy),
                                "tpuctl diagnose %s: without --capture it shows the last round's verdict",
                                slice);
        if (r < 0)
                return r;
        (void) snprintf(episode, 64, "%s", json_text_of(v, "episode"));
        fprintf(stderr, "tpuctl diagnose: the hosts are asked for their stacks (episode %s)\n", episode);
        return wait_verdict(c, slice, episode, problem);
}

/* --- What there is ------------------------------------------------------------------------------------- */

int diagnose_collector_load(struct collector *c, const char *slice, const char *episode,
                            struct scene *s, struct kept_verdict *ret, struct problem *problem) {
        uint64_t next = 0, last, captures = 0;
        int r = ask_collector(c, NULL, slice, "diagnosis", episode, 0, &ret->words, problem);

        if (r == 0)
                episode = json_text_of(ret->words, "episode");
        do {
                json_auto_t *v = NULL;

                last = next;
                if (r == 0)
                        r = ask_collector(c, NULL, slice, "captures", episode, (int64_t) next, &v, problem);
                if (r < 0)
                        return r;
                r = captures_add(s, v, NULL, &next);
                if (r < 0)
                        return problem_set(problem, r, NULL, "the captures of episode %s: %s", episode,
                                           strerror(-r));
                captures += (uint64_t) r;
                r = 0;
        } while (next > last);
        if (captures == 0)
                ret->report = json_object_get(ret->words, "diagnosis");
        if (!*json_text_of(ret->report, "outcome"))
                ret->report = NULL;
        return 0;
}
