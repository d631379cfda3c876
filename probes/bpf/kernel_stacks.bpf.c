/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/*
 * For every thread of one process that does not run: its registers as it entered the kernel, and its kernel
 * stack. Lines of text, for the kernel itself then names the functions:
 *
 *     t TID STATE
 *     r RSP RIP RBX RBP R12 R13 R14 R15
 *     s RAX RCX RDX RSI RDI R8 R9 R10 R11
 *     k FUNCTION+0x1/0x2 [MODULE]            innermost first
 *
 * TID and the wanted process are numbers of the reader's pid namespace.
 */
#include "vmlinux.h"

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define FRAMES 48
#define USER_CODE 0x33 /* the code segment of 64-bit programs */

char LICENSE[] SEC("license") = "GPL";

int wanted = 0;

static __u64 frames[FRAMES]; /* too large for the stack; one reader at a time */

/* The number that a reader in a pid namespace of that level sees; 0: none. */
static __always_inline int number_at(struct task_struct *task, unsigned int level) {
        struct pid *pid = BPF_CORE_READ(task, thread_pid);
        struct upid number = { 0 };

        if (!pid || level > BPF_CORE_READ(pid, level))
                return 0;
        if (bpf_probe_read_kernel(&number.nr, sizeof(number.nr),
                                  (char *) pid + bpf_core_field_offset(pid->numbers) +
                                          level * bpf_core_type_size(struct upid) +
                                          bpf_core_field_offset(number.nr)) < 0)
                return 0;
        return number.nr;
}

static __always_inline long state_of(struct task_struct *task) {
        if (bpf_core_field_exists(task->__state))
                return BPF_CORE_READ(task, __state);
        return BPF_CORE_READ((struct task_struct___before_514 *) task, state);
}

static __always_inline void put_registers(struct seq_file *seq, struct task_struct *task) {
        struct pt_regs *at, r;

        if (!bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_task_pt_regs))
                return; /* before 5.15 */
        at = (struct pt_regs *) bpf_task_pt_regs(task);
        if (!at || bpf_probe_read_kernel(&r, sizeof(r), at) < 0 || r.cs != USER_CODE)
                return;
        BPF_SEQ_PRINTF(seq, "r %lx %lx %lx %lx %lx %lx %lx %lx\n", r.sp, r.ip, r.bx, r.bp, r.r12, r.r13,
                       r.r14, r.r15);
        BPF_SEQ_PRINTF(seq, "s %lx %lx %lx %lx %lx %lx %lx %lx %lx\n", r.ax, r.cx, r.dx, r.si, r.di, r.r8,
                       r.r9, r.r10, r.r11);
}

static __always_inline void put_stack(struct seq_file *seq, struct task_struct *task) {
        long bytes = bpf_get_task_stack(task, frames, sizeof(frames), 0);

        for (int i = 0; i < FRAMES; i++) {
                if (bytes < (long) (i + 1) * (long) sizeof(frames[0]))
                        break;
                BPF_SEQ_PRINTF(seq, "k %pB\n", (void *) frames[i]);
        }
}

SEC("iter/task")
int dump_task(struct bpf_iter__task *ctx) {
        struct task_struct *task = ctx->task, *reader = (void *) bpf_get_current_task();
        struct seq_file *seq = ctx->meta->seq;
        unsigned int level;
        long state;

        if (!task)
                return 0;
        level = BPF_CORE_READ(reader, thread_pid, level);
        if (number_at(BPF_CORE_READ(task, group_leader), level) != wanted)
                return 0;
        state = state_of(task);
        if (state == 0)
                return 0; /* it runs, or is about to */
        BPF_SEQ_PRINTF(seq, "t %d %lx\n", number_at(task, level), state);
        put_registers(seq, task);
        put_stack(seq, task);
        return 0;
}
