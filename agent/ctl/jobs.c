/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl jobs, stop and logs: the runs of this host. */
#include "clock.h"
#include "ctl.h"
#include "hostd.h"
#include "launchd.h"
#include "fleet_logs.h"
#include "log_file.h"
#include "paths.h"
#include "report.h"
#include "run_fleet.h"
#include "screen.h"
#include "words.h"

#define LOGS_SHOWN     1000u
#define LOGS_SHOWN_MAX 10000u
#define STOP_TIMEOUT (150 * USEC_PER_SEC) /* longer than any unit's own grace */

static json_t *time_json(uint64_t real) {
        char text[CLOCK_TEXT_MAX];

        return real > 0 ? json_string(clock_text(real, text)) : json_null();
}

static json_t *job_json(const Local__Job *j) {
        return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:o, s:o, s:I, s:I, s:n, s:n, "
                         "s:n, s:n, s:I, s:I, s:I, s:s, s:s}",
                         "name", j->name, "unit", j->unit, "state", j->state, "cause", j->cause, "code",
                         j->code, "status", j->status, "framework", j->framework, "malloc", j->malloc,
                         "user", j->user, "command", j->command, "started", time_json(j->started_real_usec),
                         "ended", time_json(j->ended_real_usec), "main_pid", (json_int_t) j->main_pid,
                         "processes", (json_int_t) j->processes, "step", "step_seconds", "goodput",
                         "suspicion", "generation", (json_int_t) j->generation, "restarts",
                         (json_int_t) j->restarts, "restarts_max", (json_int_t) j->restarts_max, "why",
                         j->why, "remedy", j->remedy);
}

/* name: this run only; NULL: all. The same shape as GET /v1/jobs, without steps: launchd reads no logs. */
static int ask_launchd(const char *root, const char *name, json_t **ret, struct problem *problem) {
        Local__JobsRequest m = LOCAL__JOBS_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        Local__JobsReply *reply;
        struct frame f;
        json_t *list;
        int r;

        if (name)
                m.name = wire_text(name);
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

/* The run of the same name and start in hostd's list: a name may have been used again since hostd asked. */
static const json_t *find_job(const json_t *list, const json_t *job) {
        const json_t *other;
        size_t i;

        json_array_foreach(list, i, other)
                if (json_equal(json_object_get(other, "name"), json_object_get(job, "name")) &&
                    json_equal(json_object_get(other, "started"), json_object_get(job, "started")))
                        return other;
        return NULL;
}

/* Steps are known to tpu-hostd only, which reads the journal. Its list of runs may be some seconds old;
 * launchd's is not. */
static void add_steps(json_t *jobs, const char *root) {
        static const char *const keys[] = { "step", "step_seconds", "goodput", "suspicion" };
        struct problem problem = { 0 };
        json_t *answer = NULL, *job;
        size_t i;

        if (json_array_size(jobs) == 0)
                return;
        if (hostd_ask(root, "/v1/jobs", false, 5 * USEC_PER_SEC, &answer, &problem) < 0) {
                fputs("tpuctl jobs: tpu-hostd does not answer, so steps are not known (systemctl status "
                      "tpu-hostd)\n",
                      stderr);
                return;
        }
        json_array_foreach(jobs, i, job) {
                const json_t *seen = find_job(json_object_get(answer, "jobs"), job);

                for (size_t k = 0; k < ELEMENTSOF(keys); k++) {
                        json_t *v = json_object_get(seen, keys[k]);

                        if (json_is_number(v) ||
                            json_is_string(v)) /* jansson copes with a failure: the step stays null */
                                (void) json_object_set(job, keys[k], v);
                }
        }
        json_decref(answer);
}

/* The runs over slices. */
static int show_fleet(const struct options *o, const char *url, bool json) {
        struct problem problem = { 0 };
        struct collector collector;
        json_t *answer;
        int r;

        if (collector_open(o, url, &collector) < 0)
                return EXIT_USAGE;
        r = run_fleet_list(&collector, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        r = json ? report_print_json(stdout, json_incref(answer)) :
                   screen_runs(answer, clock_real(&clock_system), stdout);
        json_decref(answer);
        if (r < 0)
                fprintf(stderr, "tpuctl jobs: the answer cannot be shown: %s\n", strerror(-r));
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

int verb_jobs(const struct ctl *c, int argc, char *argv[]) {
        bool json = false, fleet = false;
        const char *url = NULL;
        const struct option_def defs[] = {
                { "fleet", NULL, "the runs over slices, as the registry knows them", NULL, &fleet },
                { "collector", "URL", "where its API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT,
                  &url, NULL },
                { "json", NULL, "print JSON", NULL, &json },
        };
        struct options o = { .program = "tpuctl jobs",
                             .synopsis = "[--fleet] [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary =
                                     "Lists the runs of this host, as tpu-launchd tells them; their steps "
                                     "come from tpu-hostd." };
        struct problem problem = { 0 };
        json_t *answer = NULL;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 0, 0, &w);
        if (r < 0)
                return options_exit(r);
        if (fleet || url)
                return show_fleet(&o, url, json);
        r = ask_launchd(o.root, NULL, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        add_steps(json_object_get(answer, "jobs"), o.root);
        r = json ? report_print_json(stdout, json_incref(answer))
                 : screen_jobs(answer, clock_real(&clock_system), stdout);
        json_decref(answer);
        if (r < 0)
                fprintf(stderr, "tpuctl jobs: the answer cannot be shown: %s\n", strerror(-r));
        return r < 0 ? EXIT_NO_ANSWER : 0;
}

/* Over slices: its intent is ended, and each host ends its part. */
static int stop_fleet(const struct options *o, const char *url, const char *name) {
        struct collector collector;
        struct problem problem;
        json_t *answer;
        int r;

        if (collector_open(o, url, &collector) < 0)
                return EXIT_USAGE;
        r = run_fleet_stop(&collector, name, &answer, &problem);
        if (r < 0)
                return problem_complain(&problem);
        json_decref(answer);
        printf("%s is being stopped on all its hosts (tpuctl jobs --fleet)\n", name);
        return 0;
}

/*
 * Whether launchd has it as a part of a run over slices: ended here alone, the whole run would end as if it
 * had been stopped, or be started again.
 */
static bool is_part(const char *root, const char *name) {
        Local__JobsRequest m = LOCAL__JOBS_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        struct problem problem;
        Local__JobsReply *reply;
        struct frame f;
        bool part;

        m.name = wire_text(name);
        if (launchd_ask(root, LOCAL__KIND__KIND_JOBS_REQUEST, &m.base, LOCAL__KIND__KIND_JOBS_REPLY,
                        5 * USEC_PER_SEC, &f, &buf, &problem) < 0)
                return false;
        reply = local__jobs_reply__unpack(NULL, f.len, f.data);
        part = reply && reply->n_job == 1 && reply->job[0]->generation > 0 &&
               !streq(reply->job[0]->state, "exited");
        if (reply)
                local__jobs_reply__free_unpacked(reply, NULL);
        return part;
}

int verb_stop(const struct ctl *c, int argc, char *argv[]) {
        bool fleet = false, here = false;
        const char *url = NULL;
        const struct option_def defs[] = {
                { "fleet", NULL, "a run over slices, on all its hosts", NULL, &fleet },
                { "here", NULL, "only what this host has of it", NULL, &here },
                { "collector", "URL", "where its API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT,
                  &url, NULL },
        };
        struct options o = { .program = "tpuctl stop",
                             .synopsis = "NAME [--fleet | --here]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Ends a run: TERM to all its processes, KILL after its grace time. "
                                        "What this host has as a "
                                        "part of a run over slices\nis ended on all of its hosts, by the "
                                        "collector, unless --here "
                                        "says otherwise." };
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
        if (!here && (fleet || url || is_part(o.root, w.items[0])))
                return stop_fleet(&o, url, w.items[0]);
        m.name = wire_text(w.items[0]);
        r = launchd_ask(o.root, LOCAL__KIND__KIND_STOP_REQUEST, &m.base, LOCAL__KIND__KIND_STOP_REPLY,
                        STOP_TIMEOUT, &f, &buf, &problem);
        if (r < 0)
                return problem_complain(&problem);
        printf("%s stopped\n", w.items[0]);
        return 0;
}

/* The journal says nothing of a name it does not know: a typing error must not look like a silent run. */
static void warn_unknown(const char *root, const char *name) {
        struct problem problem = { 0 };
        json_t *answer = NULL;

        if (ask_launchd(root, name, &answer, &problem) == 0 &&
            json_array_size(json_object_get(answer, "jobs")) == 0)
                fprintf(stderr,
                        "tpuctl logs: there is no run '%s' on this host (see: tpuctl jobs); what the "
                        "journal has "
                        "of an older one follows\n",
                        name);
        json_decref(answer);
}

#define FOLLOW_LINES 10 /* as journalctl -f begins */

/* This host's own, which the journal has whole. Returns only when it cannot be run. */
static int show_journal(const struct options *o, const char *name, const char *lines, bool follow) {
        static char journalctl[] = "journalctl", by_unit[] = "-u", output[] = "-o", cat[] = "cat",
                    short_follow[] = "-f";
        char unit[80], n[40], *args[] = { journalctl, by_unit, unit, output, cat, NULL, NULL, NULL };
        size_t i = 5;

        (void) snprintf(unit, sizeof(unit), RUN_UNIT_PREFIX "%s.service", name);
        (void) snprintf(n, sizeof(n), "--lines=%.20s", lines ? lines : "");
        if (lines)
                args[i++] = n;
        if (follow)
                args[i] = short_follow;
        warn_unknown(o->root, name);
        (void) execvp(args[0], args);
        fprintf(stderr, "tpuctl logs: journalctl cannot be run: %m\n");
        return EXIT_NO_ANSWER;
}

static int show_fleet_logs(const struct options *o, const char *url, struct fleet_logs *l,
                           const char *lines) {
        char *end;

        l->limit = LOGS_SHOWN;
        if (lines) {
                errno = 0;
                l->limit = (unsigned) MIN(strtoul(lines, &end, 10), (unsigned long) UINT32_MAX);
                if (*lines < '0' || *lines > '9' || *end || l->limit < 1 || l->limit > LOGS_SHOWN_MAX) {
                        fprintf(stderr, "tpuctl logs: --lines is a number from 1 to %u, not '%s'\n",
                                LOGS_SHOWN_MAX, lines);
                        return EXIT_USAGE;
                }
        }
        return collector_open(o, url, &l->collector) < 0 ? EXIT_USAGE : fleet_logs_show(l, stdout);
}

int verb_logs(const struct ctl *c, int argc, char *argv[]) {
        bool fleet = false;
        const char *url = NULL, *lines = NULL;
        struct fleet_logs l = { 0 };
        const struct option_def defs[] = {
                { "follow", NULL, "go on with new lines as they come (also: -f)", NULL, &l.follow },
                { "lines", "N", "the newest N only (also: -n); of the collector by default 1000", &lines,
                  NULL },
                { "fleet", NULL, "of all hosts of the run, from the collector", NULL, &fleet },
                { "worker", "SLICE/N", "of this worker, or N of any slice, from the collector", &l.worker,
                  NULL },
                { "host", "NAME", "of this host, from the collector", &l.host, NULL },
                { "collector", "URL", "where its API is; default: tpuctl.conf, else " COLLECTOR_DEFAULT,
                  &url, NULL },
        };
        struct options o = {
                .program = "tpuctl logs",
                .synopsis = "NAME [-f] [-n N] [--fleet | --worker SLICE/N | --host NAME]",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
                .summary = "Shows what a run has printed: of this host journalctl -u " RUN_UNIT_PREFIX
                           "NAME.service -o cat,\nwhich asks for the group systemd-journal of who is not "
                           "root; of other hosts what the collector has."
        };
        static char long_follow[] = "--follow", long_lines[] = "--lines";
        struct words w;
        int r;

        for (int i = 1; i < argc; i++)
                if (streq(argv[i], "-f"))
                        argv[i] = long_follow;
                else if (streq(argv[i], "-n"))
                        argv[i] = long_lines;
        r = words_parse(c, &o, argc, argv, 1, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        l.run = w.items[0];
        if (fleet || url || l.worker || l.host)
                return show_fleet_logs(&o, url, &l, lines);
        if (lines && (!*lines || strspn(lines, "0123456789") != strlen(lines))) {
                fprintf(stderr, "tpuctl logs: --lines is a number, not '%s'\n", lines);
                return EXIT_USAGE;
        }
        if (log_file_exists(o.root, w.items[0]))
                return log_file_show(o.root, w.items[0],
                                     lines      ? strtoull(lines, NULL, 10)
                                     : l.follow ? FOLLOW_LINES
                                                : UINT64_MAX,
                                     l.follow);
        return show_journal(&o, w.items[0], lines, l.follow);
}
