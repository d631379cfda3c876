/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What lock a thread waits for that sleeps on a futex, and who holds it. Some locks in memory name their
 * owner: mutexes and read-write locks of glibc, futexes with priority inheritance, robust ones, and Python's
 * RLock. What is there counts only when all of it fits and the owner is a thread of the process. No other
 * lock knows who holds it (semaphores, condition variables, threading.Lock, PyMutex): then the holder is not
 * known.
 *
 * The formats are those of x86-64: glibc's struct __pthread_mutex_s and __pthread_rwlock_arch_t
 * (sysdeps/x86/nptl/bits/struct_mutex.h, struct_rwlock.h), futex(2), CPython's Modules/_threadmodule.c.
 */
#include "host_capture.h"
#include "mapped_file.h"
#include "memory.h"
#include "wait_call.h"

/* Which files another process has mapped where, each in a few bytes (mapped_file.h reads the list). */
struct area {
        uint64_t start, end, offset, inode;
        uint32_t device;
        bool shared, executable;
        char name[56]; /* without its directories, cut */
};
struct areas {
        struct area *items;
        size_t n, size;
};

#define LOCK_TEXT_MAX 160u

struct lock_thread { /* of those that run Python */
        pid_t tid;
        uint64_t pthread; /* pthread_self() */
        uint64_t frame;   /* address of its innermost frame; 0: none */
        bool gil;
};

struct lock_places {
        const struct process *process;
        struct memory *memory;
        const struct task_list *tasks;
        struct areas areas;  /* read when first needed: */
        bool mapped;         /* then set */
        uint64_t libc_call;  /* address of glibc's syscall(), which programs call for locks of their own */
        uint64_t libc_start; /* of that glibc; 0: not looked for yet */
        uint64_t runtime,
                runtime_end; /* of the interpreter's own data, in which its lock (GIL) lies; 0: none */
        const struct lock_thread *python;
        size_t n_python;
};
void lock_places_clear(struct lock_places *p);

/*
 * Fills kind (WAIT_LOCK, WAIT_GIL), space, number, holder_pid and holder_tid of w. text: "a mutex of
 * libcache.so". waiter: the thread; call: what it is in, CALL_FUTEX.
 */
void lock_owner_find(struct lock_places *p, const struct task *waiter, const struct call_wait *call,
                     struct captured_wait *w, char text[static LOCK_TEXT_MAX]);
