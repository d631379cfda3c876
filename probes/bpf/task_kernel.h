/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
#pragma once
/*
 * Of the kernel's types, what programs about tasks, their control groups, files and block requests use, as
 * vmlinux.h has the others (include/linux/pid_namespace.h, cgroup-defs.h, kernfs.h, signal_types.h).
 */
#include "vmlinux.h"

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct ns_common {
        unsigned int inum;
};

struct pid_namespace {
        struct ns_common ns;
};

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
