/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl stack: where every thread of a run is. By tpu-hostd, which also sends the record; without it by
 * tpu-launchd alone. */
#include "again.h"
#include "clock.h"
#include "ctl.h"
#include "hostd.h"
#include "launchd.h"
#include "report.h"
#include "screen.h"
#include "table.h"
#include "words.h"

#define PROGRAM       "tpuctl stack"
#define STACK_TIMEOUT (60 * USEC_PER_SEC)
#define BUSY_AGAIN    (1 * USEC_PER_SEC) /* tpu-launchd takes one capture of a run a second */

static void print(const json_t *a) {
        const json_t *record = json_object_get(a, "record");
        char n[7][FIELD_TEXT_MAX], line[512];

        (void) snprintf(line, sizeof(line), "run %s: %s processes, %s threads, taken %s",
                        field_text(a, "name", n[0]), field_text(a, "processes", n[1]),
                        field_text(a, "threads", n[2]), field_text(a, "taken", n[3]));
        print_clean(stdout, line, false);
        if (json_is_object(record)) {
                (void) snprintf(line, sizeof(line), "\nrecord %s/%s/%s is durable and goes to the collector",
                                field_text(record, "spool", n[4]), field_text(record, "class", n[5]),
                                field_text(record, "seq", n[6]));
                print_clean(stdout, line, true);
        }
        fputs("\n\n", stdout);
        print_clean(stdout, field_text(a, "text", n[0]), true);
        if (json_integer_value(json_object_get(a, "processes")) == 0)
                fputs("no Python process in this run\n", stdout);
}

static int ask_launchd_once(const char *root, const char *name, json_t **ret, struct problem *problem) {
        Local__CaptureRequest m = LOCAL__CAPTURE_REQUEST__INIT;
        _cleanup_free_ uint8_t *buf = NULL;
        Local__CaptureReply *reply;
        char taken[CLOCK_TEXT_MAX];
        struct frame f;
        int r;

        m.name = wire_text(name);
        r = launchd_ask(root, LOCAL__KIND__KIND_CAPTURE_REQUEST, &m.base, LOCAL__KIND__KIND_CAPTURE_REPLY,
                        STACK_TIMEOUT, &f, &buf, problem);
        if (r < 0)
                return r;
        reply = local__capture_reply__unpack(NULL, f.len, f.data);
        if (!reply)
                return launchd_garbled(problem);
        *ret = json_pack("{s:s, s:s, s:I, s:I, s:s, s:n}", "name", reply->name, "taken",
                         clock_text(reply->taken_real_usec, taken), "processes",
                         (json_int_t) reply->processes, "threads", (json_int_t) reply->threads, "text",
                         reply->text, "record");
        local__capture_reply__free_unpacked(reply, NULL);
        return *ret ? 0 : launchd_garbled(problem);
}

static int ask_launchd(const char *root, const char *name, json_t **ret, struct problem *problem) {
        struct again again = AGAIN_NULL;
        int r;

        do {
                r = ask_launchd_once(root, name, ret, problem);
                if (r == -EBUSY || r == -EAGAIN)
                        problem->retry_after = BUSY_AGAIN;
        } while (r < 0 && again_wait(&again, problem, PROGRAM));
        return r;
}

static int ask_hostd(const char *root, const char *name, json_t **ret, struct problem *problem) {
        struct again again = AGAIN_NULL;
        char path[80];
        int r;

        (void) snprintf(path, sizeof(path), "/v1/jobs/%s/stack", name);
        do
                r = hostd_ask(root, path, true, STACK_TIMEOUT, ret, problem);
        while (r < 0 && again_wait(&again, problem, PROGRAM));
        return r;
}

int verb_stack(const struct ctl *c, int argc, char *argv[]) {
        bool json = false;
        const struct option_def defs[] = { { "json", NULL, "print JSON", NULL, &json } };
        struct options o = { .program = PROGRAM,
                             .synopsis = "NAME [--json]",
                             .defs = defs,
                             .n_defs = ELEMENTSOF(defs),
                             .summary = "Shows the Python stacks of all threads of a run, without stopping "
                                        "it, and sends them to the collector as a record." };
        struct problem problem = { 0 };
        json_t *answer = NULL;
        struct words w;
        int r;

        r = words_parse(c, &o, argc, argv, 1, 1, &w);
        if (r < 0)
                return options_exit(r);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        r = ask_hostd(o.root, w.items[0], &answer, &problem);
        if (r < 0 && problem.no_answer && problem.retry_after == 0) { /* tpu-launchd alone is as busy */
                struct problem hostd = problem;

                r = ask_launchd(o.root, w.items[0], &answer, &problem);
                if (r == 0) {
                        (void) problem_complain(&hostd);
                        fputs("tpuctl: taken by tpu-launchd alone; the record was NOT sent to the "
                              "collector\n",
                              stderr);
                }
        }
        if (r < 0)
                return problem_complain(&problem);
        if (json)
                r = report_print_json(stdout, answer);
        else {
                print(answer);
                json_decref(answer);
        }
        return r < 0 || fflush(stdout) == EOF ? EXIT_NO_ANSWER : 0;
}
