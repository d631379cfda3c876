/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Another program as a child of a daemon: standard input is /dev/null, no signal is blocked or handled (the event
 * loop blocks those that it waits for), and of our descriptors it gets those without O_CLOEXEC and the two below.
 */
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
