/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What an open descriptor of another process is, by /proc/PID/fd and fdinfo. No file is opened, and no file
 * system is asked: one that does not answer cannot keep us.
 */
#include "process.h"

/* The mounts of another process (/proc/PID/mountinfo), which asks no file system. */
#define MOUNTS_MAX 4096u
struct mount {
        uint32_t id;
        uint64_t device;
        char words[320]; /* "TYPE MOUNTPOINT" */
        unsigned point;  /* where in words the mount point stands */
        bool remote;     /* a server or a program answers for it: FUSE, NFS, … */
};
struct mounts {
        struct mount *items;
        size_t n, size;
};

/* -errno of reading; more than MOUNTS_MAX are left out. */
int mounts_read(const struct process *p, struct mounts *ret);
void mounts_clear(struct mounts *m);
/* NULL: there is none. */
const struct mount *mounts_find(const struct mounts *m, uint32_t id);
/* The one on which an absolute path lies, without looking at the path. */
const struct mount *mounts_of_path(const struct mounts *m, const char *path);

#define DESCRIPTOR_LINK_MAX 512u
#define DESCRIPTORS_MAX     65536u /* of one process that are looked at */

enum descriptor_kind {
        DESCRIPTOR_OTHER, /* inotify, a namespace, … */
        DESCRIPTOR_SOCKET,
        DESCRIPTOR_PIPE, /* or a FIFO */
        DESCRIPTOR_EVENTFD,
        DESCRIPTOR_EPOLL,
        DESCRIPTOR_TIMER,
        DESCRIPTOR_PIDFD,
        DESCRIPTOR_IO_URING,
        DESCRIPTOR_DEVICE,
        DESCRIPTOR_FILE, /* also a directory */
};

struct descriptor {
        uint32_t fd;
        enum descriptor_kind kind;
        bool reads, writes;
        uint64_t space, number;         /* as struct captured_wait; of a pidfd number is the process */
        uint32_t mount;                 /* mount id; 0: not known */
        char link[DESCRIPTOR_LINK_MAX]; /* "socket:[4711]", "/dev/vfio/1"; cut */
};

/*
 * By the link alone, without number of a FIFO, an eventfd or a pidfd, and without a file's kind: every path
 * is DESCRIPTOR_FILE, or DESCRIPTOR_DEVICE below /dev. -EBADF: it is not open; else -errno.
 */
int descriptor_link(const struct process *p, uint32_t fd, struct descriptor *ret);
/* All of it. m: the mounts of the process; NULL: not known. */
int descriptor_read(const struct process *p, const struct mounts *m, uint32_t fd, struct descriptor *ret);

/* Calls visit with each number that is open, until it returns other than 0; that, 0, or -errno. -E2BIG: only
 * the first DESCRIPTORS_MAX were visited. */
int descriptors_visit(const struct process *p, int (*visit)(uint32_t fd, void *userdata), void *userdata);

/* The descriptors that an epoll watches, likewise. events: EPOLLIN and so on. */
int descriptor_epoll_visit(const struct process *p, uint32_t fd,
                           int (*visit)(uint32_t fd, uint32_t events, void *userdata), void *userdata);
