/* SPDX-License-Identifier: Apache-2.0 */
#include "seize.h"

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#define RED_ZONE 128u
#define PAGE 4096u

void seized_clear(struct seized *s) {
        free(s->stack);
        *s = (struct seized) { 0 };
}

static uint64_t now_ns(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t); /* cannot fail */
        return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

/* Waits for the stop: at first without sleeping, for it takes some microseconds. *ret: the signal to pass
 * on, or 0. */
static int wait_stopped(pid_t tid, uint64_t start, int *ret) {
        for (;;) {
                int status;
                pid_t r = waitpid(tid, &status, __WALL | WNOHANG);

                if (r < 0 && errno != EINTR)
                        return -errno == -ECHILD ? -ESRCH : -errno;
                if (r == tid && !WIFSTOPPED(status))
                        return -ESRCH;
                if (r == tid) {
                        *ret = status >> 16
                                       ? 0
                                       : WSTOPSIG(status); /* an event of ours, or a signal on its way */
                        return 0;
                }
                if (now_ns() - start > SEIZE_WAIT_USEC * UINT64_C(1000))
                        return -EBUSY;
                if (now_ns() - start > 200000)
                        (void) nanosleep(&(struct timespec) { 0, 50000 }, NULL); /* cut short is as good */
                else
                        (void) sched_yield(); /* it may need our core to come to a stop */
        }
}

/* As much as is mapped. */
static void copy_stack(pid_t pid, struct seized *s) {
        struct iovec local = { s->stack, SEIZE_STACK_MAX }, remote[SEIZE_STACK_MAX / PAGE + 1];
        uint64_t at = s->stack_at, end = s->stack_at + SEIZE_STACK_MAX;
        size_t n = 0;
        ssize_t r;

        for (; at < end && n < ELEMENTSOF(remote); n++) {
                size_t part = MIN((size_t) (PAGE - at % PAGE), (size_t) (end - at));

                remote[n] = (struct iovec) { (void *) (uintptr_t) at, part };
                at += part;
        }
        r = process_vm_readv(pid, &local, 1, remote, n, 0);
        s->stack_len = r > 0 ? (size_t) r : 0;
}

/* While it is stopped. */
static int copy_thread(pid_t pid, struct seized *s) {
        struct iovec v = { &s->registers, sizeof(s->registers) };

        if (ptrace(PTRACE_GETREGSET, s->tid, (void *) 1 /* NT_PRSTATUS */, &v) < 0)
                return -errno;
        if (v.iov_len != sizeof(s->registers) || s->registers.cs != 0x33)
                return -EOPNOTSUPP; /* a 32-bit program */
        s->stack_at = s->registers.rsp - RED_ZONE;
        copy_stack(pid, s);
        return 0;
}

/* "NR A1 … A6 SP PC", the numbers after the first in hexadecimal; outside a system call "-1 SP PC". */
static int parse_syscall(const char *text, uint64_t *ret_sp, uint64_t *ret_pc) {
        size_t n = startswith(text, "-1 ") ? 3 : 9;
        uint64_t v[9] = { 0 };
        const char *at = text;
        char *end;

        if (n == 9 && (text[0] < '0' || text[0] > '9'))
                return -EINVAL;
        for (size_t i = 0; i < n; i++, at = end) {
                v[i] = strtoull(at, &end, i == 0 ? 10 : 16);
                if (end == at)
                        return -EINVAL;
        }
        *ret_sp = v[n - 2];
        *ret_pc = v[n - 1];
        return 0;
}

int seize_waiting(pid_t pid, pid_t tid, const char *text, const struct user_regs_struct *known,
                  struct seized *ret) {
        _cleanup_(seized_clear) struct seized s = { .tid = tid, .partial = true };
        uint64_t sp, pc;
        int r = parse_syscall(text, &sp, &pc);

        if (r < 0)
                return r;
        if (known && (known->rsp != sp || known->rip != pc))
                known = NULL; /* it waited elsewhere then */
        if (!known && text[0] == '-')
                return -EINVAL;
        s.stack = malloc(SEIZE_STACK_MAX);
        if (!s.stack)
                return -ENOMEM;
        /* A register that is not known leads nowhere: a stack that needs one breaks off instead of seeming
         * to end. */
        s.registers.rbx = s.registers.rbp = s.registers.r12 = s.registers.r13 = s.registers.r14 =
                s.registers.r15 = SEIZE_UNKNOWN;
        s.registers.rsp = sp;
        s.registers.rip = pc;
        if (known) {
                s.registers = *known;
                s.partial = false;
        }
        s.stack_at = sp - RED_ZONE;
        copy_stack(pid, &s);
        *ret = s;
        s.stack = NULL;
        return 0;
}

int seize_thread(pid_t pid, pid_t tid, struct seized *ret) {
        _cleanup_(seized_clear) struct seized s = { .tid = tid };
        int signal = 0, r;
        uint64_t start;

        s.stack = malloc(SEIZE_STACK_MAX);
        if (!s.stack)
                return -ENOMEM;
        memset(s.stack, 0, SEIZE_STACK_MAX); /* the page faults of it are ours, not the thread's pause */
        if (ptrace(PTRACE_SEIZE, tid, NULL, NULL) < 0)
                return -errno;
        start = now_ns();
        r = ptrace(PTRACE_INTERRUPT, tid, NULL, NULL) < 0 ? -errno : wait_stopped(tid, start, &signal);
        if (r == 0)
                r = copy_thread(pid, &s);
        /* Fails when it did not stop or has ended: then there is nothing to let go, or our own end does. */
        (void) ptrace(PTRACE_DETACH, tid, NULL, (void *) (uintptr_t) signal);
        s.pause_ns = now_ns() - start;
        if (r < 0)
                return r;
        *ret = s;
        s.stack = NULL;
        return 0;
}
