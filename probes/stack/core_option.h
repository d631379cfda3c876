/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The core that tpu-stack is given. It is foreign input: it is read without any capability, and by root's
 * tpu-stack as another user: as the one that is named, who opens it then, else as the core's owner. A
 * process that changed its user cannot be traced by that user (ptrace(2)).
 */
#include "core_file.h"

/* Before the guard begins, so that it and whom it watches are one user, and it can end them. user: a number,
 * or NULL. *ret: the core, which is not looked at. -errno, after a message. */
int core_option_open(const char *path, const char *user, int *ret);
/* In the guarded process. Takes fd. -errno, after a message. */
int core_option_read(const struct host *h, const char *path, int fd, struct core_file **ret);
