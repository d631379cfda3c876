/* SPDX-License-Identifier: Apache-2.0 */
#include "place.h"

#include "fnv.h"
#include "wait_words.h"

/* --- Words ------------------------------------------------------------------------------------------ */

/* Functions whose names people know, by the last part of a Python function's name; a native function counts
 * when it contains a name of the first group. They add words to a sentence and decide nothing. */
static const struct {
        const char *file, *function, *word; /* file: its path ends so; NULL: any */
        bool native;
} words[] = {
        { NULL, "allreduce", "all-reduce", true },
        { NULL, "Allreduce", "all-reduce", true },
        { NULL, "allgather", "all-gather", true },
        { NULL, "all_reduce", "all-reduce", false },
        { NULL, "all_gather", "all-gather", false },
        { NULL, "all_gather_object", "all-gather", false },
        { NULL, "all_gather_into_tensor", "all-gather", false },
        { NULL, "process_allgather", "all-gather", false },
        { NULL, "reduce_scatter", "reduce-scatter", false },
        { NULL, "reduce_scatter_tensor", "reduce-scatter", false },
        { NULL, "all_to_all", "all-to-all", false },
        { NULL, "all_to_all_single", "all-to-all", false },
        { NULL, "broadcast", "broadcast", false },
        { NULL, "barrier", "barrier", false },
        { NULL, "monitored_barrier", "barrier", false },
        { NULL, "sync_global_devices", "barrier", false },
        { NULL, "rendezvous", "barrier", false },
        { NULL, "init_process_group", "start of the process group", false },
        { NULL, "_engine_run_backward", "the gradients' all-reduce", false },
        { "torch/autograd/__init__.py", "backward", "the gradients' all-reduce", false },
        { "torch/nn/parallel/distributed.py", "forward", "DDP's broadcast", false },
        { "torch/nn/parallel/distributed.py", "_pre_forward", "DDP's broadcast", false },
        { NULL, "block_until_ready", "the device's step", false },
        { NULL, "mark_step", "the device's step", false },
        { "/queue.py", "get", "a queue", false },
        { "/queue.py", "put", "a full queue", false },
        { "multiprocessing/queues.py", "get", "a queue", false },
        { "concurrent/futures/_base.py", "result", "a future", false },
        { "/threading.py", "join", "the end of a thread", false },
        { "/subprocess.py", "wait", "the end of a process", false },
};

const char *last_part(const char *function) {
        const char *dot = strrchr(function, '.');

        return dot && dot[1] ? dot + 1 : function;
}

bool frame_is_library(const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file);

        if (f->kind != FRAME_PYTHON)
                return f->kind != FRAME_NATIVE || !file[0] || strstr(file, ".so") || startswith(file, "[");
        return strstr(file, "/site-packages/") || strstr(file, "/dist-packages/") ||
               strstr(file, "/lib/python3") || strstr(file, "/lib64/python3") ||
               startswith(file, "<frozen ");
}

/* From the innermost frame on. What a library does behind code of the training's own is no longer what it
 * waits in. */
static void find_word(const struct stack_table *t, uint32_t stack, struct place *p) {
        bool own = false;

        for (uint32_t i = t->stacks[stack].n; i-- > 0;) {
                const struct stack_frame *f = &t->frames[stack_table_frames(t, stack)[i]];
                const char *function = stack_table_text(t, f->function),
                           *file = stack_table_text(t, f->file);
                bool library = frame_is_library(t, f);

                own |= !library;
                for (size_t k = 0; k < ELEMENTSOF(words) && !(own && library); k++) {
                        bool fits = f->kind == FRAME_PYTHON ? streq(last_part(function), words[k].function)
                                                            : words[k].native && f->kind == FRAME_NATIVE &&
                                                                      strstr(function, words[k].function);

                        if (!fits || (words[k].file && !endswith(file, words[k].file)))
                                continue;
                        p->word = words[k].word;
                        p->meets = !startswith(p->word, "a ") && !startswith(p->word, "the end");
                        return;
                }
        }
}

/* --- Kinds ------------------------------------------------------------------------------------------ */

const char *stall_kind_name(enum stall_kind k) {
        static const char *const names[_KIND_MAX] = {
                [KIND_CPU] = "cpu",   [KIND_CALL] = "call", [KIND_ENDED] = "ended", [KIND_SILENT] = "silent",
                [KIND_PATH] = "path", [KIND_CORE] = "core", [KIND_STEP] = "step",   [KIND_CHECK] = "check",
                [KIND_OWES] = "owes",
        };

        return k < KIND_CPU ? wait_kind_name((uint8_t) k) : names[k];
}

bool kind_waits(uint8_t kind) {
        static const bool waits[_KIND_MAX] = {
                [WAIT_LOCK] = true,     [WAIT_GIL] = true,    [WAIT_SOCKET] = true, [WAIT_PIPE] = true,
                [WAIT_EVENTFD] = true,  [WAIT_DEVICE] = true, [WAIT_CHILD] = true,  [WAIT_FILE_LOCK] = true,
                [WAIT_IO_URING] = true, [KIND_CALL] = true,
        };
        return waits[kind];
}

/* What /proc/PID/wchan says, by kernel function (Linux 5.10 to 6.12), as the call that people know. */
static const struct {
        const char *start, *what;
        uint8_t kind;
} kernel_waits[] = {
        { "get_signal", "", WAIT_FROZEN }, /* kernel/signal.c, do_freezer_trap() within it */
        { "do_freezer_trap", "", WAIT_FROZEN },
        { "futex_", "a lock", WAIT_LOCK },            /* kernel/futex/ */
        { "hrtimer_nanosleep", "sleep", WAIT_TIMER }, /* kernel/time/hrtimer.c */
        { "do_nanosleep", "sleep", WAIT_TIMER },
        { "pipe_read", "read", WAIT_PIPE }, /* fs/pipe.c */
        { "pipe_write", "write", WAIT_PIPE },
        { "anon_pipe_read", "read", WAIT_PIPE },
        { "anon_pipe_write", "write", WAIT_PIPE },
        { "wait_for_partner", "open of a fifo", WAIT_PIPE }, /* fs/pipe.c, fifo_open() */
        { "fifo_open", "open of a fifo", WAIT_PIPE },
        { "unix_stream_read_generic", "recv", WAIT_SOCKET }, /* net/unix/af_unix.c */
        { "unix_stream_data_wait", "recv", WAIT_SOCKET },
        { "wait_woken", "recv", WAIT_SOCKET }, /* kernel/sched/wait.c, from sk_wait_data() */
        { "sk_wait_data", "recv", WAIT_SOCKET },
        { "sk_stream_wait_memory", "send", WAIT_SOCKET }, /* net/core/stream.c */
        { "inet_csk_accept", "accept", WAIT_SOCKET },
        { "do_poll", "poll", KIND_CALL }, /* fs/select.c */
        { "poll_schedule_timeout", "poll", KIND_CALL },
        { "do_select", "select", KIND_CALL },
        { "ep_poll", "epoll_wait", KIND_CALL }, /* fs/eventpoll.c */
        { "do_epoll_wait", "epoll_wait", KIND_CALL },
        { "do_wait", "wait for a child", WAIT_CHILD },              /* kernel/exit.c */
        { "request_wait_answer", "a FUSE file system", WAIT_FILE }, /* fs/fuse/dev.c */
        { "fuse_", "a FUSE file system", WAIT_FILE },
        { "rpc_wait_bit_killable", "an NFS server", WAIT_FILE }, /* net/sunrpc/sched.c */
        { "nfs_", "an NFS server", WAIT_FILE },
        { "locks_lock_inode_wait", "flock", WAIT_FILE_LOCK },
        { "folio_wait_bit", "a page from disk", WAIT_FILE }, /* mm/filemap.c */
        { "io_schedule", "disk", WAIT_FILE },
        { "jbd2_log_wait_commit", "a disk's commit", WAIT_FILE },
};

static bool is_call(uint8_t kind) {
        return kind == WAIT_PIPE || kind == WAIT_SOCKET || kind == KIND_CALL || kind == WAIT_FILE ||
               kind == WAIT_FILE_LOCK;
}

static uint8_t kind_by_kernel(const struct stack_table *t, const struct captured_thread *thread,
                              const char **ret_what) {
        const char *wait = stack_table_text(t, thread->wait), *call = stack_table_text(t, thread->syscall);

        for (size_t i = 0; wait[0] && i < ELEMENTSOF(kernel_waits); i++)
                if (startswith(wait, kernel_waits[i].start)) {
                        *ret_what = call[0] && is_call(kernel_waits[i].kind) ? call : kernel_waits[i].what;
                        return kernel_waits[i].kind;
                }
        if (streq(call, "futex")) {
                *ret_what = "a lock";
                return WAIT_LOCK;
        }
        if (streq(call, "nanosleep") || streq(call, "clock_nanosleep")) {
                *ret_what = "sleep";
                return WAIT_TIMER;
        }
        *ret_what = call[0] ? call : wait;
        return KIND_CALL;
}

/* Of one that polls several: what says most of whom it waits for. */
static uint8_t kind_by_waits(const struct host_capture *c, const struct captured_thread *thread) {
        static const uint8_t order[] = { WAIT_STOPPED, WAIT_FROZEN, WAIT_THROTTLED, WAIT_SOCKET,
                                         WAIT_PIPE,    WAIT_DEVICE, WAIT_CHILD };

        for (size_t k = 0; k < ELEMENTSOF(order); k++)
                for (uint32_t i = 0; i < thread->n_waits; i++)
                        if (c->waits[thread->first_wait + i].kind == order[k])
                                return order[k];
        return c->waits[thread->first_wait].kind;
}

static uint8_t judge_kind(const struct stack_table *t, const struct host_capture *c,
                          const struct captured_thread *thread, char state, const char **ret_what) {
        *ret_what = "";
        if (state == 'T' || state == 't')
                return WAIT_STOPPED;
        if (state == 'Z' || state == 'X')
                return KIND_ENDED;
        if (thread->n_waits > 0) {
                uint8_t kind = kind_by_waits(c, thread), by;

                if (kind != WAIT_UNKNOWN && state == 'R')
                        return kind; /* it spins */
                by = kind_by_kernel(t, thread, ret_what);
                return kind == WAIT_UNKNOWN ? by : kind;
        }
        if (state == 'R' && thread->wait == 0)
                return KIND_CPU;
        if (state == 'D') {
                uint8_t kind = kind_by_kernel(t, thread, ret_what);

                return kind == KIND_CALL ? WAIT_FILE : kind;
        }
        if (thread->wait || thread->syscall)
                return kind_by_kernel(t, thread, ret_what);
        return KIND_UNKNOWN;
}

uint8_t place_kind(const struct stack_table *t, const struct host_capture *c,
                   const struct captured_thread *thread, char state) {
        const char *what;

        return judge_kind(t, c, thread, state, &what);
}

/* --- Code ------------------------------------------------------------------------------------------- */

const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

static struct stack_code code_of(const struct stack_table *t, const bool *library, uint32_t stack) {
        struct stack_code code = { STACK_NONE, STACK_NONE, STACK_NONE, 0, 0 };
        uint64_t path = FNV_BEGIN, behind = FNV_BEGIN;
        const uint32_t *frames = stack_table_frames(t, stack);
        bool calls = false;

        for (uint32_t i = 0; i < t->stacks[stack].n; i++)
                if (t->frames[frames[i]].kind == FRAME_PYTHON)
                        code.innermost = frames[i];
        for (uint32_t i = 0; i < t->stacks[stack].n; i++) {
                const struct stack_frame *f = &t->frames[frames[i]];

                if (calls && f->kind == FRAME_NATIVE && library[frames[i]])
                        path = fnv(path, &frames[i], sizeof(frames[i])); /* it stands for the line */
                calls = false;
                if (library[frames[i]] && f->kind == FRAME_PYTHON)
                        behind = fnv(behind, &frames[i], sizeof(frames[i]));
                if (library[frames[i]] || (code.innermost != STACK_NONE && f->kind != FRAME_PYTHON))
                        continue;
                code.root = code.root == STACK_NONE ? frames[i] : code.root;
                code.own = frames[i];
                behind = FNV_BEGIN;
                calls = f->kind == FRAME_NATIVE;
                path = fnv(path, &frames[i], sizeof(frames[i]));
        }
        code.own_path = (uint32_t) (path ^ path >> 32);
        if (code.own != STACK_NONE && behind != FNV_BEGIN)
                code.behind = (uint32_t) (behind ^ behind >> 32);
        return code;
}

int stack_codes(const struct stack_table *t, struct stack_code **ret) {
        _cleanup_free_ struct stack_code *codes = calloc(t->n_stacks + 1, sizeof(*codes));
        _cleanup_free_ bool *library = calloc(t->n_frames + 1, sizeof(*library));

        if (!codes || !library)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_frames; i++)
                library[i] = frame_is_library(t, &t->frames[i]);
        for (size_t i = 0; i < t->n_stacks; i++)
                codes[i] = code_of(t, library, (uint32_t) i);
        *ret = TAKE_PTR(codes);
        return 0;
}

/* --- Both ------------------------------------------------------------------------------------------- */

/* The innermost native function, "" when there is none. */
static const char *native_top(const struct stack_table *t, uint32_t stack) {
        uint32_t n = t->stacks[stack].n;
        const struct stack_frame *f = n > 0 ? &t->frames[stack_table_frames(t, stack)[n - 1]] : NULL;

        return f && f->kind == FRAME_NATIVE ? stack_table_text(t, f->function) : "";
}

/* What a library waits by is not the library that waits. */
static bool is_below_libraries(const char *file) {
        static const char *const below[] = { "[",       "libc.so",   "libc-2.",      "libpthread", "ld-musl",
                                             "libc.musl", "libstdc++.so", "libc++.so", "libabsl_" };

        for (size_t i = 0; i < ELEMENTSOF(below); i++)
                if (startswith(file, below[i]))
                        return true;
        return false;
}

uint32_t waiting_library(const struct stack_table *t, uint32_t stack) {
        for (uint32_t i = stack == STACK_NONE ? 0 : t->stacks[stack].n; i-- > 0;) {
                const struct stack_frame *f = &t->frames[stack_table_frames(t, stack)[i]];
                const char *file = stack_table_text(t, f->file);

                if (f->kind == FRAME_KERNEL || (f->kind == FRAME_NATIVE && is_below_libraries(file)))
                        continue;
                return f->kind == FRAME_NATIVE && strstr(file, ".so") && !startswith(file, "libpython")
                               ? f->file
                               : STACK_NONE;
        }
        return STACK_NONE;
}

struct place place_of(const struct stack_table *t, const struct stack_code *codes,
                      const struct host_capture *c, const struct captured_thread *thread, char state) {
        struct place p = { .what = "", .word = "", .frame = STACK_NONE, .deep = state == 'D' };
        bool read = thread->stack != STACK_NONE && !thread->changed;

        p.kind = judge_kind(t, c, thread, state, &p.what);
        if (!read)
                return p;
        p.own = codes[thread->stack].own != STACK_NONE;
        p.frame = p.own ? codes[thread->stack].own : codes[thread->stack].innermost;
        if (p.kind == KIND_CPU || p.kind == KIND_UNKNOWN)
                p.what = native_top(t, thread->stack);
        if (p.kind == KIND_UNKNOWN && p.frame != STACK_NONE && state == 'S')
                p.kind = KIND_CALL;
        if (kind_waits(p.kind) || p.kind == WAIT_TIMER)
                find_word(t, thread->stack, &p);
        return p;
}
