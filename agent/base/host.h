/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The host seam: the only access to /proc, /sys, /dev and /etc. A host is a root directory and a clock, so
 * that a whole machine can be a folder of fixtures (--root DIR). Paths are absolute ("/proc/meminfo") and,
 * with a root other than "/", are resolved inside it: absolute symlinks stay inside, ".." cannot leave it,
 * magic links are refused (openat2 RESOLVE_IN_ROOT, kernel 5.6).
 */
#include "base.h"
#include "clock.h"

struct host {
        int root_fd;
        const char *root; /* as given to host_open(), borrowed; NULL: "/" */
        bool real_root; /* root is "/": netlink and other questions to the kernel are allowed */
        bool other_netns; /* we are in another network namespace than the one that root's sysfs shows */
        struct clock clock;
};
#define HOST_NULL ((struct host) { .root_fd = -1 })

/* root NULL means "/". Returns 0, or -errno when the directory cannot be opened. */
int host_open(const char *root, struct host *ret);
void host_close(struct host *h);
#define _cleanup_host_ _cleanup_(host_close)

/* Opens a file of the host (flags as for open(2); O_CLOEXEC is added). Returns a descriptor or -errno. */
int host_open_file(const struct host *h, const char *path, int flags);

/*
 * Reads a whole small file into buf, NUL-terminated, trailing white space removed; ret_len may be NULL.
 * -E2BIG when it does not fit into size-1 bytes, -EBADMSG when it holds a NUL byte.
 */
int host_read(const struct host *h, const char *path, char *buf, size_t size, size_t *ret_len);
/* The same of a file that is open and was not read yet: for those who ask it more than its content. */
int host_read_file(int fd, char *buf, size_t size, size_t *ret_len);

/* For who reads it line by line: fclose(). */
int host_open_stream(const struct host *h, const char *path, FILE **ret);

/* The user's name by /etc/passwd alone: a name service may hang. False: it has none there. */
bool host_user_name(const struct host *h, uid_t uid, char *buf, size_t size);

/* Reads one number (base 10, or 0x…): -EBADMSG when the text is anything else, -ERANGE when too large. */
int host_read_u64(const struct host *h, const char *path, uint64_t *ret);

/* Writes text in one write(2) to an existing file (a sysctl). -EIO on a short write. */
int host_write(const struct host *h, const char *path, const char *text);

/* Last component of what the symlink points to ("driver" → "gve"). -EINVAL when it is no symlink. */
int host_link_name(const struct host *h, const char *path, char *buf, size_t size);

/* The whole text of a symlink, also of one in /proc/PID/fd. -EINVAL when it is no symlink, -E2BIG. */
int host_read_link(const struct host *h, const char *path, char *buf, size_t size);

/*
 * Calls visit with each entry's name of a directory in strcmp order, without "." and "..". Stops at the
 * first non-zero return of visit and returns it. -E2BIG with more than HOST_LIST_MAX entries.
 */
#define HOST_LIST_MAX 4096
int host_list(const struct host *h, const char *dir, int (*visit)(const char *name, void *userdata),
              void *userdata);

/* 36 characters and NUL, as in /proc/sys/kernel/random/boot_id. */
#define BOOT_ID_MAX 40
int host_boot_id(const struct host *h, char buf[static BOOT_ID_MAX]);

/* The host's own name: /proc/sys/kernel/hostname. */
#define HOST_NAME_SIZE 65
int host_name(const struct host *h, char buf[static HOST_NAME_SIZE]);

usec_t host_now(const struct host *h);      /* boot clock */
usec_t host_now_real(const struct host *h); /* real clock */
