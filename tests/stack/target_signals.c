/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what reaches it, for test_native.py: 8 threads sleep, one spins. Every SIGRTMIN is counted (they
 * queue). On SIGTERM it prints the count and how far the spinning thread got, and ends.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static atomic_long spins, signals;
static atomic_int ends;

static void count(int signal) {
        if (signal == SIGTERM)
                ends = 1;
        else
                signals++;
}

static void *sleeps(void *arg) {
        while (!ends)
                (void) nanosleep(&(struct timespec) { 0, 20000000 }, NULL);
        return arg;
}

static void *spins_round(void *arg) {
        while (!ends)
                spins++;
        return arg;
}

int main(void) {
        struct sigaction a = { .sa_handler = count, .sa_flags = SA_RESTART };
        pthread_t t[9];

        (void) sigaction(SIGRTMIN, &a, NULL);
        (void) sigaction(SIGTERM, &a, NULL);
        for (int i = 0; i < 9; i++)
                (void) pthread_create(&t[i], NULL, i < 8 ? sleeps : spins_round, NULL);
        (void) write(1, "ready\n", 6);
        for (int i = 0; i < 9; i++)
                (void) pthread_join(t[i], NULL);
        printf("%ld %ld\n", (long) signals, (long) spins);
        return 0;
}
