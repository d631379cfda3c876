/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * Of the kernel's types, what our programs use, and of those only the members they use: where each really
 * is, libbpf looks up in the running kernel's BTF when a program is loaded (CO-RE, preserve_access_index).
 * So the build needs no kernel and no generated header, and gives the same object everywhere. Names are the
 * kernel's (include/linux/sched.h, pid.h, seq_file.h; kernel/bpf/task_iter.c;
 * arch/x86/include/asm/ptrace.h); what another kernel names otherwise is a type with a suffix behind three
 * underscores, as libbpf wants it.
 */
typedef unsigned char __u8;
typedef unsigned short __u16;
typedef unsigned int __u32;
typedef unsigned long long __u64;
typedef signed char __s8;
typedef short __s16;
typedef int __s32;
typedef long long __s64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;

#define true 1
#define false 0

/* include/uapi/linux/bpf.h: those that bpf_helpers.h or a program names. */
enum bpf_map_type {
        BPF_MAP_TYPE_HASH = 1,
        BPF_MAP_TYPE_ARRAY = 2,
        BPF_MAP_TYPE_PERCPU_ARRAY = 6,
        BPF_MAP_TYPE_RINGBUF = 27,
};

enum { BPF_ANY = 0, BPF_NOEXIST = 1 };

enum bpf_func_id {
        BPF_FUNC_get_task_stack = 141,
        BPF_FUNC_snprintf = 165,
        BPF_FUNC_task_pt_regs = 175,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct upid {
        int nr;
        struct pid_namespace *ns;
};

struct pid {
        unsigned int level;
        struct upid numbers[1];
};

struct thread_info {
        unsigned int cpu; /* from 5.16 on */
};

struct task_struct {
        unsigned int __state; /* from 5.14 on */
        int pid, tgid;
        struct task_struct *group_leader;
        struct pid *thread_pid;
        int exit_code;
        char comm[16];
        struct css_set *cgroups;
        struct files_struct *files;
        struct thread_info thread_info;
};

struct task_struct___before_514 {
        long state;
};

struct task_struct___cpu_before_516 {
        unsigned int cpu;
};

struct pt_regs {
        unsigned long r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
        unsigned long orig_ax, ip, cs, flags, sp, ss;
};

struct seq_file {
        unsigned long count;
};

struct bpf_iter_meta {
        struct seq_file *seq;
};

struct bpf_iter__task {
        struct bpf_iter_meta *meta;
        struct task_struct *task;
};

#pragma clang attribute pop
