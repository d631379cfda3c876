/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Kernel stacks, and registers, of the threads of a process that do not run, by a BPF iterator over tasks
 * (kernel_stacks.bpf.c). Nothing is attached that anybody else could notice, and no thread is stopped. It
 * takes CAP_BPF and CAP_PERFMON while it is opened, and Linux 5.17 with BTF.
 */
#include <sys/types.h>
#include <sys/user.h>

#include "base.h"

#define TASK_STACKS_WHY_MAX 160u
#define TASK_STACKS_BYTES_MAX (32u * 1024 * 1024) /* of one process */

struct task_stack {
        pid_t tid;                         /* as the reader's pid namespace numbers it */
        bool has_registers;                /* not before Linux 5.15, nor of a 32-bit program */
        /* with which it entered the kernel: rip, rsp and all general ones */
        struct user_regs_struct registers;
        const char *kernel;                /* "pipe_read+0x366/0x410" a line, innermost first; "": none */
};

struct task_stack_list {
        struct task_stack *items; /* sorted by tid */
        size_t n;
        char *text; /* where their stacks are */
};

void task_stack_list_clear(struct task_stack_list *l);
/* NULL: the thread ran, or is not there. */
const struct task_stack *task_stack_find(const struct task_stack_list *l, pid_t tid);

struct task_stacks;

/*
 * Opens iterators for so many processes and gives CAP_BPF and CAP_PERFMON up for good, whether it succeeds
 * or not. -EPERM, -EOPNOTSUPP (this kernel, or this build, cannot) or another -errno, with why for people.
 */
int task_stacks_open(size_t processes, struct task_stacks **ret, char why[static TASK_STACKS_WHY_MAX]);
struct task_stacks *task_stacks_close(struct task_stacks *s);
DEFINE_CLEANUP(struct task_stacks *, task_stacks_close)

/*
 * The threads of pid that do not run now. Beyond as many processes as were opened for, it depends on the
 * kernel's settings whether it is permitted (-EPERM). Clear *ret.
 */
int task_stacks_read(struct task_stacks *s, pid_t pid, struct task_stack_list *ret);

/* One iterator fewer: another process may have read it. */
void task_stacks_skip(struct task_stacks *s);

/* What the iterator wrote, as a list. Takes text (malloc; text[len] is NUL). -EBADMSG: it is no such
 * text. */
int task_stacks_parse(char *text, size_t len, struct task_stack_list *ret);
