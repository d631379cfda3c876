/* SPDX-License-Identifier: Apache-2.0 */
#include "run_table.h"

static void on_captured(struct capture *c, const struct capture_result *result, void *userdata) {
        struct run *run = userdata;

        (void) c;
        run->owner->events->captured(run->job, result, run->captured_real, run->owner->userdata);
}

static void on_capture_gone(struct capture *c, void *userdata) {
        struct run *run = userdata;

        run->capture = capture_free(c);
}

/* Whether remote may have native frames now; then they count. */
static bool take_round(struct run *run, usec_t now) {
        usec_t *oldest = &run->rounds[run->round];

        if (*oldest > 0 && now < *oldest + CAPTURE_ROUND_EVERY)
                return false;
        *oldest = MAX(now, (usec_t) 1);
        run->round = (run->round + 1) % CAPTURE_ROUND;
        return true;
}

int runs_capture(struct runs *r, const char *name, const struct capture_wish *wish, bool remote,
                 struct problem *p) {
        static const struct capture_handlers handlers = { .done = on_captured, .gone = on_capture_gone };
        _cleanup_free_ struct pid_list *pids = malloc(sizeof(*pids));
        struct capture_wish granted = *wish;
        struct run *run = run_find(r, name);
        usec_t now = host_now(r->host);
        int k;

        if (!run)
                return no_such_run(name, p);
        if (run->job->state == JOB_EXITED)
                return problem_set(p, -ESRCH, "see: tpuctl jobs", "run %s has ended", name);
        if (run->capture || (run->captured_boot && now < run->captured_boot + CAPTURE_INTERVAL))
                return problem_set(p, -EBUSY, "ask again in a second",
                                   "run %s: a capture is under way, or was taken a moment ago", name);
        if (!pids)
                return problem_set(p, -ENOMEM, "try again", "out of memory");
        k = run_pids(run, pids);
        if (k == -ENOENT)
                return problem_set(p, -EAGAIN, "ask again in a second",
                                   "run %s: its control group is not known yet", name);
        if (k == 0 && wish->native && remote)
                granted.native = take_round(run, now);
        if (k == 0)
                k = capture_new(r->event, r->stack_tool, pids->pids, pids->n, &granted, &handlers, run,
                                &run->capture);
        if (k < 0)
                return problem_set(p, k,
                                   k == -ENOENT ? "is the package installed whole? " PATH_STACK_TOOL
                                                : "try again",
                                   "run %s: its stacks cannot be taken: %s", name, strerror(-k));
        run->captured_boot = now;
        run->captured_real = host_now_real(r->host);
        return 0;
}
