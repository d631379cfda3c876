/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The core that tpu-stack is given. It is foreign input: it is read without any capability, and by root's
 * tpu-stack as another user: as the one that is named, who opens it then, else as the core's owner. A
 * process that changed its user cannot be traced by that user (ptrace(2)).
 */
#include "core_file.h"

/* user: a number, or NULL. -errno, after a message. */
int core_option_open(const struct host *h, const char *path, const char *user, struct core_file **ret);
