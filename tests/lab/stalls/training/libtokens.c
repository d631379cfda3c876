/* SPDX-License-Identifier: Apache-2.0 */
/* The sum of every stride-th character of a text; and counts of what was read, behind locks. */
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

uint64_t tokens_scan(const char *text, size_t n, size_t stride);
void tokens_account(size_t n, int reversed);
size_t tokens_shared_size(void);
int tokens_shared_new(void *memory);
int tokens_shared_take(void *memory);
int tokens_shared_release(void *memory);

uint64_t tokens_scan(const char *text, size_t n, size_t stride) {
        volatile uint64_t sum = 0;

        for (size_t i = 0; i < n; i += stride)
                sum += (unsigned char) text[i];
        return sum;
}

static pthread_mutex_t shards_lock = PTHREAD_MUTEX_INITIALIZER, bytes_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t audited = PTHREAD_ONCE_INIT;
static size_t n_shards, n_bytes;

static void count(pthread_mutex_t *first, pthread_mutex_t *second, size_t shards, size_t bytes) {
        pthread_mutex_lock(first);
        usleep(2000);
        pthread_mutex_lock(second);
        n_shards += shards;
        n_bytes += bytes;
        pthread_mutex_unlock(second);
        pthread_mutex_unlock(first);
}

static void *audit(void *unused) {
        (void) unused;
        for (;;) {
                count(&shards_lock, &bytes_lock, 0, 0);
                usleep(3000);
        }
        return NULL;
}

static void start_audit(void) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, audit, NULL) == 0)
                pthread_detach(thread);
}

/* One more shard of n bytes. reversed: takes the locks in the other order than the audit. */
void tokens_account(size_t n, int reversed) {
        pthread_once(&audited, start_audit);
        count(reversed ? &bytes_lock : &shards_lock, reversed ? &shards_lock : &bytes_lock, 1, n);
}

/* A lock in memory that processes share. */
size_t tokens_shared_size(void) {
        return sizeof(pthread_mutex_t);
}

int tokens_shared_new(void *memory) {
        pthread_mutexattr_t shared;

        memset(memory, 0, sizeof(pthread_mutex_t));
        pthread_mutexattr_init(&shared);
        pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
        return pthread_mutex_init(memory, &shared);
}

int tokens_shared_take(void *memory) {
        return pthread_mutex_lock(memory);
}

int tokens_shared_release(void *memory) {
        return pthread_mutex_unlock(memory);
}
