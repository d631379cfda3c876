/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-stack PID…: all threads' Python stacks, by reading memory only. The target is never stopped, traced or
 * signalled. Exit: 0 every process was read; 3 one was not (the message says which and why); 64 usage.
 */
#include <sys/resource.h>
#include <time.h>

#include "config.h"
#include "core_option.h"
#include "finding.h"
#include "host.h"
#include "log.h"
#include "options.h"
#include "fill.h"
#include "guard.h"
#include "render.h"
#include "targets.h"

#define REPEAT_MAX 100000u
#define EVERY_DEFAULT USEC_PER_SEC
#define CAPTURES_KEPT 16u
#define CORE_LONGER 4u /* a core comes from a disk */
#define FILES_MAX 16384u /* descriptors */
#define FILES_OURS 64u /* descriptors that are not files of a thread */

struct program {
        struct host host;
        bool json, capture, children, native;
        const char *cgroup, *repeat_text, *every_text, *core_path, *core_user;
        int core_fd;
        struct core_file *core; /* what is read in place of processes; NULL */
        unsigned repeat;
        usec_t every; /* from the start of one capture to the start of the next */
        struct task_stacks *task_stacks; /* with native, where permitted */
        char task_stacks_why[TASK_STACKS_WHY_MAX];
        struct render render;
        /* with --capture; else only its table and capture are used, for one process */
        struct capture_writer writer;
        struct fill fill;
        /* what was named; with the control group's and what all of them started */
        struct targets asked, targets;
        struct ends ends; /* of what their threads wait for */
        struct capture *captures; /* with repeat: of the first CAPTURES_KEPT targets, for the next time */
        struct guard *guard;
        size_t failed, read;
        bool held; /* some thread is only let go by our end (native.h) */
};

static void program_clear(struct program *p) {
        p->core = core_file_free(p->core);
        host_close(&p->host);
        p->task_stacks = task_stacks_close(p->task_stacks);
        targets_clear(&p->asked);
        targets_clear(&p->targets);
        ends_clear(&p->ends);
        capture_writer_clear(&p->writer);
        for (size_t i = 0; p->captures && i < CAPTURES_KEPT; i++)
                capture_clear(&p->captures[i]);
        free(p->captures);
}

/* Who is to be read now: groups and descendants change between two captures. */
static int find_targets(struct program *p) {
        int r = 0;

        p->targets.n = 0;
        p->targets.full = false;
        for (size_t i = 0; r == 0 && i < p->asked.n; i++)
                r = targets_add(&p->targets, p->asked.pids[i]);
        if (r == 0 && p->cgroup) {
                r = targets_add_cgroup(&p->targets, &p->host, p->cgroup);
                if (r < 0 && r != -ENOMEM) {
                        (void) log_error_errno(r, "control group %s: %m", p->cgroup);
                        p->failed++;
                        r = 0;
                }
        }
        if (r == 0 && p->children)
                r = targets_add_children(&p->targets, &p->host);
        if (p->targets.full) {
                log_warning("more than %u processes: the others are left out", TARGETS_MAX);
                p->failed++;
        }
        return r;
}

static size_t unreadable_threads(const struct capture *c) {
        size_t n = 0;

        for (size_t i = 0; i < c->n_threads; i++)
                n += c->threads[i].error != 0;
        return n;
}

/*
 * Of processes that were not named, one without Python, or one that ended meanwhile, is no failure; that
 * nothing at all was read is said at the end.
 */
static bool is_failure(const struct program *p, size_t index, int error) {
        if (!p->children && !p->cgroup && !p->capture)
                return true;
        return error != -ENOENT && (error != -ESRCH || index < p->asked.n);
}

/* Of how many threads of each target the files may stay open. */
static size_t files_to_keep(void) {
        struct rlimit l;

        if (getrlimit(RLIMIT_NOFILE, &l) < 0)
                return 0;
        l.rlim_cur = MIN(l.rlim_max, (rlim_t) FILES_MAX);
        (void) setrlimit(RLIMIT_NOFILE, &l); /* if not, there are fewer */
        if (getrlimit(RLIMIT_NOFILE, &l) < 0 || l.rlim_cur < FILES_OURS)
                return 0;
        return (size_t) (l.rlim_cur - FILES_OURS) / TASK_FILES / CAPTURES_KEPT;
}

/* What was filled of a process goes out. */
static int put_process(struct program *p) {
        if (p->capture)
                return capture_writer_process(&p->writer);
        render_capture(&p->render, &p->writer.c, &p->writer.table);
        host_capture_empty(&p->writer.c);
        stack_table_clear(&p->writer.table);
        return 0;
}

static int put_failure(struct program *p, pid_t pid, const char *command, const char *why) {
        int r = fill_failure(&p->fill, pid, command, why);

        return r < 0 ? r : put_process(p);
}

/* What is tried of a process, one after the other, until its time and memory suffice. */
enum attempt { WITH_NATIVE, WITH_PYTHON, WITH_FRAMES, WITH_KERNEL, _ATTEMPT_MAX };
static const usec_t attempt_time[] = { 4 * USEC_PER_SEC, 2 * USEC_PER_SEC, USEC_PER_SEC, USEC_PER_SEC };

static int read_into(struct program *p, size_t index, struct capture *c, enum attempt attempt,
                     const char *failed) {
        char why[REASON_MAX];
        pid_t pid = p->targets.pids[index];
        size_t unreadable;
        int r;

        c->with_native = attempt == WITH_NATIVE;
        c->without_native = p->native && !c->with_native ? failed : NULL;
        c->without_python = attempt == WITH_KERNEL ? failed : NULL;
        c->without_locks = attempt >= WITH_FRAMES;
        c->task_stacks = p->task_stacks;
        c->task_stacks_why = p->task_stacks_why;
        r = p->core ? capture_core(p->core, c, why) : capture_process(&p->host, pid, c, why);
        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                if (!is_failure(p, index, r))
                        return 0;
                if (!p->capture) /* a capture says it itself */
                        log_error("process %d: %s", (int) pid, why);
                p->failed++;
                return put_failure(p, pid, c->command, why);
        }
        p->read++;
        unreadable = unreadable_threads(c);
        if (unreadable > 0) {
                log_error("process %d: %zu of %zu threads could not be read", (int) pid, unreadable,
                          c->n_threads);
                p->failed++;
        }
        if (c->with_native && c->native.n < c->tasks.n) {
                log_error("process %d: %s", (int) pid, c->kernel_why);
                p->failed++;
        }
        if (c->no_python && !p->native && c->no_python_error != -ENOENT && !c->without_python) {
                log_error("process %d: %s; only what its threads wait for is shown", (int) pid,
                          c->no_python_why);
                p->failed++;
        }
        p->held = p->held || c->native.held;
        r = ends_want(&p->ends, &c->waits);
        if (r == 0)
                r = fill_process(&p->fill, c);
        return r < 0 ? r : put_process(p);
}

/* What was printed stays, whatever becomes of the next process. */
static int flush_output(struct program *p) {
        return p->capture ? 0 : sink_flush(&p->render.sink);
}

/* A step of its own: a process that hangs, or takes too much, costs its own line only. */
static int read_target(struct program *p, size_t index) {
        _cleanup_capture_ struct capture once = CAPTURE_NULL;
        struct capture *c = p->captures && index < CAPTURES_KEPT ? &p->captures[index] : &once;
        char command[PROCESS_COMMAND_MAX] = "";
        const char *failed = NULL;

        for (enum attempt a = p->native ? WITH_NATIVE : WITH_PYTHON; a < _ATTEMPT_MAX; a++) {
                enum guard_reason reason;
                int r = flush_output(p);

                if (r < 0)
                        return r;
                reason = guard_begin(p->guard, attempt_time[a] * (p->core ? CORE_LONGER : 1));
                if (reason == GUARD_GO) {
                        r = read_into(p, index, c, a, failed);
                        if (r == -ENOMEM)
                                guard_give_up(p->guard);
                        if (r == 0)
                                r = flush_output(p);
                        guard_end(p->guard);
                        return r;
                }
                if (a == WITH_NATIVE && p->task_stacks)
                        task_stacks_skip(p->task_stacks);
                failed = guard_words(reason);
                if (!p->capture)
                        log_error("process %d: %s", (int) p->targets.pids[index], failed);
                p->failed++;
        }
        return put_failure(p, p->targets.pids[index], command, failed);
}

static int say_nothing_read(struct program *p) {
        char why[REASON_MAX];

        if (p->read > 0 || p->failed > 0)
                return 0;
        p->failed++;
        if (p->targets.n == 0)
                (void) snprintf(why, sizeof(why), "no process is in it");
        else
                (void) snprintf(why, sizeof(why),
                                "no CPython interpreter in its memory map, nor in those of the %zu others",
                                p->targets.n - 1);
        if (p->capture)
                return put_failure(p, p->targets.n > 0 ? p->targets.pids[0] : 0, "", why);
        if (p->targets.n == 0)
                log_error("control group %s: %s", p->cgroup, why);
        else
                log_error("process %d: %s", (int) p->targets.pids[0], why);
        return 0;
}

static int begin_output(struct program *p) {
        int r = capture_writer_init(&p->writer);

        p->fill = (struct fill){ .c = &p->writer.c,
                                 .t = &p->writer.table,
                                 .writer = p->capture ? &p->writer : NULL };
        if (!p->capture)
                render_begin(&p->render, stdout, p->json, RENDER_MAX);
        return r;
}

static int end_output(struct program *p) {
        int r = 0;

        if (!p->capture)
                return render_end(&p->render);
        r = capture_writer_end(&p->writer);
        if (r == 0 &&
            (fwrite(p->writer.data, 1, p->writer.len, stdout) != p->writer.len || fflush(stdout) != 0))
                r = -EIO;
        return r;
}

/* Behind all processes: who has the other ends of what their threads wait for. */
static int put_ends(struct program *p) {
        int r = ends_search(&p->host, &p->ends);

        if (r == 0 && p->ends.n > 0)
                r = fill_ends(&p->fill, &p->ends);
        p->writer.cut |= p->ends.cut;
        if (r == 0 && p->ends.n > 0)
                r = put_process(p);
        ends_clear(&p->ends);
        return r == -ENOMEM ? r : 0; /* where /proc is not to be listed, nobody is known */
}

static int run_once(struct program *p) {
        int r = find_targets(p);

        if (r == 0)
                r = begin_output(p);
        p->read = 0;
        if (r == 0 && p->native && !p->core && !p->task_stacks && !p->task_stacks_why[0])
                (void) task_stacks_open(
                        p->targets.n, &p->task_stacks,
                        p->task_stacks_why); /* that it could not is said beside each process */
        for (size_t i = 0; r == 0 && i < p->targets.n; i++) {
                if (p->capture && !capture_writer_takes_process(&p->writer))
                        break;
                capture_writer_share(&p->writer, p->targets.n - 1 - i);
                r = read_target(p, i);
        }
        if (r == 0)
                r = put_ends(p);
        if (r == 0)
                r = say_nothing_read(p);
        if (r < 0)
                return log_error_errno(r, "reading stacks: %m");
        if (p->render.cut) {
                log_error("the stacks are longer than %u bytes: the rest was left out", RENDER_MAX);
                p->failed++;
        }
        r = end_output(p);
        capture_writer_clear(&p->writer);
        return r < 0 ? log_error_errno(r, "writing the stacks: %m") : 0;
}

static void sleep_until(usec_t when) {
        struct timespec at = { (time_t) (when / USEC_PER_SEC), (long) (when % USEC_PER_SEC) * 1000 };

        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &at, NULL) == EINTR)
                ;
}

static int prepare_to_keep(struct program *p) {
        size_t files = files_to_keep();

        p->captures = calloc(CAPTURES_KEPT, sizeof(*p->captures));
        if (!p->captures)
                return -ENOMEM;
        for (size_t i = 0; i < CAPTURES_KEPT; i++) {
                p->captures[i] = CAPTURE_NULL;
                p->captures[i].tasks.keep = files;
        }
        return 0;
}

/* A capture that took longer than --every delays the next; none is made up for. */
static int run_captures(struct program *p) {
        usec_t next = clock_boot(&clock_system);

        if (p->repeat > 1 && prepare_to_keep(p) < 0)
                return log_error_errno(ENOMEM, "reading stacks: %m");

        for (unsigned n = 0; n < p->repeat; n++) {
                int r;

                if (n > 0) {
                        next = MAX(next + p->every, clock_boot(&clock_system));
                        sleep_until(next);
                        if (!p->json && !p->capture)
                                printf("--- capture %u of %u\n", n + 1, p->repeat);
                }
                r = run_once(p);
                if (r < 0)
                        return r;
                if (p->held) {
                        log_warning("a thread did not stop when asked to: ending here, so that it is left "
                                    "alone");
                        p->failed += n + 1 < p->repeat; /* what was read is printed, no other is made */
                        break;
                }
        }
        if (p->core && p->read > 0)
                return 0; /* nothing more will ever be had of it */
        return p->failed > 0 && !p->capture ? verdict_exit_code(VERDICT_UNKNOWN) : 0;
}

static int read_core(struct program *p) {
        int r = core_option_read(&p->host, p->core_path, TAKE_FD(p->core_fd), &p->core);

        if (r == 0)
                r = targets_add(&p->asked, core_file_pid(p->core));
        p->native = true;
        return r;
}

/* In the process that does the work. */
static int work(struct guard *g, void *userdata) {
        struct program *p = userdata;
        int r;

        p->guard = g;
        r = p->core_path ? read_core(p) : 0;
        if (r == 0)
                r = run_captures(p);
        return r < 0 ? verdict_exit_code(VERDICT_UNKNOWN) : r;
}

static int wrong_usage(const char *word, const char *what) {
        return options_fail("tpu-stack", -EINVAL, "'%s' %s\nTry 'tpu-stack --help'.", word, what);
}

static int take_repeat(struct program *p) {
        char why[96];

        p->repeat = 1;
        p->every = EVERY_DEFAULT;
        if (p->every_text && config_parse_usec(p->every_text, &p->every, why) < 0)
                return wrong_usage(p->every_text, "is no span of time like 500ms or 2s");
        if (!p->repeat_text)
                return p->every_text ? wrong_usage("--every", "goes with --repeat") : 0;
        if (config_parse_u32_within(p->repeat_text, 1, REPEAT_MAX, &p->repeat, why) < 0)
                return wrong_usage(p->repeat_text, "is no number of captures from 1 to 100000");
        return 0;
}

static int take_pids(struct program *p, int n, char *words[]) {
        if (p->core_path)
                return n > 0 || p->cgroup || p->repeat > 1 || p->children
                               ? wrong_usage("--core", "goes with --json, --capture and --user alone")
                               : 0;
        if (p->core_user)
                return wrong_usage("--user", "goes with --core");
        if ((n <= 0 && !p->cgroup) || n > (int) TARGETS_MAX)
                return options_fail("tpu-stack", -EINVAL,
                                    "name 1 to %u processes by PID\nTry 'tpu-stack --help'.", TARGETS_MAX);
        for (int i = 0; i < n; i++) {
                uint32_t pid;
                char why[96];

                if (config_parse_u32_within(words[i], 1, INT32_MAX, &pid, why) < 0)
                        return wrong_usage(words[i], "is not a process number");
                if (targets_add(&p->asked, (pid_t) pid) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int main(int argc, char *argv[]) {
        _cleanup_(program_clear) struct program p = { .host = HOST_NULL };
        const struct option_def defs[] = {
                { "json", NULL, "print one JSON object instead of text (/usr/share/doc/tpu-hostd/stack.md)",
                  NULL, &p.json },
                { "capture", NULL,
                  "write a capture, in bytes: for tpuctl diagnose --from FILE and tpuctl stack --from FILE",
                  NULL, &p.capture },
                { "children", NULL, "also the processes that the PIDs started, and those started",
                  NULL, &p.children },
                { "native", NULL, "also native stacks: each thread is stopped for some ten microseconds",
                  NULL, &p.native },
                { "cgroup", "DIR", "also the processes of this control group and those below it",
                  &p.cgroup, NULL },
                { "repeat", "N", "capture so many times", &p.repeat_text, NULL },
                { "core", "FILE", "read a core file, with native stacks, in place of processes",
                  &p.core_path, NULL },
                { "user", "UID", "the user as whom root reads the core (its owner)", &p.core_user, NULL },
                { "every", "SPAN", "from one capture to the next (1s)", &p.every_text, NULL },
        };
        struct options o = {
                .program = "tpu-stack",
                .synopsis = "[--json|--capture] [--children] [--native] [--repeat N [--every SPAN]] "
                            "PID…|--cgroup DIR|--core FILE",
                .summary = "Prints the Python stacks of all threads of running processes, innermost frame "
                           "first, and what each thread waits for.\n"
                           "Without --native they are never stopped, traced or "
                           "signalled.\n"
                           "Exit code: 0 every process was read, 3 one was not, 64 wrong usage.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        int r;

        log_open("tpu-stack");
        (void) setvbuf(stdout, NULL, _IONBF, 0); /* the output gathers what it prints */
        r = options_parse(&o, argc, argv);
        if (r < 0)
                return options_exit(r);
        if (p.capture && p.json)
                return options_fail("tpu-stack", EXIT_USAGE, "--capture goes without --json");
        if (take_repeat(&p) < 0 || take_pids(&p, argc - r, argv + r) < 0)
                return EXIT_USAGE;
        r = host_open(o.root, &p.host);
        if (r < 0) {
                (void) log_error_errno(r, "%s: %m", o.root ? o.root : "/");
                return verdict_exit_code(VERDICT_UNKNOWN);
        }
        /* Before anything of it is looked at, what we may do beyond its user is given up. */
        if (p.core_path && core_option_open(p.core_path, p.core_user, &p.core_fd) < 0)
                return verdict_exit_code(VERDICT_UNKNOWN);
        return guard_run(work, &p);
}
