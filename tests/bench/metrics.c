/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one look at the host costs: cycles of it on this machine, into the store of samples, as tpu-hostd's
 * tick does. Prints microseconds and series; strace -c, valgrind --tool=callgrind and perf stat tell the
 * rest. Usage: bench-metrics [CYCLES]
 */
#include <sys/resource.h>
#include <time.h>

#include "host_metrics.h"
#include "samples.h"

struct store_sink {
        struct sink sink;
        struct sample_store *store;
        struct sample_origin origin;
};

static void take(struct sink *s, const struct sample *m) {
        struct store_sink *to = (struct store_sink *) s; /* the sink is the first member */

        (void) sample_store_take(to->store, &to->origin, m);
}

static double seconds_of(const struct timeval *t) {
        return (double) t->tv_sec + (double) t->tv_usec / 1e6;
}

int main(int argc, char *argv[]) {
        unsigned cycles = argc > 1 ? (unsigned) strtoul(argv[1], NULL, 10) : 1000;
        _cleanup_(host_metrics_freep) struct host_metrics *m = NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        struct sample_store store = SAMPLE_STORE_NULL;
        struct store_sink s = { .sink = { .sample = take }, .store = &store };
        struct rusage before, after;

        if (host_open(NULL, &h) < 0 || host_metrics_new(&h, &m) < 0 || sample_store_init(&store) < 0)
                return EXIT_FAILURE;
        host_metrics_look(m, host_now(&h), &s.sink); /* opens the files */
        (void) getrusage(RUSAGE_SELF, &before);
        for (unsigned i = 0; i < cycles; i++) {
                s.origin.run++;
                host_metrics_look(m, host_now(&h), &s.sink);
                sample_store_end_run(&store, 0, s.origin.run);
        }
        (void) getrusage(RUSAGE_SELF, &after);
        printf("%u cycles, %zu series: %.1f us user and %.1f us system a cycle\n", cycles, store.n,
               1e6 * (seconds_of(&after.ru_utime) - seconds_of(&before.ru_utime)) / MAX(cycles, 1U),
               1e6 * (seconds_of(&after.ru_stime) - seconds_of(&before.ru_stime)) / MAX(cycles, 1U));
        sample_store_clear(&store);
        return EXIT_SUCCESS;
}
