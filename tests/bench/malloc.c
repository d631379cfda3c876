/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two loads that tell allocators apart, for whichever the process was started with:
 *   objects     threads that make and free small objects of mixed sizes, some of them freed by another
 *               thread: what Python,
 *               input pipelines and protobuf do
 *   embedding   tables of many megabytes that are made, filled, read at random rows, grown and freed: what
 *               models with huge
 *               embedding tables do on the host
 * Prints one line of JSON. Usage: bench-malloc objects|embedding
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <time.h>

#include "base.h"

#define THREADS 2
#define SLOTS 65536
#define OBJECTS 12000000
#define TABLES 12
#define TABLE_BYTES ((size_t) 48 * 1024 * 1024)
#define ROW_BYTES 512
#define ROUNDS 6

static _Atomic(void *) slots[SLOTS];

static uint64_t next_random(uint64_t *state) {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        return *state;
}

/* Whatever stood in the slot is freed, whoever made it. */
static void *make_objects(void *seed) {
        uint64_t state = (uint64_t) (uintptr_t) seed;

        for (unsigned i = 0; i < OBJECTS; i++) {
                uint64_t n = next_random(&state);
                size_t size = n % 64 == 0 ? 1024 + n % 7168 : 16 + n % 496;
                unsigned char *p = malloc(size);

                if (!p)
                        abort();
                p[0] = p[size - 1] = (unsigned char) n;
                free(atomic_exchange(&slots[(n >> 20) % SLOTS], p));
        }
        return NULL;
}

static uint64_t objects(void) {
        pthread_t threads[THREADS];

        for (uintptr_t i = 0; i < THREADS; i++)
                if (pthread_create(&threads[i], NULL, make_objects, (void *) (i + 88172645463325252u)) != 0)
                        abort();
        for (unsigned i = 0; i < THREADS; i++)
                (void) pthread_join(threads[i], NULL);
        return THREADS * (uint64_t) OBJECTS;
}

static uint64_t embedding(void) {
        unsigned char *tables[TABLES] = { NULL };
        uint64_t state = 88172645463325252u, sum = 0;

        for (unsigned round = 0; round < ROUNDS; round++) {
                for (unsigned t = 0; t < TABLES; t++) {
                        size_t size = TABLE_BYTES + round * (TABLE_BYTES / 8);

                        /* every other table grows, the others are made anew */
                        if (t % 2) {
                                free(tables[t]);
                                tables[t] = NULL;
                        }
                        tables[t] = realloc(tables[t], size);
                        if (!tables[t])
                                abort();
                        memset(tables[t], (int) (round + t), size);
                }
                for (unsigned i = 0; i < 2000000; i++) {
                        uint64_t n = next_random(&state);
                        const unsigned char *row = tables[n % TABLES] +
                                                   (n >> 8) % (TABLE_BYTES / ROW_BYTES) * ROW_BYTES;

                        sum += row[n % ROW_BYTES];
                }
        }
        for (unsigned t = 0; t < TABLES; t++)
                free(tables[t]);
        return sum;
}

static double seconds(void) {
        struct timespec t;

        (void) clock_gettime(CLOCK_MONOTONIC, &t);
        return (double) t.tv_sec + (double) t.tv_nsec / 1e9;
}

int main(int argc, char *argv[]) {
        double start = seconds();
        struct rusage usage;
        uint64_t done;

        if (argc != 2 || (!streq(argv[1], "objects") && !streq(argv[1], "embedding"))) {
                fprintf(stderr, "Usage: bench-malloc objects|embedding\n");
                return 64;
        }
        done = streq(argv[1], "objects") ? objects() : embedding();
        (void) getrusage(RUSAGE_SELF, &usage);
        printf("{\"load\": \"%s\", \"seconds\": %.3f, \"peak_mib\": %ld, \"faults\": %ld, "
               "\"done\": %" PRIu64 "}\n",
               argv[1],
               seconds() - start, usage.ru_maxrss / 1024, usage.ru_minflt, done);
        return 0;
}
