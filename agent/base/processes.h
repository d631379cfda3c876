/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a process of ours starts, and what it may. Apart from agent/base/child/, which brings the event loop.
 *
 * Another program as a child of a daemon: standard input is /dev/null, no signal is blocked or handled (the
 * event loop blocks those that it waits for), and of our descriptors it gets those without O_CLOEXEC and the
 * two below.
 */
#include <limits.h>
#include <sys/types.h>

#include "base.h"

struct spawn_options {
        const char *path; /* not looked up in PATH */
        const char *const *argv;
        char *const *environment;
        int out, error; /* -1: ours */
        bool own_group; /* so that all that it starts can be killed with it */
};

/* 0 and its pid, or -errno: of execve(2), too. */
int spawn_program(const struct spawn_options *o, pid_t *ret);

/* Capabilities of this thread (capabilities(7)), without libcap. cap: CAP_… of <linux/capability.h>. 1: it
 * is effective; 0: it is not; -errno: the kernel does not say. */
int capability_has(unsigned cap);
/*
 * Gives them up, of every set of ours; the bounding set stays: nothing can bring them back with
 * NoNewPrivileges=. -errno: a system call filter forbids it.
 */
int capabilities_drop(const unsigned caps[], size_t n);

/*
 * Where a program is that only one of ours starts: beside that one, as in a build, else where it is
 * installed. 0, or -errno: of the installed one, whose path ret then is.
 */
int private_program_find(const char *name, char ret[static PATH_MAX]);
