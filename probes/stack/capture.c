/* SPDX-License-Identifier: Apache-2.0 */
#include "capture.h"

int capture_init(struct capture *c, struct memory_source source) {
        int r = memory_init(&c->memory, source);

        if (r == 0)
                r = memory_init(&c->names, source);
        if (r == 0)
                c->names.ahead = 1;
        return r;
}

static void clear_locals(struct python_thread *t) {
        for (size_t i = 0; t->locals && i < MIN(t->chain.n, (size_t) LOCALS_FRAMES_MAX); i++)
                frame_locals_clear(&t->locals[i]);
        free(TAKE_PTR(t->locals));
}

static void clear_threads(struct capture *c) {
        for (size_t i = 0; i < c->n_threads; i++) {
                clear_locals(&c->threads[i]);
                chain_clear(&c->threads[i].chain);
        }
        free(TAKE_PTR(c->threads));
        c->n_threads = c->frames = 0;
}

void capture_clear(struct capture *c) {
        native_clear(&c->native);
        clear_threads(c);
        task_list_clear(&c->tasks);
        code_cache_clear(&c->codes);
        memory_clear(&c->memory);
        memory_clear(&c->names);
        process_close(&c->process);
        *c = CAPTURE_NULL;
}

bool frame_is_shown(const struct frame *f) {
        return !f->code || f->of_generator ||
               (int64_t) (f->instruction - f->code->instructions) >= f->code->first_traceable * 2;
}

/* An error of reading one thread's memory; others end the capture. */
static bool is_local(int error) {
        return error == -EFAULT || error == -EBADMSG || error == -ELOOP;
}

/* Looks up the code of every frame. A frame whose code makes no sense fails the chain. */
static int resolve(struct capture *c, struct chain *chain) {
        for (size_t i = 0; i < chain->n; i++) {
                struct frame *f = &chain->frames[i];
                struct code *code = NULL;
                int r = code_get(&c->codes, &c->names, c->interpreter.layout, &c->interpreter.types,
                                 f->code_address, &code);

                if (r < 0 && r != -E2BIG)
                        return r;
                if (!code)
                        continue;
                if (!code_holds(code, f->instruction))
                        return -EBADMSG;
                f->code = code;
                f->line = code_line_again(code, f->instruction);
        }
        return 0;
}

static size_t frames_limit(const struct capture *c) {
        return MIN((size_t) WALK_FRAMES_MAX, WALK_FRAMES_TOTAL_MAX - c->frames);
}

/* First reading of t; local errors are remembered in it. */
static int read_first(struct capture *c, struct python_thread *t) {
        int r;

        t->limit = frames_limit(c);
        r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &t->chain);
        if (r == 0)
                r = resolve(c, &t->chain);
        t->error = is_local(r) ? r : 0;
        c->frames += t->chain.n;
        return is_local(r) ? 0 : r;
}

/* Second reading: whether it is equal. */
static int read_second(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain again = { 0 };
        int r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again);

        if (r < 0 && !is_local(r))
                return r;
        t->changed = r < 0 || t->error || !chain_equal(&t->chain, &again);
        return 0;
}

/* Drops what was read, names included: a later reading must not rest on it. */
static void start_anew(struct capture *c) {
        memory_forget(&c->memory);
        memory_forget(&c->names);
        c->codes.generation++;
}

/* Both readings of a thread on pages copied twice by one call; then the names. */
static int read_pair(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain again = { 0 };
        int r = memory_refresh_twice(&c->memory);
        size_t known = c->memory.n_pages;

        t->limit = frames_limit(c);
        if (r == 0)
                r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &t->chain);
        c->memory.side = 1;
        if (r == 0)
                r = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again);
        if (r == 0)
                r = resolve(c, &t->chain);
        c->frames += t->chain.n;
        t->error = is_local(r) ? r : 0;
        t->changed = t->error || c->memory.disturbed || t->chain.resting || c->memory.n_pages != known ||
                     !chain_equal(&t->chain, &again);
        return is_local(r) ? 0 : r;
}

/* Remembers where the thread is, to tell one that runs from one whose memory makes no sense. */
static void note_place(struct capture *c, struct python_thread *t) {
        uint64_t place = 0;

        (void) walk_place(&c->memory, &c->interpreter, t->id.state, &place); /* none is a place, too */

        t->moves = t->moves || (t->noted && place != t->place);
        t->noted = true;
        t->place = place;
}

/*
 * Reads one thread anew, one that moves or may move. The first walk only finds out which pages matter. A
 * reading that makes no sense does not replace one that did.
 */
static int read_again(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain scout = { 0 };
        struct python_thread again = { .id = t->id, .changed = true };
        int r;

        start_anew(c);
        note_place(c, t);
        r = walk_frames(&c->memory, &c->interpreter, t->id.state, WALK_FRAMES_MAX, &scout);
        if (r == 0 || is_local(r))
                r = read_pair(c, &again);
        if (r == -E2BIG && scout.n > 0) {
                chain_clear(&again.chain);
                return 0; /* too deep for one call: it stays marked */
        }
        if (r == 0 && (!again.error || t->error)) {
                struct chain old = t->chain;

                t->chain = again.chain;
                t->error = again.error;
                t->changed = again.changed;
                again.chain = old;
        }
        c->frames -= again.chain.n;
        chain_clear(&again.chain);
        return r;
}

static int first_pass(struct capture *c) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        int r = walk_threads(&c->memory, &c->interpreter, &list);

        if (r < 0)
                return r;
        c->threads = calloc(list.n + 1, sizeof(*c->threads));
        if (!c->threads)
                return -ENOMEM;
        for (size_t i = 0; i < list.n; i++) {
                c->threads[i].id = list.items[list.n - 1 - i]; /* Python's own order is newest first */
                c->n_threads = i + 1;
                r = read_first(c, &c->threads[i]);
                if (r < 0)
                        return r;
        }
        c->main_thread = list.main_thread;
        return 0;
}

/*
 * Threads that ended meanwhile are dropped: they are no part of the later moment. Both lists keep their
 * order, so that the next one is most often the one looked for.
 */
static void drop_ended(struct capture *c, const struct thread_list *now) {
        size_t kept = 0, expected = now->n;

        for (size_t i = 0; i < c->n_threads; i++) {
                const struct thread_id *id = &c->threads[i].id;
                size_t at = expected;

                while (at > 0 &&
                       (now->items[at - 1].state != id->state || now->items[at - 1].native != id->native))
                        at--;
                if (at > 0) {
                        expected = at - 1;
                        c->threads[i].gil = id->gil && now->items[at - 1].gil;
                        c->threads[i].may_run = id->gil || now->items[at - 1].gil;
                        c->threads[kept++] = c->threads[i];
                } else {
                        c->frames -= c->threads[i].chain.n;
                        chain_clear(&c->threads[i].chain);
                }
        }
        c->n_threads = kept;
}

/* Reads a thread that changed until two readings are equal, or it is clear that they will not be. */
static int settle(struct capture *c, struct python_thread *t) {
        for (unsigned n = 0; t->changed && n < (t->error ? CAPTURE_TRIES : CAPTURE_RETRIES); n++) {
                int r = read_again(c, t);

                if (r < 0)
                        return r;
        }
        if (t->error && t->moves)
                t->error = 0; /* it ran all the time: changed, and no frame to show */
        return 0;
}

static int second_pass(struct capture *c) {
        _cleanup_(thread_list_clear) struct thread_list list = { 0 };
        int r = memory_refresh(&c->memory);

        if (r == 0)
                r = walk_threads(&c->memory, &c->interpreter, &list);
        if (r < 0)
                return r;
        drop_ended(c, &list);
        for (size_t i = 0; i < c->n_threads; i++) {
                r = read_second(c, &c->threads[i]);
                if (r < 0)
                        return r;
                /* Who holds the interpreter lock may run, and passes only when both readings are a moment
                 * apart. */
                if (c->threads[i].may_run)
                        c->threads[i].changed = true;
        }
        c->memory.ahead = 1;
        for (size_t i = 0; i < c->n_threads; i++) {
                r = settle(c, &c->threads[i]);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* Those of one thread; none when its frames are others afterwards. */
static int take_locals(struct capture *c, struct python_thread *t) {
        _cleanup_(chain_clear) struct chain again = { 0 };
        size_t n = MIN(t->chain.n, (size_t) LOCALS_FRAMES_MAX);
        int r = 0;

        t->locals = calloc(n + 1, sizeof(*t->locals));
        if (!t->locals)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < n; i++)
                if (frame_is_shown(&t->chain.frames[i])) {
                        r = locals_read(&c->memory, &c->interpreter, &t->chain.frames[i], &t->locals[i]);
                        r = is_local(r) ? 0 : r;
                }
        memory_forget(&c->memory);
        if (r == 0 && (walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again) < 0 ||
                       !chain_equal(&t->chain, &again)))
                clear_locals(t);
        return r;
}

static int capture_locals(struct capture *c) {
        int r = 0;

        memory_forget(&c->memory);
        for (size_t i = 0; r == 0 && i < c->n_threads; i++)
                if (!c->threads[i].changed && !c->threads[i].error)
                        r = take_locals(c, &c->threads[i]);
        return r == -E2BIG ? 0 : r; /* so much memory is not read for them */
}

int capture_stacks(struct capture *c) {
        int r = -EAGAIN;

        for (unsigned n = 0; n <= CAPTURE_RETRIES; n++) {
                r = first_pass(c);
                if (r == 0)
                        r = second_pass(c);
                if (r == 0 || !is_local(r))
                        break;
                clear_threads(c); /* the lists themselves changed: look again */
                start_anew(c);
        }
        return r == 0 && c->with_locals ? capture_locals(c) : r;
}

static const struct task *find_task(const struct capture *c, pid_t own) {
        size_t low = 0, high = c->tasks.n;

        while (low < high) {
                size_t middle = low + (high - low) / 2;

                if (c->tasks.items[middle].own < own)
                        low = middle + 1;
                else
                        high = middle;
        }
        return low < c->tasks.n && c->tasks.items[low].own == own ? &c->tasks.items[low] : NULL;
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
                t = find_task(c, tid);
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
        r = native_capture(&c->process, &c->memory, &c->tasks, k == 0 ? &kernel : NULL, &c->native);
        if (k < 0 && !c->native.kernel_by_proc)
                (void) snprintf(c->kernel_why, sizeof(c->kernel_why), "%s",
                                c->task_stacks ? strerror(-k) : c->task_stacks_why);
        return r;
}

/* Native stacks go with the Python frames when those are the same before and after. */
static int capture_natives(struct capture *c, char why[static REASON_MAX]) {
        int r = take_natives(c);

        if (r == -ENOPKG) {
                (void) snprintf(why, REASON_MAX, "--native needs libdw.so.1 (the package libdw1)");
                return r;
        }
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        memory_forget(&c->memory);
        for (size_t i = 0; i < c->n_threads; i++) {
                _cleanup_(chain_clear) struct chain again = { 0 };
                struct python_thread *t = &c->threads[i];

                t->drifted = walk_frames(&c->memory, &c->interpreter, t->id.state, t->limit, &again) < 0 ||
                             !chain_equal(&t->chain, &again);
        }
        return 0;
}

static void join_tasks(struct capture *c) {
        size_t joined = 0;

        for (size_t i = 0; i < c->n_threads; i++) {
                struct python_thread *t = &c->threads[i];

                if (t->id.native != 0 && t->id.native <= INT32_MAX)
                        t->task = find_task(c, (pid_t) t->id.native);
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
        uint64_t raw = 0;
        int r;

        memory_forget(&c->memory);
        r = memory_read_u64(&c->memory, c->interpreter.version_at, &raw);
        if (process_state(&c->process) == '\0')
                return interpreter_reason(&c->process, -ESRCH, why);
        if (r < 0 || raw != c->interpreter.version_raw) {
                (void) snprintf(why, REASON_MAX,
                                "it became another program (execve) while it was read; try again");
                return -EAGAIN;
        }
        return 0;
}

static int open_process(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]) {
        int r = process_open(h, pid, &c->process);

        if (r == -ESRCH) {
                (void) snprintf(why, REASON_MAX, "there is no such process");
                return r;
        }
        if (r < 0) {
                (void) snprintf(why, REASON_MAX, "/proc/%d: %s", (int) pid, strerror(-r));
                return r;
        }
        process_command(&c->process, c->command);
        if (!h->real_root) {
                (void) snprintf(why, REASON_MAX,
                                "memory can be read on the real machine only, not below --root");
                return -EOPNOTSUPP;
        }
        c->memory_pid = pid;
        r = capture_init(c, memory_source_process(&c->memory_pid));
        return r < 0 ? interpreter_reason(&c->process, r, why) : 0;
}

/* What can be had of a process whose Python is not read: none, or of a version that is refused. */
static int capture_native_only(struct capture *c, char why[static REASON_MAX]) {
        int r;

        (void) snprintf(c->no_python_why, sizeof(c->no_python_why), "%s", why);
        c->no_python = true;
        r = process_tasks(&c->process, &c->tasks);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        c->other_threads = c->tasks.n;
        return capture_natives(c, why);
}

int capture_process(const struct host *h, pid_t pid, struct capture *c, char why[static REASON_MAX]) {
        int r = open_process(h, pid, c, why);

        if (r < 0)
                return r;
        r = interpreter_find(&c->process, &c->memory, &c->interpreter, why);
        if (c->with_native && (r == -ENOENT || r == -EOPNOTSUPP || r == -EBADMSG || r == -EAGAIN))
                return capture_native_only(c, why);
        if (r < 0)
                return r;
        r = capture_stacks(c);
        if (r == 0)
                r = process_tasks(&c->process, &c->tasks);
        if (r < 0)
                return interpreter_reason(&c->process, r, why);
        join_tasks(c);
        r = check_unchanged(c, why);
        return r == 0 && c->with_native ? capture_natives(c, why) : r;
}
