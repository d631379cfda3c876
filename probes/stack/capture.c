/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

#include <assert.h>

#include "texts.h"

/* What belongs to one capture only. */
static void clear_results(struct capture *c) {
        native_clear(&c->native);
        waits_clear(&c->waits);
        capture_drop_stacks(c);
        c->no_python = false;
        c->kernel_why[0] = c->no_python_why[0] = '\0';
        c->other_threads = 0;
}

void capture_clear(struct capture *c) {
        clear_results(c);
        task_list_clear(&c->tasks);
        code_cache_clear(&c->codes);
        memory_clear(&c->memory);
        memory_clear(&c->names);
        memory_clear(&c->moving);
        memory_clear(&c->moving_names);
        process_close(&c->process);
        *c = CAPTURE_NULL;
}

/*
 * The thread's number out of its own descriptor, to which pthread_self() points: glibc has it 720 bytes in
 * (struct pthread.tid of nptl/descr.h on x86-64), musl 48 (struct pthread.tid of
 * src/internal/pthread_impl.h). To 3.10 Python does not keep it. A number that is no thread of the process
 * is not believed.
 */
static const struct task *find_task_by_pthread(struct capture *c, uint64_t pthread) {
        static const unsigned places[] = { 720, 48 };

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                const struct task *t;
                int32_t tid;

                if (memory_read(&c->memory, pthread + places[i], &tid, sizeof(tid)) < 0)
                        continue;
                t = task_list_find(&c->tasks, tid);
                if (t)
                        return t;
        }
        return NULL;
}

const struct native_thread *capture_native(const struct capture *c, pid_t tid) {
        for (size_t i = 0; i < c->native.n; i++)
                if (c->native.threads[i].tid == tid)
                        return &c->native.threads[i];
        return NULL;
}

bool capture_runs_python(const struct capture *c, const struct task *task) {
        for (size_t i = 0; i < c->n_threads; i++)
                if (c->threads[i].task == task)
                        return true;
        return false;
}

/* Native stacks, and the kernel's by what is permitted. */
static int take_natives(struct capture *c) {
        _cleanup_(task_stack_list_clear) struct task_stack_list kernel = { 0 };
        int k = c->task_stacks ? task_stacks_read(c->task_stacks, c->process.pid, &kernel) : -EOPNOTSUPP, r;

        if (k == -ENOMEM)
                return k;
        r = native_capture(&c->process, &c->moving, &c->tasks, k == 0 ? &kernel : NULL, &c->native);
        if (k < 0 && !c->native.kernel_by_proc)
                (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "%s",
                                c->task_stacks ? strerror(-k) : c->task_stacks_why);
        return r;
}

void capture_join_tasks(struct capture *c) {
        size_t joined = 0;

        for (size_t i = 0; i < c->n_threads; i++) {
                struct python_thread *t = &c->threads[i];

                if (t->id.native != 0 && t->id.native <= INT32_MAX)
                        t->task = task_list_find(&c->tasks, (pid_t) t->id.native);
                if (!t->task && t->id.native == 0)
                        t->task = find_task_by_pthread(c, t->id.pthread);
                /* After fork() the one thread left still has its parent's number, and is the process's
                 * first. */
                for (size_t k = 0; !t->task && t->id.pthread == c->main_thread && k < c->tasks.n; k++)
                        if (c->tasks.items[k].tid == c->process.pid)
                                t->task = &c->tasks.items[k];
                joined += t->task != NULL;
        }
        c->other_threads = c->tasks.n > joined ? c->tasks.n - joined : 0;
}

/* Whether all that was read is of one program: not when it called execve(2) meanwhile. */
static int check_unchanged(struct capture *c, char why[static REASON_MAX]) {
        struct process_stat now;
        uint64_t raw = 0;
        int r = memory_read_many(&c->memory, &(struct iovec) { &raw, sizeof(raw) },
                                 &c->interpreter.version_at, 1);

        process_stat(&c->process, &now);
        if (now.state == '\0')
                return interpreter_reason(&c->process, -ESRCH, why);
        if (r < 0 || raw != c->interpreter.version_raw || !process_stat_same_image(&now, &c->stat))
                return text_fail(why, REASON_MAX, -EAGAIN,
                                 "it became another program (execve) while it was read; try again");
        return 0;
}

static int open_process(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]) {
        int r = process_open(h, pid, &c->process);

        if (r == -ESRCH)
                return text_fail(why, REASON_MAX, r, "there is no such process");
        if (r < 0)
                return text_fail(why, REASON_MAX, r, "/proc/%d: %s", (int) pid, strerror(-r));
        process_command(&c->process, c->command);
        if (!h->real_root)
                return text_fail(why, REASON_MAX, -EOPNOTSUPP,
                                 "memory can be read on the real machine only, not below --root");
        process_stat(&c->process, &c->stat);
        c->memory_pid = pid;
        capture_init(c, memory_source_process(&c->memory_pid));
        if (c->without_locks)
                c->memory.ahead = 1; /* a page beside what is needed may be the one that does not answer */
        return 0;
}

/* _PyRuntime is no larger, and smaller before it held the main interpreter (from 3.12 on). */
static uint64_t runtime_size(uint64_t version) {
        return version < UINT64_C(0x030C0000) ? 256u * 1024 : 1024u * 1024;
}

static int capture_waits(const struct host *h, struct capture *c) {
        _cleanup_free_ struct lock_thread *python = calloc(c->n_threads + 1, sizeof(*python));
        struct waits_of from = { .host = h,
                                 .process = &c->process,
                                 .tasks = &c->tasks,
                                 .memory = c->without_locks ? NULL : &c->moving,
                                 .python = python };

        if (!python)
                return -ENOMEM;
        memory_forget(&c->moving);
        for (size_t i = 0; i < c->n_threads; i++) {
                const struct python_thread *t = &c->threads[i];

                if (t->task)
                        python[from.n_python++] = (struct lock_thread){
                                .tid = t->task->tid,
                                .pthread = t->id.pthread,
                                .frame = t->chain.n > 0 ? t->chain.frames[0].address : 0,
                                .gil = t->gil
                        };
        }
        if (!c->no_python) {
                from.runtime = c->interpreter.runtime;
                from.runtime_end = from.runtime + runtime_size(c->interpreter.version);
        }
        return waits_read(&from, &c->waits);
}

/* Of threads that run, only the stop of their native copy shows a call. */
static int capture_looks(const struct host *h, struct capture *c) {
        const struct waits_of from = { .host = h,
                                       .process = &c->process,
                                       .tasks = &c->tasks,
                                       .memory = c->without_locks ? NULL : &c->moving };
        bool looks = false;

        assert(c->native.n == c->tasks.n);
        for (size_t i = 0; i < c->tasks.n; i++)
                if (c->tasks.items[i].state == 'R') {
                        c->tasks.items[i].in = c->native.threads[i].looked;
                        looks |= c->tasks.items[i].in.number >= 0;
                }
        memory_forget(&c->moving);
        return looks ? waits_add_looks(&from, &c->waits) : 0;
}

/*
 * Native stacks go with the Python frames when those are the same before and after. What fails of them costs
 * the native stacks alone, but for want of memory: for that there is another attempt.
 */
static int capture_natives(const struct host *h, struct capture *c, char why[static REASON_MAX]) {
        int r = take_natives(c);

        if (r == -ENOMEM || r == -ESRCH)
                return interpreter_reason(&c->process, r, why);
        if (r < 0) {
                bool held = c->native.held;

                native_clear(&c->native);
                c->native.held = held; /* such a thread is let go by our end alone */
                (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "no native stacks: %s",
                                r == -ENOPKG    ? "libdw.so.1 cannot be loaded (the package libdw1)"
                                : r == -EBADMSG ? "libdw cannot read its files"
                                                : strerror(-r));
                return 0;
        }
        r = capture_looks(h, c);
        if (r == 0)
                r = memory_refresh(&c->memory);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        for (size_t i = 0; i < c->n_threads; i++) {
                _cleanup_(chain_clear) struct chain again = { 0 };
                struct python_thread *t = &c->threads[i];

                t->drifted = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again) < 0 ||
                             !chain_equal(&t->chain, &again);
        }
        return 0;
}

/* What can be had of a process whose Python is not read: none, or of a version that is refused. */
static int capture_without_python(const struct host *h, struct capture *c, int error,
                                  char why[static REASON_MAX]) {
        int r;

        (void) snprintf(c->no_python_why, sizeof(c->no_python_why), "%s", why);
        c->no_python = true;
        c->no_python_error = error;
        r = process_tasks(&c->process, &c->tasks);
        if (r == 0)
                r = capture_waits(h, c);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        c->other_threads = c->tasks.n;
        return c->with_native ? capture_natives(h, c, why) : 0;
}

/* After the interpreter was found. */
static int capture_python(const struct host *h, struct capture *c, char why[static REASON_MAX]) {
        int r = capture_stacks(c);

        if (r == 0)
                r = process_tasks(&c->process, &c->tasks);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        capture_join_tasks(c);
        r = capture_waits(h, c);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        r = check_unchanged(c, why);
        return r == 0 && c->with_native ? capture_natives(h, c, why) : r;
}

static int capture_anew(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]) {
        int r = open_process(h, pid, c, why);

        if (r < 0)
                return r;
        if (c->without_native)
                (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "no native stacks: %s",
                                c->without_native);
        if (c->without_python) {
                (void) snprintf(why, REASON_MAX, "no stacks: %s", c->without_python);
                return capture_without_python(h, c, -EIO, why);
        }
        r = interpreter_find(&c->process, &c->memory, &c->interpreter, why);
        if (r == -ENOENT || r == -EOPNOTSUPP || r == -EBADMSG || r == -EAGAIN)
                return capture_without_python(h, c, r, why);
        if (r < 0)
                return r;
        c->python_found = true;
        return capture_python(h, c, why);
}

int capture_process(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]) {
        struct capture empty = CAPTURE_NULL;

        if (c->python_found && c->process.pid == pid && !c->without_python && !c->without_native) {
                clear_results(c);
                if (capture_python(h, c, why) == 0)
                        return 0;
        }
        /* Another program by now, or another process: what is known of it counts for nothing. */
        empty.with_native = c->with_native;
        empty.without_python = c->without_python;
        empty.without_native = c->without_native;
        empty.without_locks = c->without_locks;
        empty.task_stacks = c->task_stacks;
        empty.task_stacks_why = c->task_stacks_why;
        empty.tasks.keep = c->tasks.keep;
        capture_clear(c);
        *c = empty;
        return capture_anew(h, pid, c, why);
}
