/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait, for test_waits.py: target_waits KIND [FILE]. It prints what the test compares, then
 * "ready": "owner TID" for a lock that knows who holds it.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static pthread_mutex_t a = PTHREAD_MUTEX_INITIALIZER, b = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t special;
static pthread_rwlock_t rw = PTHREAD_RWLOCK_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static sem_t sem;
static pthread_barrier_t both;
static struct { /* a condition variable before a mutex that another thread has */
        pthread_cond_t cond;
        pthread_mutex_t mutex;
} pair = { PTHREAD_COND_INITIALIZER, PTHREAD_MUTEX_INITIALIZER };
static volatile int *word; /* of a lock that is none of glibc's */

static void *wait_b(void *unused) {
        (void) unused;
        pthread_mutex_lock(&b);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&a);
        return NULL;
}

static void *lock_special(void *unused) {
        pthread_mutex_lock(&special);
        return unused;
}

static void *read_rw(void *unused) {
        pthread_rwlock_rdlock(&rw);
        return unused;
}

static void *write_rw(void *unused) {
        pthread_rwlock_wrlock(&rw);
        return unused;
}

static void *wait_sem(void *unused) {
        sem_wait(&sem);
        return unused;
}

static void *wait_cond(void *unused) {
        pthread_mutex_lock(&pair.mutex);
        pthread_cond_wait(&pair.cond, &pair.mutex);
        return unused;
}

/* A lock of its own kind, laid out so that a glibc mutex could be seen in it. */
static void *wait_own(void *unused) {
        syscall(SYS_futex, word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2, NULL, NULL, 0);
        return unused;
}

static void start(void *(*run)(void *), const char *name) {
        pthread_t t;

        if (pthread_create(&t, NULL, run, NULL) != 0)
                exit(1);
        pthread_setname_np(t, name);
}

static void ready(void) {
        printf("owner %d\nready\n", (int) gettid());
        fflush(stdout);
}

static void make_special(int robust, int protocol, int shared) {
        pthread_mutexattr_t attr;

        pthread_mutexattr_init(&attr);
        if (robust)
                pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
        pthread_mutexattr_setprotocol(&attr, protocol);
        if (shared)
                pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(&special, &attr);
        pthread_mutex_lock(&special);
}

/* A parent that holds a mutex in a file which its child waits for. */
static void share(const char *path) {
        int fd = open(path, O_RDWR | O_CREAT, 0600);
        pthread_mutexattr_t attr;
        pthread_mutex_t *m;
        pid_t child;

        if (fd < 0 || ftruncate(fd, 8192) < 0)
                exit(1);
        m = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (m == MAP_FAILED)
                exit(1);
        m = (pthread_mutex_t *) ((char *) m + 4160);
        pthread_mutexattr_init(&attr);
        pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
        pthread_mutex_init(m, &attr);
        pthread_mutex_lock(m);
        child = fork();
        if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                pthread_mutex_lock(m);
                _exit(0);
        }
        printf("child %d\n", (int) child);
}

int main(int argc, char *argv[]) {
        const char *kind = argc > 1 ? argv[1] : "";
        pid_t child;

        pthread_barrier_init(&both, NULL, 2);
        if (!strcmp(kind, "deadlock")) {
                pthread_mutex_lock(&a);
                start(wait_b, "other");
                pthread_barrier_wait(&both);
                ready();
                pthread_mutex_lock(&b);
        } else if (!strcmp(kind, "robust") || !strcmp(kind, "inherit")) {
                make_special(!strcmp(kind, "robust"),
                             strcmp(kind, "inherit") ? PTHREAD_PRIO_NONE : PTHREAD_PRIO_INHERIT, 0);
                start(lock_special, "waiter");
        } else if (!strcmp(kind, "rwlock")) {
                pthread_rwlock_wrlock(&rw);
                start(read_rw, "reader");
                start(write_rw, "writer");
        } else if (!strcmp(kind, "readers")) {
                pthread_rwlock_rdlock(&rw);
                start(write_rw, "writer");
        } else if (!strcmp(kind, "sem"))
                start(wait_sem, "waiter");
        else if (!strcmp(kind, "cond")) {
                start(wait_cond, "waiter");
                sleep(1);
                pthread_mutex_lock(&pair.mutex);
        } else if (!strcmp(kind, "own")) {
                int *words = calloc(8, sizeof(*words));

                words[0] = 2;
                words[2] = (int) gettid();
                words[3] = 1;
                word = words;
                start(wait_own, "waiter");
        } else if (!strcmp(kind, "shared") && argc > 2)
                share(argv[2]);
        else if (!strcmp(kind, "futex") && argc > 2) { /* an anonymous one that a child waits for, too */
                word = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
                child = fork();
                if (child == 0)
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                else {
                        printf("child %d\n", (int) child);
                        ready();
                }
                if (word != MAP_FAILED)
                        syscall(SYS_futex, word, FUTEX_WAIT, 0, NULL, NULL, 0);
        } else
                return 1;
        ready();
        for (;;)
                pause();
}
