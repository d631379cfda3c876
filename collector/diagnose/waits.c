/* SPDX-License-Identifier: Apache-2.0 */
#include "waits.h"

/* How the function's name is compared. Python's are qualified names: "Queue.get"; the last part counts for
 * LAST. */
enum match {
        MATCH_WHOLE,
        MATCH_LAST,
        MATCH_START,
        MATCH_PART,
};

/* When a frame means that its thread waits. */
enum when {
        WHEN_THERE,
        WHEN_ASLEEP,    /* the thread does not run */
        WHEN_INNERMOST, /* nor is Python code behind it: the frame itself waits, by native code */
};

struct wait_frame {
        enum frame_kind kind;
        enum match match;
        const char *file; /* the path ends so (native: the module's name contains it); NULL: any */
        const char *function;
        enum standing standing;
        const char *what;
        enum when when;
};

#define C10D "torch/distributed/distributed_c10d.py"
#define DDP  "torch/nn/parallel/distributed.py"
#define PYTHON(file, function, standing, what)                                                              \
        { FRAME_PYTHON, MATCH_LAST, file, function, standing, what, WHEN_THERE }
#define NAMED(function, what)                                                                               \
        { FRAME_PYTHON, MATCH_LAST, NULL, function, STANDING_COLLECTIVE, what, WHEN_THERE }
#define NATIVE(match, function, standing, what)                                                             \
        { FRAME_NATIVE, match, NULL, function, standing, what, WHEN_ASLEEP }
#define BEFORE(file, function, what)                                                                        \
        { FRAME_PYTHON, MATCH_LAST, file, function, STANDING_COLLECTIVE, what, WHEN_INNERMOST }

/* The first that fits wins: what is special stands before what is general. */
static const struct wait_frame wait_frames[] = {
        /* PyTorch, torch/distributed/distributed_c10d.py: the functions of its public API */
        PYTHON(C10D, "all_gather_object", STANDING_COLLECTIVE, "all-gather"),
        PYTHON(C10D, "all_gather_into_tensor", STANDING_COLLECTIVE, "all-gather"),
        PYTHON(C10D, "all_gather_coalesced", STANDING_COLLECTIVE, "all-gather"),
        PYTHON(C10D, "all_reduce_coalesced", STANDING_COLLECTIVE, "all-reduce"),
        PYTHON(C10D, "reduce_scatter_tensor", STANDING_COLLECTIVE, "reduce-scatter"),
        PYTHON(C10D, "all_to_all_single", STANDING_COLLECTIVE, "all-to-all"),
        PYTHON(C10D, "broadcast_object_list", STANDING_COLLECTIVE, "broadcast"),
        PYTHON(C10D, "broadcast", STANDING_COLLECTIVE, "broadcast"),
        PYTHON(C10D, "reduce", STANDING_COLLECTIVE, "reduce"),
        PYTHON(C10D, "gather", STANDING_COLLECTIVE, "gather"),
        PYTHON(C10D, "scatter", STANDING_COLLECTIVE, "scatter"),
        PYTHON(C10D, "send", STANDING_COLLECTIVE, "send"),
        PYTHON(C10D, "recv", STANDING_COLLECTIVE, "recv"),
        PYTHON(C10D, "monitored_barrier", STANDING_COLLECTIVE, "barrier"),
        PYTHON(C10D, "gather_object", STANDING_COLLECTIVE, "gather"),
        PYTHON(C10D, "scatter_object_list", STANDING_COLLECTIVE, "scatter"),
        PYTHON(C10D, "init_process_group", STANDING_COLLECTIVE, "start of the process group"),
        PYTHON(C10D, "_store_based_barrier", STANDING_COLLECTIVE, "barrier"), /* of new_group() */
        /* DistributedDataParallel reduces gradients inside backward(): torch/autograd/graph.py, __init__.py
         * before 2.2. On a CPU the pass itself runs in this thread: asleep, it waits for the others */
        { FRAME_PYTHON, MATCH_LAST, "torch/autograd/graph.py", "_engine_run_backward", STANDING_COLLECTIVE,
          "the gradients' all-reduce", WHEN_ASLEEP },
        { FRAME_PYTHON, MATCH_LAST, "torch/autograd/__init__.py", "backward", STANDING_COLLECTIVE,
          "the gradients' all-reduce", WHEN_ASLEEP },
        /* It meets the others before a step, too: in the second one it agrees on its buckets
         * (Reducer::rebuild_buckets() of forward(), since 2.0 of _pre_forward()), in each it may send rank
         * 0's buffers, and when it is made it compares and sends the parameters
         * (torch/distributed/utils.py). The module's own forward() is behind these frames */
        BEFORE(DDP, "forward", "DDP's broadcast"),
        BEFORE(DDP, "_pre_forward", "DDP's broadcast"),
        BEFORE(DDP, "_distributed_broadcast_coalesced", "DDP's broadcast"),
        BEFORE("torch/distributed/utils.py", "_sync_params_and_buffers", "DDP's broadcast"),
        BEFORE("torch/distributed/utils.py", "_verify_param_shape_across_processes", "DDP's start"),
        /* JAX: jax/experimental/multihost_utils.py, jax/_src/array.py, jax/_src/api.py,
           jax/_src/distributed.py */
        PYTHON("jax/experimental/multihost_utils.py", "sync_global_devices", STANDING_COLLECTIVE, "barrier"),
        PYTHON("jax/experimental/multihost_utils.py", "process_allgather", STANDING_COLLECTIVE,
               "all-gather"),
        PYTHON("jax/experimental/multihost_utils.py", "broadcast_one_to_all", STANDING_COLLECTIVE,
               "broadcast"),
        PYTHON("jax/_src/array.py", "block_until_ready", STANDING_COLLECTIVE, "the device's step"),
        PYTHON("jax/_src/array.py", "_value", STANDING_COLLECTIVE, "the device's step"),
        PYTHON("jax/_src/array.py", "__array__", STANDING_COLLECTIVE, "the device's step"),
        PYTHON("jax/_src/api.py", "block_until_ready", STANDING_COLLECTIVE, "the device's step"),
        PYTHON("jax/_src/distributed.py", "initialize", STANDING_COLLECTIVE, "start of jax.distributed"),
        /* torch_xla: torch_xla/core/xla_model.py */
        PYTHON("torch_xla/core/xla_model.py", "rendezvous", STANDING_COLLECTIVE, "barrier"),
        PYTHON("torch_xla/core/xla_model.py", "wait_device_ops", STANDING_COLLECTIVE, "the device's step"),
        PYTHON("torch_xla/core/xla_model.py", "mark_step", STANDING_COLLECTIVE, "the device's step"),
        /* gloo: gloo/transport/unbound_buffer.h; c10d: ProcessGroupGloo.hpp, Work.hpp, TCPStore.hpp;
           MPI 3.1; NCCL */
        NATIVE(MATCH_PART, "gloo::allreduce", STANDING_COLLECTIVE, "all-reduce"),
        NATIVE(MATCH_PART, "gloo::allgather", STANDING_COLLECTIVE, "all-gather"),
        NATIVE(MATCH_PART, "gloo::barrier", STANDING_COLLECTIVE, "barrier"),
        NATIVE(MATCH_PART, "gloo::broadcast", STANDING_COLLECTIVE, "broadcast"),
        NATIVE(MATCH_PART, "UnboundBuffer::waitRecv", STANDING_COLLECTIVE, "a collective"),
        NATIVE(MATCH_PART, "UnboundBuffer::waitSend", STANDING_COLLECTIVE, "a collective"),
        NATIVE(MATCH_PART, "ProcessGroupGloo::runLoop", STANDING_THREADS, "work"), /* its own threads idle */
        NATIVE(MATCH_PART, "ProcessGroupGloo::", STANDING_COLLECTIVE, "a collective"),
        NATIVE(MATCH_PART, "c10d::Work::wait", STANDING_COLLECTIVE, "a collective"),
        NATIVE(MATCH_PART, "c10d::ProcessGroup::Work::wait", STANDING_COLLECTIVE,
               "a collective"), /* before 1.13 */
        NATIVE(MATCH_PART, "c10d::TCPStore::", STANDING_COLLECTIVE, "the rendezvous store"),
        NATIVE(MATCH_PART, "MPI_Allreduce", STANDING_COLLECTIVE, "all-reduce"),
        NATIVE(MATCH_PART, "MPI_Barrier", STANDING_COLLECTIVE, "barrier"),
        /* XLA: xla/service/rendezvous.h, xla/pjrt/pjrt_future.h */
        NATIVE(MATCH_PART, "xla::Rendezvous", STANDING_COLLECTIVE, "a collective"),
        NATIVE(MATCH_PART, "xla::PjRtFuture", STANDING_COLLECTIVE, "the device's step"),
        /* a training's or a library's own function of that name */
        NAMED("all_reduce", "all-reduce"),
        NAMED("allreduce", "all-reduce"),
        NAMED("all_gather", "all-gather"),
        NAMED("allgather", "all-gather"),
        NAMED("reduce_scatter", "reduce-scatter"),
        NAMED("all_to_all", "all-to-all"),
        NAMED("barrier", "barrier"),
        NAMED("sync_global_devices", "barrier"),
        /* CPython's library: queue.py, threading.py, concurrent/futures/_base.py, multiprocessing/,
           subprocess.py */
        PYTHON("/queue.py", "get", STANDING_THREADS, "a queue"),
        PYTHON("/queue.py", "put", STANDING_THREADS, "a full queue"),
        PYTHON("multiprocessing/queues.py", "get", STANDING_THREADS, "a queue"),
        PYTHON("concurrent/futures/_base.py", "result", STANDING_THREADS, "a future"),
        PYTHON("concurrent/futures/_base.py", "wait", STANDING_THREADS, "a future"),
        PYTHON("/threading.py", "join", STANDING_THREADS, "the end of a thread"),
        PYTHON("/threading.py", "_wait_for_tstate_lock", STANDING_THREADS, "the end of a thread"),
        PYTHON("/threading.py", "wait", STANDING_THREADS, "an event"),
        PYTHON("/threading.py", "wait_for", STANDING_THREADS, "an event"),
        PYTHON("/threading.py", "acquire", STANDING_LOCK, "a lock"),
        PYTHON("multiprocessing/connection.py", "_recv", STANDING_THREADS, "another process's answer"),
        PYTHON("multiprocessing/connection.py", "wait", STANDING_THREADS, "another process's answer"),
        PYTHON("multiprocessing/popen_fork.py", "poll", STANDING_THREADS, "the end of a process"),
        PYTHON("multiprocessing/process.py", "join", STANDING_THREADS, "the end of a process"),
        PYTHON("/subprocess.py", "wait", STANDING_THREADS, "the end of a process"),
        PYTHON("/subprocess.py", "communicate", STANDING_THREADS, "a process's output"),
        PYTHON("asyncio/base_events.py", "_run_once", STANDING_THREADS, "the event loop"),
        /* CPython's lock: Python/thread_pthread.h; glibc: nptl */
        NATIVE(MATCH_START, "PyThread_acquire_lock_timed", STANDING_LOCK, "a lock"),
        NATIVE(MATCH_START, "take_gil", STANDING_LOCK, "the GIL"),
        NATIVE(MATCH_PART, "pthread_mutex_lock", STANDING_LOCK, "a lock"),
        NATIVE(MATCH_PART, "lll_lock_wait", STANDING_LOCK, "a lock"),
};

/* What /proc/PID/wchan says, by kernel function (Linux 5.10 to 6.12), as the call that people know. */
static const struct {
        const char *start, *what;
        enum standing standing;
} kernel_waits[] = {
        { "futex_", "a lock", STANDING_LOCK },             /* kernel/futex/ */
        { "hrtimer_nanosleep", "sleep", STANDING_SLEEPS }, /* kernel/time/hrtimer.c */
        { "do_nanosleep", "sleep", STANDING_SLEEPS },
        { "pipe_read", "read", STANDING_CALL }, /* fs/pipe.c */
        { "pipe_write", "write", STANDING_CALL },
        { "anon_pipe_read", "read", STANDING_CALL },
        { "anon_pipe_write", "write", STANDING_CALL },
        { "wait_for_partner", "open of a fifo", STANDING_CALL }, /* fs/pipe.c, fifo_open() */
        { "fifo_open", "open of a fifo", STANDING_CALL },
        { "unix_stream_read_generic", "recv", STANDING_CALL }, /* net/unix/af_unix.c */
        { "unix_stream_data_wait", "recv", STANDING_CALL },
        { "wait_woken", "recv", STANDING_CALL }, /* kernel/sched/wait.c, from sk_wait_data() */
        { "sk_wait_data", "recv", STANDING_CALL },
        { "sk_stream_wait_memory", "send", STANDING_CALL }, /* net/core/stream.c */
        { "inet_csk_accept", "accept", STANDING_CALL },
        { "do_poll", "poll", STANDING_CALL }, /* fs/select.c */
        { "poll_schedule_timeout", "poll", STANDING_CALL },
        { "do_select", "select", STANDING_CALL },
        { "ep_poll", "epoll_wait", STANDING_CALL }, /* fs/eventpoll.c */
        { "do_epoll_wait", "epoll_wait", STANDING_CALL },
        { "do_wait", "wait for a child", STANDING_THREADS },            /* kernel/exit.c */
        { "request_wait_answer", "a FUSE file system", STANDING_CALL }, /* fs/fuse/dev.c */
        { "fuse_", "a FUSE file system", STANDING_CALL },
        { "rpc_wait_bit_killable", "an NFS server", STANDING_CALL }, /* net/sunrpc/sched.c */
        { "nfs_", "an NFS server", STANDING_CALL },
        { "locks_lock_inode_wait", "flock", STANDING_CALL },
        { "folio_wait_bit", "a page from disk", STANDING_CALL }, /* mm/filemap.c */
        { "io_schedule", "disk", STANDING_CALL },
        { "jbd2_log_wait_commit", "a disk's commit", STANDING_CALL },
};

const char *standing_name(enum standing s) {
        static const char *const names[_STANDING_MAX] = {
                "unknown", "collective", "runs",    "call",  "lock",   "threads",
                "sleeps",  "disk",       "stopped", "ended", "silent",
        };
        return names[s];
}

bool wait_is_one_way(const char *what) {
        static const char *const names[] = { "broadcast", "DDP's broadcast", "reduce", "gather",
                                             "scatter",   "send",            "recv" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++)
                if (streq(what, names[i]))
                        return true;
        return false;
}

const char *base_name(const char *path) {
        const char *slash = strrchr(path, '/');

        return slash && slash[1] ? slash + 1 : path;
}

/* "Queue.get" → "get"; "f.<locals>.g" → "g". */
static const char *last_part(const char *function) {
        const char *dot = strrchr(function, '.');

        return dot && dot[1] ? dot + 1 : function;
}

static bool function_fits(const struct wait_frame *w, const char *function) {
        switch (w->match) {
        case MATCH_WHOLE:
                return streq(function, w->function);
        case MATCH_LAST:
                return streq(last_part(function), w->function);
        case MATCH_START:
                return startswith(function, w->function);
        case MATCH_PART:
                return strstr(function, w->function);
        }
        return false;
}

/* What is known of a thread from its innermost frame up to the one looked at. */
struct walked {
        const struct wait_frame *found;
        bool runs, python; /* python: a frame of Python was among them */
};

static const struct wait_frame *find_wait(const struct stack_table *t, const struct stack_frame *f,
                                          const struct walked *so_far) {
        const char *function = stack_table_text(t, f->function), *file = stack_table_text(t, f->file);

        for (size_t i = 0; i < ELEMENTSOF(wait_frames); i++) {
                const struct wait_frame *w = &wait_frames[i];

                if (w->kind != f->kind || (w->when != WHEN_THERE && so_far->runs) ||
                    (w->when == WHEN_INNERMOST && so_far->python))
                        continue;
                if ((!w->file || endswith(file, w->file)) && function_fits(w, function))
                        return w;
        }
        return NULL;
}

bool frame_is_library(const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file);

        return f->kind != FRAME_PYTHON || strstr(file, "/site-packages/") ||
               strstr(file, "/dist-packages/") || strstr(file, "/lib/python3") ||
               strstr(file, "/lib64/python3") || startswith(file, "<frozen ");
}

bool stack_is_helper(const struct stack_table *t, uint32_t stack) {
        static const struct {
                const char *file, *function;
        } helpers[] = {
                { "torch/utils/data/_utils/worker.py", "_worker_loop" },
                { "multiprocessing/resource_tracker.py", "main" },
                { "multiprocessing/forkserver.py", "main" },
                { "torch/distributed/elastic/agent/server/api.py", "_invoke_run" },
                { "torch/multiprocessing/spawn.py", "join" },
                { "/subprocess.py", "wait" },
        };

        if (stack == STACK_NONE)
                return false;
        for (uint32_t i = 0; i < t->stacks[stack].n; i++) {
                const struct stack_frame *f = &t->frames[stack_table_frames(t, stack)[i]];

                for (size_t k = 0; k < ELEMENTSOF(helpers); k++)
                        if (endswith(stack_table_text(t, f->file), helpers[k].file) &&
                            streq(last_part(stack_table_text(t, f->function)), helpers[k].function))
                                return true;
        }
        return false;
}

static struct place place_by_kernel(const struct stack_table *t, const struct captured_thread *thread,
                                    struct place p) {
        const char *wait = stack_table_text(t, thread->wait), *call = stack_table_text(t, thread->syscall);

        p.standing = STANDING_CALL;
        p.what = call[0] ? call : wait;
        for (size_t i = 0; i < ELEMENTSOF(kernel_waits); i++)
                if (startswith(wait, kernel_waits[i].start)) {
                        p.standing = kernel_waits[i].standing;
                        p.what = call[0] && p.standing == STANDING_CALL ? call : kernel_waits[i].what;
                        return p;
                }
        if (streq(call, "futex"))
                p = (struct place){ STANDING_LOCK, "a lock", p.frame, p.own };
        else if (streq(call, "nanosleep") || streq(call, "clock_nanosleep"))
                p = (struct place){ STANDING_SLEEPS, "sleep", p.frame, p.own };
        return p;
}

/* Native code that waits for some collective: who called it may say which one. */
static bool is_vague(const struct wait_frame *w) {
        return w->kind == FRAME_NATIVE && w->standing == STANDING_COLLECTIVE &&
               streq(w->what, "a collective");
}

/* A wait that f means, seen from inside: behind a frame of the training's own code only a function of its
 * own that is called like a collective counts, and nothing behind a collective. */
static const struct wait_frame *wait_at(const struct stack_table *t, const struct stack_frame *f,
                                        const struct walked *so_far, bool own) {
        const struct wait_frame *w, *found = so_far->found;

        if (found && found->standing == STANDING_COLLECTIVE && !is_vague(found))
                return NULL;
        w = find_wait(t, f, so_far);
        if (found && is_vague(found))
                return w && w->standing == STANDING_COLLECTIVE && !own ? w : NULL;
        if (w && own && (w->file || w->kind != FRAME_PYTHON))
                return NULL;
        /* what the frames further out wait for says more: a queue that waits for a condition */
        return w && (!found || w->standing != STANDING_LOCK) ? w : NULL;
}

static const struct wait_frame *walk_frames(const struct stack_table *t, uint32_t stack, bool runs,
                                            struct place *p) {
        struct walked so_far = { .runs = runs };
        uint32_t innermost = STACK_NONE;

        for (uint32_t i = t->stacks[stack].n; i-- > 0;) {
                uint32_t number = stack_table_frames(t, stack)[i];
                const struct stack_frame *f = &t->frames[number];
                const struct wait_frame *w = wait_at(t, f, &so_far, p->own);

                if (f->kind == FRAME_PYTHON && !so_far.python)
                        innermost = number;
                so_far.python |= f->kind == FRAME_PYTHON;
                so_far.found = w ? w : so_far.found;
                if (w && w->standing == STANDING_COLLECTIVE)
                        p->own = false; /* who called it is wanted, not what it is made of */
                else if (!p->own && !frame_is_library(t, f)) {
                        p->frame = number;
                        p->own = true;
                }
        }
        p->frame = p->own ? p->frame : innermost;
        return so_far.found;
}

/* The innermost native function, "" when there is none. */
static const char *native_top(const struct stack_table *t, uint32_t stack) {
        uint32_t n = t->stacks[stack].n;
        const struct stack_frame *f = n > 0 ? &t->frames[stack_table_frames(t, stack)[n - 1]] : NULL;

        return f && f->kind == FRAME_NATIVE ? stack_table_text(t, f->function) : "";
}

struct place place_of(const struct stack_table *t, const struct captured_thread *thread, char state) {
        struct place p = { .what = "", .frame = STACK_NONE };
        const struct wait_frame *w = NULL;
        bool runs = state == 'R' && !stack_table_text(t, thread->wait)[0];

        if (thread->stack != STACK_NONE && !thread->changed)
                w = walk_frames(t, thread->stack, runs, &p);
        if (state == 'T' || state == 't')
                p.standing = STANDING_STOPPED;
        else if (state == 'Z' || state == 'X')
                p.standing = STANDING_ENDED;
        else if (w && w->standing == STANDING_COLLECTIVE)
                p = (struct place){ w->standing, w->what, p.frame, p.own };
        else if (runs) {
                p.standing = STANDING_RUNS;
                p.what = thread->stack != STACK_NONE && !thread->changed ? native_top(t, thread->stack) : "";
        } else if (state == 'D')
                p = place_by_kernel(t, thread, p), p.standing = STANDING_DISK;
        else if (w)
                p = (struct place){ w->standing, w->what, p.frame, p.own };
        else if (thread->wait || thread->syscall)
                p = place_by_kernel(t, thread, p);
        else if (p.frame != STACK_NONE && state == 'S')
                p = (struct place){ STANDING_CALL, native_top(t, thread->stack), p.frame, p.own };
        return p;
}
