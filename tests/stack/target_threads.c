/* SPDX-License-Identifier: Apache-2.0 */
/* So many threads as the argument says: one runs, the others wait. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

static void *waits(void *arg) {
        for (;;)
                pause();
        return arg;
}

int main(int argc, char *argv[]) {
        int n = argc > 1 ? atoi(argv[1]) : 2;
        volatile unsigned long spins = 0;
        pthread_attr_t a;

        (void) pthread_attr_init(&a);
        (void) pthread_attr_setstacksize(&a, 128 * 1024);
        for (int i = 1; i < n; i++) {
                pthread_t t;

                if (pthread_create(&t, &a, waits, NULL) != 0)
                        return 1;
        }
        (void) write(1, "ready\n", 6);
        for (;;)
                spins++;
}
