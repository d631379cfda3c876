/* SPDX-License-Identifier: Apache-2.0 */
/* What can be read of a process that has crashed, out of its core: as of one that runs, but that nothing
 * moves, and nobody is there to be asked. */
#include "capture.h"
#include "core_file.h"
#include "texts.h"

static int compare_tasks(const void *a, const void *b) {
        const struct task *x = a, *y = b;

        return COMPARE(x->own, y->own);
}

static int take_tasks(struct capture *c) {
        size_t n;
        const struct core_thread *threads = core_file_threads(c->process.core, &n);

        c->tasks.items = calloc(n + 1, sizeof(*c->tasks.items));
        if (!c->tasks.items)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++)
                c->tasks.items[i] = (struct task){ .tid = threads[i].tid,
                                                   .own = threads[i].tid,
                                                   .state = '?',
                                                   .in = { .number = CALL_UNKNOWN },
                                                   .files = { -1, -1, -1 } };
        c->tasks.n = n;
        qsort(c->tasks.items, n, sizeof(*c->tasks.items), compare_tasks);
        return 0;
}

/* Its memory does not move: what differs between two readings was never meant to be the same. */
static void settle(struct capture *c) {
        size_t n, first = 0;
        pid_t crashed = core_file_threads(c->process.core, &n)[0].tid;
        struct python_thread t;

        for (size_t i = 0; i < c->n_threads; i++) {
                c->threads[i].changed = false;
                if (c->threads[i].task && c->threads[i].task->tid == crashed)
                        first = i;
        }
        if (first == 0)
                return;
        t = c->threads[first];
        memmove(c->threads + 1, c->threads, first * sizeof(t));
        c->threads[0] = t;
}

static int take_python(struct capture *c, char why[static REASON_MAX]) {
        int r = c->without_python ? text_fail(why, REASON_MAX, -EIO, "no stacks: %s", c->without_python)
                                  : interpreter_find(&c->process, &c->memory, &c->interpreter, why);

        if (r == 0) {
                r = capture_stacks(c);
                if (r < 0 && r != -ENOMEM)
                        (void) snprintf(why, REASON_MAX, "its stacks in the core make no sense: %s",
                                        strerror(-r));
        }
        if (r == 0) {
                capture_join_tasks(c);
                settle(c);
                return 0;
        }
        capture_drop_stacks(c);
        (void) snprintf(c->no_python_why, sizeof(c->no_python_why), "%s", why);
        c->no_python = true;
        c->no_python_error = r;
        c->other_threads = c->tasks.n;
        return r == -ENOMEM ? r : 0;
}

static int take_native(struct capture *c) {
        int r;

        memory_forget(&c->moving);
        r = native_capture_core(&c->process, &c->moving, &c->tasks, &c->native);
        if (r == 0 || r == -ENOMEM)
                return r;
        native_clear(&c->native);
        (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "no native stacks: %s",
                        r == -ENOPKG    ? "libdw.so.1 cannot be loaded (the package libdw1)"
                        : r == -EBADMSG ? "libdw cannot read its files, or they are others now"
                                        : strerror(-r));
        return 0;
}

int capture_core(struct core_file *core, struct capture *c, char why[static REASON_MAX]) {
        size_t n;
        int r;

        c->process = (struct process){ .pid = core_file_pid(core), .dir_fd = -1, .core = core };
        (void) snprintf(c->command, sizeof(c->command), "%s: core after signal %d in thread %d",
                        core_file_command(core), core_file_signal(core),
                        (int) core_file_threads(core, &n)[0].tid);
        (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "a core has no stacks of the kernel");
        capture_init(c, core_file_source(core));
        r = take_tasks(c);
        if (r == 0)
                r = take_python(c, why);
        if (r == 0 && c->with_native)
                r = take_native(c);
        else if (r == 0 && c->without_native)
                (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "no native stacks: %s",
                                c->without_native);
        return r < 0 ? text_fail(why, REASON_MAX, r, "%s", strerror(-r)) : 0;
}
