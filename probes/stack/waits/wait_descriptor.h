/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a thread waits for that waits for a descriptor, for waits.c. */
#include "thread_waiting.h"

/* Adds a wait for it like w, and for what an epoll watches. -ENOMEM. */
int wait_descriptor_add(struct thread_waiting *t, uint32_t fd, const struct captured_wait *w);
/* A lock of the file (flock(2), fcntl(2)), with its holder out of /proc/locks. */
int wait_descriptor_lock(struct thread_waiting *t, uint32_t fd);
