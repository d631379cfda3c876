/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What is known while the threads of one process are looked at, for waits.c and those below it. */
#include "waits.h"

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
