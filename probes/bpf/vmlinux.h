/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * Of the kernel's types, what our programs use, and of those only the members they use: where each really is,
 * libbpf looks up in the running kernel's BTF when a program is loaded (CO-RE, preserve_access_index). So the
 * build needs no kernel and no generated header, and gives the same object everywhere. Names are the kernel's
 * (include/linux/sched.h, pid.h, seq_file.h; kernel/bpf/task_iter.c; arch/x86/include/asm/ptrace.h); what
 * another kernel names otherwise is a type with a suffix behind three underscores, as libbpf wants it.
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
        BPF_FUNC_task_pt_regs = 175,
};

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
        unsigned int inum;
};

struct pid_namespace {
        struct ns_common ns;
};

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

/* deaths, scheduling, storage: include/linux/cgroup-defs.h, kernfs.h, signal_types.h */
struct kernfs_node {
        const char *name;
        struct kernfs_node *parent; /* until 6.14 */
        __u64 id;
};

struct kernfs_node___since_615 {
        struct kernfs_node *__parent;
};

struct cgroup {
        struct kernfs_node *kn;
};

struct css_set {
        struct cgroup *dfl_cgrp;
};

struct kernel_siginfo {
        int si_code;
};

/* include/linux/blk-mq.h, blk_types.h, blkdev.h; block/blk-cgroup.h */
struct gendisk {
        char disk_name[32];
};

struct request_queue {
        struct gendisk *disk; /* from 5.15 on */
};

struct cgroup_subsys_state {
        struct cgroup *cgroup;
};

struct blkcg {
        struct cgroup_subsys_state css;
};

struct blkcg_gq {
        struct blkcg *blkcg;
};

struct bio {
        struct blkcg_gq *bi_blkg;
};

struct request {
        struct request_queue *q;
        unsigned int cmd_flags, __data_len;
        struct bio *bio;
};

struct request___before_517 {
        struct gendisk *rq_disk;
};

/* include/linux/fs.h, fdtable.h, dcache.h, path.h */
struct file_system_type {
        const char *name;
};

struct super_block {
        struct file_system_type *s_type;
};

struct inode {
        struct super_block *i_sb;
};

struct qstr {
        const unsigned char *name;
};

struct dentry {
        struct qstr d_name;
};

struct path {
        struct dentry *dentry;
};

struct file {
        struct inode *f_inode;
        struct path f_path;
};

struct fdtable {
        unsigned int max_fds;
        struct file **fd;
};

struct files_struct {
        struct fdtable *fdt;
};

/* include/trace/events/oom.h: from 6.9 on the hook is given the task, and its record has the user, too. */
struct trace_event_raw_mark_victim {
        unsigned int uid;
};

#pragma clang attribute pop
