/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl.h"
#include "fleet_logs.h"
#include "json_text.h"
#include "table.h"

#define FOLLOW_WAIT  25 /* seconds that the collector holds an answer back; it allows 30 */
#define FOLLOW_RETRY 2  /* seconds */
#define PATH_SIZE    1024

static int make_path(const struct fleet_logs *l, int64_t since, unsigned wait, char path[static PATH_SIZE]) {
        char number[24];
        int r;

        (void) snprintf(path, PATH_SIZE, "/api/v1/runs/%.63s/logs", l->run);
        (void) snprintf(number, sizeof(number), "%u", l->limit);
        r = since < 0 ? collector_parameter(path, PATH_SIZE, "limit", number) : 0;
        if (r == 0)
                r = collector_parameter(path, PATH_SIZE, "host", l->host);
        if (r == 0)
                r = collector_parameter(path, PATH_SIZE, "worker", l->worker);
        (void) snprintf(number, sizeof(number), "%lld", (long long) since);
        if (r == 0 && since >= 0)
                r = collector_parameter(path, PATH_SIZE, "since", number);
        (void) snprintf(number, sizeof(number), "%u", wait);
        return r == 0 && wait > 0 ? collector_parameter(path, PATH_SIZE, "wait", number) : r;
}

/* One answer; *since moves behind its lines. */
static int ask(const struct fleet_logs *l, unsigned wait, int64_t *since, json_t **ret,
               struct problem *problem) {
        char path[PATH_SIZE];
        json_t *answer;
        int r;

        r = make_path(l, *since, wait, path);
        if (r < 0)
                return problem_set(problem, r, NULL, "--host or --worker: %s", strerror(-r));
        r = collector_ask(&l->collector, path, wait * USEC_PER_SEC, &answer, problem);
        if (r < 0)
                return r;
        if (!json_is_array(json_object_get(answer, "lines")) ||
            !json_is_integer(json_object_get(answer, "next"))) {
                json_decref(answer);
                return problem_set(problem, -EPROTO, NULL, "the collector's answer has no lines");
        }
        *since = json_integer_value(json_object_get(answer, "next"));
        *ret = answer;
        return 0;
}

/* "s0/1" or, of a host without a slice, its name. */
static void print_origin(const json_t *line, FILE *out) {
        const json_t *worker = json_object_get(line, "worker_id");
        const char *slice = json_text_of(line, "slice");

        print_clean(out, *slice && json_is_integer(worker) ? slice : json_text_of(line, "host"), false);
        if (*slice && json_is_integer(worker))
                fprintf(out, "/%lld", (long long) json_integer_value(worker));
}

static int show(const json_t *answer, FILE *out) {
        const json_t *line;
        size_t i;

        json_array_foreach (json_object_get(answer, "lines"), i, line) {
                long long missing = json_integer_value(json_object_get(line, "missing"));

                if (missing > 0) {
                        print_origin(line, out);
                        fprintf(out, ": [%lld line%s did not reach the collector]\n", missing,
                                missing == 1 ? "" : "s");
                }
                print_origin(line, out);
                fputs(": ", out);
                print_clean(out, json_text_of(line, "text"), false);
                fputc('\n', out);
        }
        return fflush(out) == EOF ? -errno : 0;
}

static int complain(int error) {
        fprintf(stderr, "tpuctl logs: the collector's answer cannot be shown: %s\n", strerror(-error));
        return EXIT_NO_ANSWER;
}

/* Until somebody ends it. The collector may be away for a while: said once. */
static int follow(const struct fleet_logs *l, int64_t since, FILE *out) {
        bool away = false;

        for (;;) {
                struct problem problem;
                json_t *answer;
                int r;

                r = ask(l, FOLLOW_WAIT, &since, &answer, &problem);
                if (r < 0 && !problem.no_answer)
                        return problem_complain(&problem);
                if (r < 0) {
                        if (!away)
                                fprintf(stderr, "tpuctl logs: %s; trying again\n", problem.text);
                        away = true;
                        (void) sleep(FOLLOW_RETRY);
                        continue;
                }
                away = false;
                r = show(answer, out);
                json_decref(answer);
                if (r < 0)
                        return r == -EPIPE ? 0 : complain(r);
        }
}

int fleet_logs_show(const struct fleet_logs *l, FILE *out) {
        struct problem problem;
        int64_t since = -1;
        json_t *answer;
        int r;

        if (ask(l, 0, &since, &answer, &problem) < 0)
                return problem_complain(&problem);
        if (json_array_size(json_object_get(answer, "lines")) == 0)
                fprintf(stderr,
                        "tpuctl logs: the collector has no lines of run '%s'%s%s (never there, or dropped "
                        "since: RunLogBytes=, "
                        "RetainDays= of the collector; or RunLogs=no on the hosts)\n",
                        l->run,
                        l->worker ? " of worker "
                        : l->host ? " of host "
                                  : "",
                        l->worker ? l->worker
                        : l->host ? l->host
                                  : "");
        r = show(answer, out);
        json_decref(answer);
        if (r < 0)
                return r == -EPIPE ? 0 : complain(r);
        return l->follow ? follow(l, since, out) : 0;
}
