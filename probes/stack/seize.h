/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registers and the top of the stack of one thread, by stopping it for some ten microseconds:
 * PTRACE_SEIZE, PTRACE_INTERRUPT, both copies, PTRACE_DETACH. Other threads run on. When we are killed
 * meanwhile, the kernel lets the thread go (ptrace(2), "Death under ptrace": a tracer's end detaches its
 * tracees, and PTRACE_O_EXITKILL is not set). A signal that arrives in that moment is passed on, and a
 * thread that was stopped before stays so. Being stopped makes a few system calls return EINTR (epoll_wait
 * is one: signal(7), "Interruption of system calls and library functions by stop signals"); so a thread that
 * waits is first tried without: the kernel says its stack pointer and program counter (/proc/TID/syscall),
 * which most often is enough to unwind it, and by BPF all registers.
 *
 * We stop it from the processor that it runs on, where that is known: it is off that processor the moment we
 * are on it, it stops when we wait for it, and we are woken in its place. From another processor each of
 * these steps is an interrupt sent across, and on a virtual machine every one of those costs more than all
 * that is done here.
 */
#include <sys/types.h>
#include <sys/user.h>

#include "base.h"

#define SEIZE_STACK_MAX (64u * 1024) /* bytes that are copied of a stack */
#define SEIZE_WAIT_USEC 2000000u     /* one that runs stops at its next turn; what does not by then hangs */

#define SEIZE_UNKNOWN UINT64_C(0xDEAD4BAD4BAD0000) /* no address of a program: not canonical */

struct seized {
        pid_t tid;
        bool partial; /* it was not stopped: only rsp and rip are known, the others SEIZE_UNKNOWN */
        struct user_regs_struct registers;
        uint64_t stack_at; /* address of the first byte copied: 128 below the stack pointer (the red zone) */
        uint8_t *stack;    /* NULL: could not be read */
        size_t stack_len;
        /* how long it could not run for us: from before we touch it to where it is let go, and what we still
         * do on its processor then */
        uint64_t pause_ns;
};

void seized_clear(struct seized *s);

/*
 * Copies a thread that waits in the kernel, without stopping it. text: what /proc/TID/syscall says. known:
 * its registers, when somebody knows them (task_stacks.h); they count only if that file agrees. -EINVAL: it
 * does not wait, or not in a system call and nobody knows its registers. It counts when that file says the
 * same afterwards. Clear *ret.
 */
int seize_waiting(pid_t pid, pid_t tid, const char *text, const struct user_regs_struct *known,
                  struct seized *ret);

/*
 * pid: whose memory it is. cpu: the processor that it runs on, or did a moment ago; -1: not known. -ESRCH:
 * it has ended; -EPERM: not permitted, or another debugger has it; -EBUSY: it did not stop (it waits
 * uninterruptibly): if it does later, only our own end lets it go. -ENOMEM. Clear *ret.
 */
int seize_thread(pid_t pid, pid_t tid, int cpu, struct seized *ret);
