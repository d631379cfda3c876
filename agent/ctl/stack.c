/* SPDX-License-Identifier: Apache-2.0 */
/* tpuctl stack: by tpu-hostd, which also sends the record; without it by tpu-launchd alone; out of a file.
 */
#include <fcntl.h>
#include <sys/stat.h>

#include "answer.h"
#include "capture_files.h"
#include "capture_write.h"
#include "clock.h"
#include "render.h"
#include "show.h"
#include "verb_words.h"

#define STACK_TIMEOUT (60 * USEC_PER_SEC)
#define BUSY_AGAIN    (1 * USEC_PER_SEC) /* tpu-launchd takes one capture of a run a second */

static int screen_stack(json_t *answer, usec_t now, FILE *out) {
        show(out, answer, now,
             "run {name}: {processes} process[{processes=1}|es], {threads} thread[{threads=1}|s], "
             "taken {taken}"
             "[\nrecord {record.spool}/{record.class}/{record.seq} is durable and goes to the collector]"
             "\n\n{text:lines}[{processes>0}|no Python process in this run\n]");
        return 0;
}

static json_t *stack_answer(const Local__CaptureReply *reply, const struct capture_text *t) {
        char taken[CLOCK_TEXT_MAX];

        return json_pack("{s:s, s:s, s:I, s:I, s:s, s:n}", "name", reply->name, "taken",
                         clock_text(reply->taken_real_usec, taken), "processes", (json_int_t) t->processes,
                         "threads", (json_int_t) t->threads, "text", t->text, "record");
}

static int stack_of_launchd_once(const char *root, const char *name, json_t **ret, struct problem *problem) {
        Local__CaptureRequest m = LOCAL__CAPTURE_REQUEST__INIT;
        _cleanup_launchd_reply_ ProtobufCMessage *answer = NULL;
        struct capture_text t = { .text = NULL };
        const Local__CaptureReply *reply;
        char why[CAPTURE_WHY_MAX];
        int r;

        m.name = wire_text(name);
        r = launchd_ask(root, LOCAL__KIND__KIND_CAPTURE_REQUEST, &m.base, LOCAL__KIND__KIND_CAPTURE_REPLY,
                        &local__capture_reply__descriptor, STACK_TIMEOUT, &answer, problem);
        if (r < 0)
                return r;
        reply = (const Local__CaptureReply *) answer;
        r = capture_text_make(reply->capture.data, reply->capture.len, RENDER_MAX, &t, why);
        if (r < 0)
                r = problem_set(problem, r, "journalctl -u tpu-launchd", "the capture cannot be read: %s",
                                why);
        else if (t.processes == 0)
                r = problem_set(problem, -ESRCH, "only Python processes have stacks to show",
                                "run %s: no Python process in it: %s", name, t.unread);
        else
                *ret = stack_answer(reply, &t);
        free(t.text);
        return r < 0 || *ret ? r : launchd_garbled(problem);
}

static int stack_of_launchd(const struct options *o, const char *name, json_t **ret,
                            struct problem *problem) {
        struct again again = AGAIN_NULL;
        int r;

        do {
                r = stack_of_launchd_once(o->root, name, ret, problem);
                if (r == -EBUSY || r == -EAGAIN)
                        problem->retry_after = BUSY_AGAIN;
        } while (r < 0 && again_wait(&again, problem, o->program));
        return r;
}

static int stack_of_hostd(const struct options *o, const char *name, json_t **ret, struct problem *problem) {
        struct again again = AGAIN_NULL;
        char path[80];
        int r;

        (void) snprintf(path, sizeof(path), "/v1/runs/%s/capture", name);
        do
                r = hostd_call(o->root, "POST", path, STACK_TIMEOUT, ret, problem);
        while (r < 0 && again_wait(&again, problem, o->program));
        return r;
}

/* What tpu-stack or an agent wrote, as tpu-stack itself shows it. */
static int show_captures(const uint8_t *data, size_t len, bool json, const char *path) {
        _cleanup_capture_reader_ struct capture_reader reader;
        _cleanup_free_ struct render *o = malloc(sizeof(*o));
        char why[CAPTURE_WHY_MAX] = "";
        int r = o ? 1 : -ENOMEM;

        capture_reader_init(&reader, data, len, CAPTURE_SHOWN);
        while (r > 0) {
                _cleanup_host_capture_ struct host_capture c;
                _cleanup_stack_table_ struct stack_table t = STACK_TABLE_NULL;

                r = capture_reader_next(&reader, &c, &t, why);
                if (r <= 0)
                        break;
                render_begin(o, stdout, json, RENDER_MAX);
                o->errors = true;
                render_capture(o, &c, &t);
                (void) render_end(o); /* or stdout is closed */
        }
        if (r == 0)
                return 0;
        return options_fail("tpuctl stack", EXIT_NO_ANSWER, "%s: %s", path, why[0] ? why : strerror(-r));
}

static int stack_of_file(const char *path, bool json) {
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        struct problem problem = { .no_answer = true };
        _cleanup_free_ char *data = NULL;
        struct stat st;
        size_t len;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return options_fail("tpuctl stack", EXIT_NO_ANSWER, "%s: %s", path,
                                    fd < 0 ? strerror(errno) : "no file");
        if (capture_file_read(path, fd, &data, &len, &problem) < 0)
                return problem_complain(&problem);
        return show_captures((const uint8_t *) data, len, json, path);
}

int verb_stack(const struct ctl *c, int argc, char *argv[]) {
        bool json = false;
        const char *from = NULL;
        const struct option_def defs[] = {
                { "from", "FILE", "show the captures of a file: an agent's, or of tpu-stack --capture",
                  &from, NULL },
                OPTION_JSON(&json)
        };
        struct options o = VERB_OPTIONS(
                "stack", "NAME|--from FILE [--json]", defs,
                "Shows the Python stacks of all threads of a run, without stopping it, and sends them to "
                "the collector as a record.");
        struct problem problem;
        json_t *answer = NULL;
        struct words w;
        int r = words_parse(c, &o, argc, argv, 0, 1, &w);

        if (r < 0)
                return options_exit(r);
        if ((w.n == 1) == (from != NULL))
                return options_fail("tpuctl stack", EXIT_USAGE,
                                    "the name of a run, or --from FILE\nTry 'tpuctl stack --help'.");
        if (from)
                return stack_of_file(from, json);
        if (words_check_run_name(&o, w.items[0]) < 0)
                return EXIT_USAGE;
        r = stack_of_hostd(&o, w.items[0], &answer, &problem);
        if (r < 0 && problem.retry_after == 0) { /* else tpu-launchd alone is as busy */
                struct problem hostd = problem; /* it may not know of this run (Adopt=observe) */

                r = stack_of_launchd(&o, w.items[0], &answer, &problem);
                if (r < 0 && !hostd.no_answer)
                        problem = hostd;
                if (r == 0) {
                        if (hostd.no_answer)
                                (void) problem_complain(&hostd);
                        fputs("tpuctl: taken by tpu-launchd alone; the record was NOT sent to the "
                              "collector\n",
                              stderr);
                }
        }
        return r < 0 ? problem_complain(&problem) :
                       answer_print(&o, answer, &(struct answer_as){ json, screen_stack, NULL });
}
