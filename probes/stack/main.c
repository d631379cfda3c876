/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-stack PID…: all threads' Python stacks, by reading memory only. The target is never stopped, traced or
 * signalled. Exit: 0 every process was read; 3 one was not (the message says which and why); 64 usage.
 */
#include "finding.h"
#include "host.h"
#include "log.h"
#include "options.h"
#include "print.h"

#define PROCESSES_MAX 4096u
#define ALARM_SECONDS 20 /* a target whose memory or files never answer must not keep us */

struct program {
        struct host host;
        bool json, children;
        struct output output;
        pid_t *pids; /* what was asked for, then, with --children, what they started */
        size_t n_pids, n_asked;
        size_t failed, read;
};

static void program_clear(struct program *p) {
        host_close(&p->host);
        free(p->pids);
}

static int add_pid(pid_t pid, void *userdata) {
        struct program *p = userdata;

        for (size_t i = 0; i < p->n_pids; i++)
                if (p->pids[i] == pid)
                        return 0;
        if (p->n_pids == PROCESSES_MAX)
                return -E2BIG;
        p->pids[p->n_pids++] = pid;
        return 0;
}

static int parse_pid(const char *word, pid_t *ret) {
        char *end;
        long v;

        errno = 0;
        v = strtol(word, &end, 10);
        if (errno || *end || word[0] < '0' || word[0] > '9' || v <= 0 || v > INT32_MAX)
                return -EINVAL;
        *ret = (pid_t) v;
        return 0;
}

/* The children of every process in the list are added to it, theirs too. */
static void add_children(struct program *p) {
        for (size_t i = 0; i < p->n_pids; i++) {
                _cleanup_process_ struct process parent = PROCESS_NULL;

                if (process_open(&p->host, p->pids[i], &parent) < 0)
                        continue; /* said when it is read, or ended */
                if (process_children(&parent, add_pid, p) == -E2BIG) {
                        log_warning("more than %u processes: the others are left out", PROCESSES_MAX);
                        p->failed++;
                        return;
                }
        }
}

static size_t unreadable_threads(const struct capture *c) {
        size_t n = 0;

        for (size_t i = 0; i < c->n_threads; i++)
                n += c->threads[i].error != 0;
        return n;
}

/*
 * With --children a process without Python, or one that ended meanwhile, is no failure; that nothing at all
 * was read is said at the end.
 */
static bool is_failure(const struct program *p, size_t index, int error) {
        if (!p->children)
                return true;
        return error != -ENOENT && (error != -ESRCH || index < p->n_asked);
}

static int read_one(struct program *p, size_t index) {
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        char why[REASON_MAX];
        pid_t pid = p->pids[index];
        size_t unreadable;
        int r = capture_process(&p->host, pid, &c, why);

        if (r == -ENOMEM)
                return r;
        if (r < 0) {
                if (!is_failure(p, index, r))
                        return 0;
                log_error("process %d: %s", (int) pid, why);
                p->failed++;
                return output_failure(&p->output, pid, c.command, why);
        }
        p->read++;
        unreadable = unreadable_threads(&c);
        if (unreadable > 0) {
                log_error("process %d: %zu of %zu threads could not be read", (int) pid, unreadable,
                          c.n_threads);
                p->failed++;
        }
        return output_capture(&p->output, &c);
}

static int run(struct program *p) {
        int r;

        if (p->children)
                add_children(p);
        for (size_t i = 0; i < p->n_pids; i++) {
                r = read_one(p, i);
                if (r < 0)
                        return log_error_errno(r, "process %d: %m", (int) p->pids[i]);
        }
        if (p->read == 0 && p->failed == 0) {
                log_error("process %d: no CPython interpreter in its memory map, nor in its descendants'",
                          (int) p->pids[0]);
                p->failed++;
        }
        if (p->output.cut) {
                log_error("the stacks are longer than %u bytes: the rest was left out", OUTPUT_MAX);
                p->failed++;
        }
        r = output_finish(&p->output);
        if (r < 0)
                return log_error_errno(r, "writing the stacks: %m");
        return p->failed > 0 ? verdict_exit_code(VERDICT_UNKNOWN) : 0;
}

static int take_pids(struct program *p, int n, char *words[]) {
        if (n <= 0 || n > (int) PROCESSES_MAX) {
                fprintf(stderr, "tpu-stack: name 1 to %u processes by PID\nTry 'tpu-stack --help'.\n",
                        PROCESSES_MAX);
                return -EINVAL;
        }
        p->pids = calloc(PROCESSES_MAX, sizeof(*p->pids));
        if (!p->pids)
                return -ENOMEM;
        for (int i = 0; i < n; i++) {
                pid_t pid;

                if (parse_pid(words[i], &pid) < 0) {
                        fprintf(stderr, "tpu-stack: '%s' is not a process number\nTry 'tpu-stack --help'.\n",
                                words[i]);
                        return -EINVAL;
                }
                (void) add_pid(pid, p);
        }
        p->n_asked = p->n_pids;
        return 0;
}

int main(int argc, char *argv[]) {
        _cleanup_(program_clear) struct program p = { .host = HOST_NULL };
        const struct option_def defs[] = {
                { "json", NULL, "print one JSON object instead of text (docs/stack.md)", NULL, &p.json },
                { "children", NULL, "also the Python processes that the PIDs started, and those started",
                  NULL, &p.children },
        };
        struct options o = {
                .program = "tpu-stack",
                .synopsis = "[--json] [--children] PID…",
                .summary = "Prints the Python stacks of all threads of running processes, innermost frame "
                           "first.\n"
                           "Reads their memory only: they are never stopped, traced or signalled.\n"
                           "Exit code: 0 every process was read, 3 one was not, 64 wrong usage.",
                .defs = defs,
                .n_defs = ELEMENTSOF(defs),
        };
        int r;

        log_open("tpu-stack");
        r = options_parse(&o, argc, argv);
        if (r < 0)
                return options_exit(r);
        if (take_pids(&p, argc - r, argv + r) < 0)
                return EXIT_USAGE;
        (void) alarm(ALARM_SECONDS); /* its default action ends us even inside a system call that does not
                                        return */
        r = host_open(o.root, &p.host);
        if (r < 0) {
                (void) log_error_errno(r, "%s: %m", o.root ? o.root : "/");
                return verdict_exit_code(VERDICT_UNKNOWN);
        }
        if (output_init(&p.output, stdout, p.json) < 0)
                return verdict_exit_code(VERDICT_UNKNOWN);
        r = run(&p);
        return r < 0 ? verdict_exit_code(VERDICT_UNKNOWN) : r;
}
