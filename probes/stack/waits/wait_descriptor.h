/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a thread waits for that waits for a descriptor, and what is known meanwhile: for waits.c. */
#include "waits.h"

/* What is known while the threads of one process are looked at. */
struct thread_waiting {
        const struct waits_of *from;
        struct waits *out;
        const struct task *task; /* the thread that is looked at */
        unsigned looked;         /* descriptors of it so far */
        struct mounts mounts;
        struct control_group group;
        struct lock_places locks;
        char *file_locks; /* the text of /proc/locks, once it was read */
};

/* Adds a wait of that thread. What is beyond the bounds is left out, and said. -ENOMEM. */
int thread_wait_put(struct thread_waiting *t, const struct captured_wait *w, const char *text);
/* False: it is not readable. */
bool thread_wait_memory(const struct thread_waiting *t, uint64_t address, void *buf, size_t len);

/* Adds a wait for it like w, and for what an epoll watches. -ENOMEM. */
int wait_descriptor_add(struct thread_waiting *t, uint32_t fd, const struct captured_wait *w);
/* A lock of the file (flock(2), fcntl(2)), with its holder out of /proc/locks. */
int wait_descriptor_lock(struct thread_waiting *t, uint32_t fd);
