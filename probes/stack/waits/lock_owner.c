/* SPDX-License-Identifier: Apache-2.0 */
#include "lock_owner.h"

#include <fcntl.h>
#include <linux/futex.h>

#include "elf_symbols.h"
#include "grow.h"
#include "utf8.h"

#ifndef FUTEX_LOCK_PI2
#define FUTEX_LOCK_PI2 13
#endif

#define AREAS_MAX       100000u
#define CALL_CODE_MAX   96u  /* bytes of glibc's syscall() */
#define FRAME_WORDS     256u /* of a Python frame and its values that are looked through */
#define STACK_NEAR      65536u
#define OBJECT_LOCK_AT  16u /* rlockobject.rlock_lock, lockobject.lock_lock */
#define OBJECT_OWNER_AT 24u /* rlockobject.rlock_owner */
#define METHOD_SELF_AT  24u /* PyCFunctionObject.m_self */
#define RWLOCK_LOCKED   2u  /* PTHREAD_RWLOCK_WRLOCKED of __readers */
#define WORDS_BEFORE    3u  /* of a read-write lock before its second futex */
#define MUTEX_KINDS     0x3FFu
#define MUTEX_ROBUST    16u /* of __kind: PTHREAD_MUTEX_ROBUST_NORMAL_NP, … */
#define MUTEX_INHERIT   32u

/* --- Mapped files ------------------------------------------------------------------------------------- */

static int add_area(const struct mapping *m, void *userdata) {
        const char *slash = strrchr(m->path, '/');
        struct areas *a = userdata;
        struct area *to;

        if (a->n == AREAS_MAX)
                return 1;
        if (grow(&a->items, &a->size, a->n + 1, sizeof(*a->items)) < 0)
                return -ENOMEM;
        to = &a->items[a->n++];
        *to = (struct area){ .start = m->start,
                             .end = m->end,
                             .offset = m->offset,
                             .inode = m->inode,
                             .device = m->device,
                             .shared = m->shared,
                             .executable = m->executable };
        (void) snprintf(to->name, sizeof(to->name), "%.55s", slash ? slash + 1 : m->path);
        utf8_mend(to->name);
        return 0;
}

/* What is more than AREAS_MAX is left out. */
static int read_areas(const struct process *p, struct areas *ret) {
        _cleanup_close_ int fd = openat(p->dir_fd, "maps", O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        bool empty;

        return fd < 0 ? -errno : MIN(maps_read(fd, add_area, ret, &empty), 0);
}

static void clear_areas(struct areas *a) {
        free(a->items);
        *a = (struct areas){ 0 };
}

/* They are in order of address. NULL: there is no file. */
static const struct area *find_area(const struct areas *a, uint64_t address) {
        size_t at = SORTED_PLACE(a->n, i, a->items[i].end <= address);

        return at < a->n && a->items[at].start <= address ? &a->items[at] : NULL;
}

/* Where the file that is mapped at an area begins. */
static uint64_t start_of_file(const struct areas *a, const struct area *of) {
        const struct area *first = of;

        while (first > a->items && first->offset > 0 && first[-1].inode == of->inode &&
               first[-1].device == of->device)
                first--;
        return first->start;
}

void lock_places_clear(struct lock_places *p) {
        clear_areas(&p->areas);
        *p = (struct lock_places){ 0 };
}

static const struct areas *areas_of(struct lock_places *p) {
        if (!p->mapped && read_areas(p->process, &p->areas) < 0)
                clear_areas(&p->areas); /* nothing is known of them, then */
        p->mapped = true;
        return &p->areas;
}

/* A thread of another process, by its number; false where processes number each other differently. */
static bool other_process(const struct lock_places *p, uint32_t tid, struct captured_wait *w) {
        char path[48], status[2048];
        const char *tgid;

        (void) snprintf(path, sizeof(path), "../%" PRIu32 "/status", tid);
        if (p->process->nested || tid == 0 ||
            process_read(p->process, path, status, sizeof(status), NULL) < 0 ||
            !(tgid = strstr(status, "\nTgid:")))
                return false;
        w->holder_pid = (uint32_t) strtoul(tgid + strlen("\nTgid:"), NULL, 10);
        w->holder_tid = tid;
        return true;
}

static bool set_holder(const struct lock_places *p, uint32_t own, bool shared, struct captured_wait *w) {
        const struct task *t = task_list_find(p->tasks, (pid_t) own);

        if (!t)
                return shared && other_process(p, own, w);
        w->holder_pid = (uint32_t) p->process->pid;
        w->holder_tid = (uint32_t) t->tid;
        return true;
}

/* --- glibc -------------------------------------------------------------------------------------------- */

static bool is_glibc(const char *name) {
        return streq(name, "libc.so.6") || streq(name, "libpthread.so.0") || startswith(name, "libc-2.") ||
               startswith(name, "libpthread-2.");
}

/* Whether glibc itself made the call, and not the program by glibc's syscall(). */
static bool called_by_glibc(struct lock_places *p, const struct task *waiter) {
        const struct areas *areas = areas_of(p);
        const struct area *code = find_area(areas, waiter->in.pc);
        struct elf_symbol symbol = { "syscall", 0 };
        struct elf_answer answer;
        uint64_t start;

        if (!code || !is_glibc(code->name))
                return false;
        start = start_of_file(areas, code);
        if (p->libc_start != start) {
                p->libc_start = start;
                p->libc_call = 0;
                if (elf_mapped_find(p->memory, start, &symbol, 1, &answer) >= 0 && symbol.value != 0)
                        p->libc_call = start + symbol.value - answer.first_address;
        }
        return p->libc_call == 0 || waiter->in.pc < p->libc_call ||
               waiter->in.pc >= p->libc_call + CALL_CODE_MAX;
}

/* The seven words from a futex on that may be a mutex: lock, count, owner, users, kind. */
static bool is_mutex(const struct lock_places *p, const struct call_wait *call, const uint32_t *m,
                     struct captured_wait *w) {
        uint32_t lock = m[0], owner = m[2], users = m[3], kind = m[4];
        bool robust = kind & MUTEX_ROBUST, names = robust || (kind & MUTEX_INHERIT);

        if ((kind & ~MUTEX_KINDS) || owner == 0 || users == 0 || users > TASKS_MAX)
                return false;
        if (names ? (lock & FUTEX_TID_MASK) != owner : lock != 2 || call->value != 2)
                return false;
        return set_holder(p, owner, call->shared, w);
}

/*
 * l: the words of what may be a read-write lock: readers, writers, two futexes, two that are empty, the
 * writer's number, whether it is shared, four that are empty, flags. A condition variable before a mutex
 * looks alike but for the empty ones.
 */
static bool is_written(const struct lock_places *p, const struct call_wait *call, const uint32_t *l,
                       struct captured_wait *w) {
        if (!(l[0] & RWLOCK_LOCKED) || l[2] > 3 || l[3] > 3 || l[4] != 0 || l[5] != 0 || l[7] > 1 ||
            (l[7] == 1) != call->shared || l[9] != 0 || l[10] != 0 || l[11] != 0 || l[12] > 2)
                return false;
        return set_holder(p, l[6], call->shared, w);
}

static const char *glibc_lock(struct lock_places *p, const struct task *waiter, const struct call_wait *call,
                              struct captured_wait *w) {
        uint32_t words[WORDS_BEFORE + 13] = { 0 };
        struct iovec local = { words, sizeof(words) };
        uint64_t from = call->address - WORDS_BEFORE * 4;

        if (call->operation == FUTEX_LOCK_PI || call->operation == FUTEX_LOCK_PI2) {
                local = (struct iovec){ words, 4 };
                if (memory_read_many(p->memory, &local, &call->address, 1) == 0 &&
                    set_holder(p, words[0] & FUTEX_TID_MASK, call->shared, w))
                        return "a mutex with priority inheritance";
                return NULL;
        }
        if (!called_by_glibc(p, waiter) || call->address % 4 != 0 || call->address < MEMORY_PAGE ||
            memory_read_many(p->memory, &local, &from, 1) < 0)
                return NULL;
        if (is_mutex(p, call, words + WORDS_BEFORE, w))
                return words[WORDS_BEFORE + 4] & MUTEX_ROBUST ? "a robust glibc mutex" : "a glibc mutex";
        /* its __wrphase_futex is the third word, __writers_futex the fourth */
        return is_written(p, call, words + 1, w) || is_written(p, call, words, w) ? "a glibc read-write lock"
                                                                                  : NULL;
}

/* --- Python ------------------------------------------------------------------------------------------- */

static const struct lock_thread *python_thread(const struct lock_places *p, pid_t tid) {
        for (size_t i = 0; i < p->n_python; i++)
                if (p->python[i].tid == tid)
                        return &p->python[i];
        return NULL;
}

/* Who waits for the interpreter's lock looks every few milliseconds. */
static bool is_gil(const struct lock_places *p, const struct call_wait *call, struct captured_wait *w) {
        if (!call->limited || call->address < p->runtime || call->address >= p->runtime_end)
                return false;
        w->kind = WAIT_GIL;
        w->number = 0;
        for (size_t i = 0; i < p->n_python; i++)
                if (p->python[i].gil) {
                        w->holder_pid = (uint32_t) p->process->pid;
                        w->holder_tid = (uint32_t) p->python[i].tid;
                }
        return true;
}

/*
 * Whether an object is a lock around this futex; then who has it, when it says so. A semaphore of
 * multiprocessing looks like an RLock (SemLockObject: handle, last_tid), but has its futex in memory that
 * processes share, and last_tid is of whoever had it last in this process, before a fork perhaps.
 */
static const char *lock_object(const struct lock_places *p, uint64_t object, const struct call_wait *call,
                               struct captured_wait *w) {
        uint64_t words[2] = { 0 };

        _Static_assert(OBJECT_OWNER_AT == OBJECT_LOCK_AT + 8, "read as one");
        if (object < MEMORY_PAGE || object >> 47 ||
            memory_read(p->memory, object + OBJECT_LOCK_AT, words, sizeof(words)) < 0 ||
            words[0] != call->address)
                return NULL;
        if (call->shared)
                return "a lock of Python's multiprocessing";
        for (size_t i = 0; i < p->n_python; i++)
                if (words[1] != 0 && p->python[i].pthread == words[1]) {
                        w->holder_pid = (uint32_t) p->process->pid;
                        w->holder_tid = (uint32_t) p->python[i].tid;
                        return "a threading.RLock of Python";
                }
        return "a threading.Lock of Python";
}

/*
 * The lock's object is among the values of the frame that waits, or a method of it is: each word is tried as
 * a pointer to either. An object counts only when it points to the very futex.
 */
static const char *python_lock(const struct lock_places *p, const struct task *waiter,
                               const struct call_wait *call, struct captured_wait *w) {
        const struct lock_thread *t = python_thread(p, waiter->tid);
        const char *found = NULL;

        if (!t || t->frame == 0)
                return NULL;
        if (call->address >= waiter->in.sp && call->address < waiter->in.sp + STACK_NEAR)
                return "a lock of Python (PyMutex)"; /* it sleeps on a semaphore of its own stack */
        for (uint64_t i = 0; i < FRAME_WORDS && !found; i++) {
                uint64_t word, self;

                if (memory_read_u64(p->memory, t->frame + i * 8, &word) < 0)
                        break;
                word &= ~UINT64_C(7); /* of a reference that is tagged */
                found = lock_object(p, word, call, w);
                if (!found && word >= MEMORY_PAGE && word >> 47 == 0 &&
                    memory_read_u64(p->memory, word + METHOD_SELF_AT, &self) == 0)
                        found = lock_object(p, self, call, w);
        }
        return found;
}

/* --- Any futex ---------------------------------------------------------------------------------------- */

/* " of libcache.so", "" where it is no file's. */
static void place_text(struct lock_places *p, uint64_t address, char buf[static LOCK_TEXT_MAX]) {
        const struct area *a = find_area(areas_of(p), address);

        buf[0] = '\0';
        if (a && !a->shared)
                (void) snprintf(buf, LOCK_TEXT_MAX, " of %s", a->name);
        else if (a)
                (void) snprintf(buf, LOCK_TEXT_MAX, " in shared memory %s", a->name);
        else
                (void) snprintf(buf, LOCK_TEXT_MAX, " at 0x%" PRIx64, address);
}

/* Where processes share it its key is its place in the file. */
static void set_key(struct lock_places *p, const struct call_wait *call, struct captured_wait *w) {
        const struct area *a = call->shared ? find_area(areas_of(p), call->address) : NULL;

        w->kind = WAIT_LOCK;
        w->number = call->address;
        if (!a || !a->shared)
                return;
        w->space = (uint64_t) a->device << 32 ^ a->inode;
        w->number = call->address - a->start + a->offset + 1; /* 0 would be unknown */
}

void lock_owner_find(struct lock_places *p, const struct task *waiter, const struct call_wait *call,
                     struct captured_wait *w, char text[static LOCK_TEXT_MAX]) {
        const char *found;
        char place[LOCK_TEXT_MAX];

        if (is_gil(p, call, w)) {
                text[0] = '\0';
                return;
        }
        set_key(p, call, w);
        place_text(p, call->address, place);
        found = p->memory ? glibc_lock(p, waiter, call, w) : NULL;
        if (found) {
                (void) snprintf(text, LOCK_TEXT_MAX, "%s%.100s", found, place);
                return;
        }
        found = p->memory ? python_lock(p, waiter, call, w) : NULL;
        if (found)
                (void) snprintf(text, LOCK_TEXT_MAX, "%s", found);
        else
                (void) snprintf(text, LOCK_TEXT_MAX, "a lock, semaphore or condition%.100s", place);
}
