/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl jobs, stop and logs: the runs of this host. */
#include "clock.h"
#include "ctl.h"
#include "hostd.h"
#include "launchd.h"
#include "paths.h"
#include "report.h"
#include "screen.h"
#include "words.h"

#define STOP_TIMEOUT (150 * USEC_PER_SEC) /* longer than any unit's own grace */

static json_t *time_json(uint64_t real) {
        char text[CLOCK_TEXT_MAX];

        return real > 0 ? json_string(clock_text(real, text)) : json_null();
}

static json_t *job_json(const Local__Job *j) {
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:n, s:n}",
                         "name", j->name, "unit", j->unit, "state", j->state, "cause", j->cause, "code",
                         j->code, "status", j->status, "framework", j->framework, "malloc", j->malloc,
                         "user", j->user, "command", j->command, "started", time_json(j->started_real_usec),
                         "ended", time_json(j->ended_real_usec), "main_pid", (json_int_t) j->main_pid,
                         "processes", (json_int_t) j->processes, "step", "step_seconds");
}

/* The same shape as GET /v1/jobs, but without steps: launchd reads no logs. */
static int ask_launchd(const char *root, json_t **ret, struct problem *problem) {
        Local__JobsRequest m = LOCAL__JOBS_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        Local__JobsReply *reply;
        struct frame f;
        json_t *list;
        int r;

        r = launchd_ask(root, LOCAL__KIND__KIND_JOBS_REQUEST, &m.base, LOCAL__KIND__KIND_JOBS_REPLY,
                        5 * USEC_PER_SEC, &f, &buf, problem);
        if (r < 0)
                return r;
        reply = local__jobs_reply__unpack(NULL, f.len, f.data);
        if (!reply)
                return launchd_garbled(problem);
        list = json_array();
        for (size_t i = 0; i < reply->n_job && r == 0; i++)
                r = json_array_append_new(list,
                                          job_json(reply->job[i])); /* refuses NULL: text that is no UTF-8 */
        local__jobs_reply__free_unpacked(reply, NULL);
        if (r < 0) {
                json_decref(list);
                return launchd_garbled(problem);
        }
        *ret = json_pack("{s:o}", "jobs", list);
        return *ret ? 0 : problem_set(problem, -ENOMEM, NULL, "out of memory");
}

int verb_jobs(const struct ctl *c, int argc, char *argv[]) {
        bool json = false;
        const struct option_def defs[] = { { "json", NULL, "print JSON", NULL, &json } };
        struct options o = { .program = "tpuctl jobs",
                             .synopsis = "[--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Lists the runs of this host. Steps come from tpu-hostd; when it "
                                        "does not answer, tpu-launchd is asked itself." };
        struct problem problem = { 0 };
        json_t *answer = NULL;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        r = hostd_ask(o.root, "/v1/jobs", false, 5 * USEC_PER_SEC, &answer, &problem);
        if (r < 0) {
                r = ask_launchd(o.root, &answer, &problem);
                if (r < 0)
                        return problem_complain(&problem);
                fputs("tpuctl jobs: tpu-hostd does not answer, so steps are not known (systemctl status "
                      "tpu-hostd)\n",
                      stderr);
        }
        r = json ? report_print_json(stdout, json_incref(answer))
                 : screen_jobs(answer, clock_real(&clock_system), stdout);
        json_decref(answer);
        if (r < 0)
                fprintf(stderr, "tpuctl jobs: the answer cannot be shown: %s\n", strerror(-r));
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

int verb_stop(const struct ctl *c, int argc, char *argv[]) {
        struct options o = { .program = "tpuctl stop",
                             .synopsis = "NAME",
                             .summary =
                                     "Ends a run: TERM to all its processes, KILL after its grace time." };
        Local__StopRequest m = LOCAL__STOP_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        struct problem problem;
        struct frame f;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 1, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        m.name = wire_text(w.items[0]);
        r = launchd_ask(o.root, LOCAL__KIND__KIND_STOP_REQUEST, &m.base, LOCAL__KIND__KIND_STOP_REPLY,
                        STOP_TIMEOUT, &f, &buf, &problem);
        if (r < 0)
                return problem_complain(&problem);
        printf("%s stopped\n", w.items[0]);
        return 0;
}

int verb_logs(const struct ctl *c, int argc, char *argv[]) {
        bool follow = false;
        const struct option_def defs[] = { { "follow", NULL, "go on with new lines as they come (also: -f)",
                                             NULL, &follow } };
        struct options o = { .program = "tpuctl logs",
                             .synopsis = "NAME [-f]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Shows what a run has printed: journalctl -u " RUN_UNIT_PREFIX
                                        "NAME.service -o cat." };
        static char journalctl[] = "journalctl", by_unit[] = "-u", output[] = "-o", cat[] = "cat",
                    short_follow[] = "-f", long_follow[] = "--follow";
        char unit[80], *args[] = { journalctl, by_unit, unit, output, cat, NULL, NULL };
        struct words w;
        int r;

        for (int i = 1; i < argc; i++)
                if (streq(argv[i], short_follow))
                        argv[i] = long_follow;
        r = words_parse(c, &o, argc, argv, 1, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        (void) snprintf(unit, sizeof(unit), RUN_UNIT_PREFIX "%s.service", w.items[0]);
        if (follow)
                args[5] = short_follow;
        (void) execvp(args[0], args);
        fprintf(stderr, "tpuctl logs: journalctl cannot be run: %m\n");
        return EXIT_NO_ANSWER;
}
