/* SPDX-License-Identifier: Apache-2.0 */
/* Captures of runs: tpu-stack as a child, whose answer goes on as it is. */
#include "run_table.h"

#define WORD_MAX    16
#define OPTIONS_MAX 3

static void add_word(const char ***at, char **words, const char *text) {
        (void) snprintf(*words, WORD_MAX, "%s", text);
        *(*at)++ = *words;
        *words += WORD_MAX;
}

/* argv has room for as many as there are processes, OPTIONS_MAX and 2; words for as many and OPTIONS_MAX. */
static void fill_stack_arguments(const char **argv, char *words, const char *tool, bool native,
                                 bool children, const struct pid_list *pids) {
        char number[WORD_MAX];

        *argv++ = tool;
        add_word(&argv, &words, "--capture");
        if (native)
                add_word(&argv, &words, "--native");
        if (children)
                add_word(&argv, &words, "--children");
        for (size_t i = 0; i < pids->n; i++) {
                (void) snprintf(number, sizeof(number), "%d", (int) pids->pids[i]);
                add_word(&argv, &words, number);
        }
}

static void on_captured(int result, const char *answer, size_t len, void *userdata) {
        struct run *run = userdata;

        run->capture = child_free(run->capture);
        run->owner->events->captured(
                run->kept,
                &(struct capture_result){ .error = result == 0 && len == 0 ? -EIO : result,
                                          .native = run->captured_native,
                                          .data = answer,
                                          .len = len,
                                          .taken_real = run->captured_real },
                run->owner->userdata);
}

/* -ENOENT: it is not installed. -ESRCH: nothing of the run is left. */
static int start_stack_tool(struct run *run, const struct pid_list *pids, bool native) {
        const struct runs *r = run->owner;
        char *const environment[] = { (char[]){ "PATH=/usr/sbin:/usr/bin:/sbin:/bin" },
                                      (char[]){ "LANG=C.UTF-8" }, NULL };
        _cleanup_free_ const char **argv = calloc(pids->n + OPTIONS_MAX + 2, sizeof(*argv));
        _cleanup_free_ char *words = calloc(pids->n + OPTIONS_MAX, WORD_MAX);
        const struct spawn_options program = {
                .path = r->stack_tool, .argv = argv, .environment = environment, .error = -1,
                .own_group = true
        };
        const struct child_work work = { .name = "capture",
                                         .timeout = native ? CAPTURE_NATIVE_TIMEOUT : CAPTURE_TIMEOUT,
                                         .program = &program,
                                         .max = CAPTURE_BYTES_MAX,
                                         .done = on_captured,
                                         .userdata = run };

        if (pids->n == 0)
                return -ESRCH;
        if (!argv || !words)
                return -ENOMEM;
        fill_stack_arguments(argv, words, r->stack_tool, native, run->kept->held != NULL, pids);
        return child_start(r->event, &work, &run->capture);
}

/* Whether remote may have native frames now; then they count. */
static bool count_round(struct run *run, usec_t now) {
        usec_t *oldest = &run->rounds[run->round];

        if (*oldest > 0 && now < *oldest + CAPTURE_ROUND_EVERY)
                return false;
        *oldest = MAX(now, (usec_t) 1);
        run->round = (run->round + 1) % CAPTURE_ROUND;
        return true;
}

int runs_capture(struct runs *r, const char *name, bool native, bool remote, struct problem *p) {
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));
        struct run *run = run_find(r, name);
        usec_t now = host_now(r->host);
        int k;

        if (!run)
                return no_such_run(r, name, p);
        if (run->kept->state == LAUNCH_EXITED)
                return problem_set(p, -ESRCH, "see: tpuctl runs", "run %s has ended", name);
        if (run->capture || (run->captured_boot && now < run->captured_boot + CAPTURE_INTERVAL))
                return problem_set(p, -EBUSY, "ask again in a second",
                                   "run %s: a capture is in progress, or was taken a moment ago", name);
        if (!pids)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        k = run_pids(run, pids);
        if (k == -ENOENT)
                return problem_set(p, -EAGAIN, "ask again in a second",
                                   "run %s: its control group is not known yet", name);
        if (k == 0 && native && remote)
                native = count_round(run, now);
        if (k == 0)
                k = start_stack_tool(run, pids, native);
        if (k < 0)
                return problem_set(p, k,
                                   k == -ENOENT ? "is the package installed whole? " PATH_STACK_TOOL
                                                : "try again",
                                   "run %s: its stacks cannot be taken: %s", name, strerror(-k));
        run->captured_native = native;
        run->captured_boot = now;
        run->captured_real = host_now_real(r->host);
        return 0;
}
