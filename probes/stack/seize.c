/* SPDX-License-Identifier: Apache-2.0 */
#include "seize.h"

#include <sched.h>
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>

#include "clock.h"
#include "process.h"

#define RED_ZONE 128u
#define PAGE 4096u
#define LOOK_NSEC 50000000 /* a thread that does not stop is given up between two ticks of this */

void seized_clear(struct seized *s) {
        free(s->stack);
        *s = (struct seized) { 0 };
}

/* What interrupts waitpid(), which knows no time limit: a tick, again and again, lest one comes before the
 * wait. Not SIGALRM, which ends a program that hangs. */
struct ticks {
        timer_t timer;
        struct sigaction action;
        sigset_t signals;
};

static void on_tick(int signal) {
        (void) signal;
}

static int ticks_begin(struct ticks *t) {
        struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGRTMIN };
        const struct itimerspec every = { { 0, LOOK_NSEC }, { 0, LOOK_NSEC } };
        struct sigaction action = { .sa_handler = on_tick }; /* no SA_RESTART: that is what it is for */
        sigset_t tick;

        if (timer_create(CLOCK_MONOTONIC, &event, &t->timer) < 0)
                return -errno;
        (void) sigemptyset(&tick);
        (void) sigaddset(&tick, SIGRTMIN);
        (void) sigaction(SIGRTMIN, &action, &t->action);
        (void) sigprocmask(SIG_UNBLOCK, &tick, &t->signals);
        (void) timer_settime(t->timer, 0, &every, NULL);
        return 0;
}

static void ticks_end(const struct ticks *t) {
        (void) timer_delete(t->timer); /* with what it has sent */
        (void) sigprocmask(SIG_SETMASK, &t->signals, NULL);
        (void) sigaction(SIGRTMIN, &t->action, NULL);
}

/* Waits for the stop, asleep: it comes to it the sooner for that when we share its processor, and who is
 * woken runs before others that wait for it, which one that yields does not. *ret: the signal to pass on, or
 * 0. */
static int wait_stopped(pid_t tid, uint64_t start, int *ret) {
        for (;;) {
                int status;
                pid_t r = waitpid(tid, &status, __WALL);

                if (r < 0 && errno != EINTR)
                        return -errno == -ECHILD ? -ESRCH : -errno;
                if (r == tid && !WIFSTOPPED(status))
                        return -ESRCH;
                if (r == tid) {
                        *ret = status >> 16
                                       ? 0
                                       /* an event of ours, or a signal to be delivered */
                                       : WSTOPSIG(status);
                        return 0;
                }
                if (clock_ns(CLOCK_MONOTONIC) - start > SEIZE_WAIT_USEC * UINT64_C(1000))
                        return -EBUSY;
        }
}

/* Where we may run. */
struct places {
        cpu_set_t all;
        int beside; /* the processor that we went to; -1: none */
};

static void go_beside(struct places *p, int cpu) {
        cpu_set_t one;

        p->beside = -1;
        if (cpu < 0 || cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(p->all), &p->all) < 0 ||
            !CPU_ISSET((size_t) cpu, &p->all))
                return;
        CPU_ZERO(&one);
        CPU_SET((size_t) cpu, &one);
        if (sched_setaffinity(0, sizeof(one), &one) == 0)
                p->beside = cpu;
}

/* We may run elsewhere again. */
static void let_move(const struct places *p) {
        if (p->beside >= 0)
                (void) sched_setaffinity(0, sizeof(p->all), &p->all); /* it was so before */
}

/*
 * Gives the thread its processor: we sleep for a moment, and wake up where there is room. Being moved by
 * sched_setaffinity() instead would take longer, on that very processor.
 */
static void go_away(const struct places *p) {
        if (p->beside >= 0)
                (void) nanosleep(&(struct timespec) { .tv_nsec = 1 }, NULL); /* cut short is as good */
}

/* Page by page: what is behind one that is not mapped is left out. */
static ssize_t copy_pages(pid_t pid, const struct seized *s) {
        struct iovec local = { s->stack, SEIZE_STACK_MAX }, remote[SEIZE_STACK_MAX / PAGE + 1];
        uint64_t at = s->stack_at, end = s->stack_at + SEIZE_STACK_MAX;
        size_t n = 0;

        for (; at < end && n < ELEMENTSOF(remote); n++) {
                size_t part = MIN((size_t) (PAGE - at % PAGE), (size_t) (end - at));

                remote[n] = (struct iovec) { (void *) (uintptr_t) at, part };
                at += part;
        }
        return process_vm_readv(pid, &local, 1, remote, n, 0);
}

/*
 * As much as is mapped. In one piece the kernel takes 16 pages at a time (mm/process_vm_access.c) and gives
 * what it got before one that is missing; process_vm_readv(2) promises that for whole pieces only, so one
 * that fails is asked for by pages.
 */
static void copy_stack(pid_t pid, struct seized *s) {
        struct iovec local = { s->stack, SEIZE_STACK_MAX },
                     remote = { (void *) (uintptr_t) s->stack_at, SEIZE_STACK_MAX };
        ssize_t r = process_vm_readv(pid, &local, 1, &remote, 1, 0);

        if (r < 0 && errno == EFAULT)
                r = copy_pages(pid, s);
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

int seize_waiting(pid_t pid, pid_t tid, const char *text, const struct user_regs_struct *known,
                  struct seized *ret) {
        _cleanup_(seized_clear) struct seized s = { .tid = tid, .partial = true };
        struct task_call c = task_call_parse(text);

        if (known && (known->rsp != c.sp || known->rip != c.pc))
                known = NULL; /* it waited elsewhere then */
        if (c.pc == 0 || (!known && c.number == CALL_FAULT))
                return -EINVAL;
        s.stack = malloc(SEIZE_STACK_MAX);
        if (!s.stack)
                return -ENOMEM;
        /* A register that is not known leads nowhere: a stack that needs one breaks off instead of seeming
         * to end. */
        s.registers.rbx = s.registers.rbp = s.registers.r12 = s.registers.r13 = s.registers.r14 =
                s.registers.r15 = SEIZE_UNKNOWN;
        s.registers.rsp = c.sp;
        s.registers.rip = c.pc;
        if (known) {
                s.registers = *known;
                s.partial = false;
        }
        s.stack_at = c.sp - RED_ZONE;
        copy_stack(pid, &s);
        *ret = s;
        s.stack = NULL;
        return 0;
}

/* Stops it, copies it, and lets it go. */
static int stop_and_copy(pid_t pid, const struct places *places, struct seized *s) {
        uint64_t start = clock_ns(CLOCK_MONOTONIC), stopped, ours;
        int signal = 0, r;

        if (ptrace(PTRACE_SEIZE, s->tid, NULL, NULL) < 0) {
                r = -errno;
                let_move(places);
                return r;
        }
        r = ptrace(PTRACE_INTERRUPT, s->tid, NULL, NULL) < 0 ? -errno : wait_stopped(s->tid, start, &signal);
        if (r == 0)
                r = copy_thread(pid, s);
        stopped = clock_ns(CLOCK_MONOTONIC) - start;
        /* It may run again, in our place and while the call has not even returned: only our own time
         * counts. */
        ours = clock_ns(CLOCK_THREAD_CPUTIME_ID);
        /* Fails when it did not stop or has ended: then there is nothing to let go, or our own end does. */
        (void) ptrace(PTRACE_DETACH, s->tid, NULL, (void *) (uintptr_t) signal);
        let_move(places);
        s->pause_ns = stopped + clock_ns(CLOCK_THREAD_CPUTIME_ID) - ours;
        return r;
}

int seize_thread(pid_t pid, pid_t tid, int cpu, struct seized *ret) {
        _cleanup_(seized_clear) struct seized s = { .tid = tid };
        struct places places;
        struct ticks ticks;
        int r;

        s.stack = malloc(SEIZE_STACK_MAX);
        if (!s.stack)
                return -ENOMEM;
        memset(s.stack, 0, SEIZE_STACK_MAX); /* the page faults of it are ours, not the thread's pause */
        r = ticks_begin(&ticks);
        if (r < 0)
                return r;
        go_beside(&places, cpu);
        r = stop_and_copy(pid, &places, &s);
        go_away(&places);
        ticks_end(&ticks);
        if (r < 0)
                return r;
        *ret = s;
        s.stack = NULL;
        return 0;
}
