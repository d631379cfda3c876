/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "again.h"
#include "table.h"

static void wait_for(usec_t time) {
        struct timespec left = { .tv_sec = (time_t) (time / USEC_PER_SEC),
                                 .tv_nsec = (long) (time % USEC_PER_SEC) * 1000 };

        while (nanosleep(&left, &left) < 0 && errno == EINTR)
                continue;
}

bool again_wait(struct again *a, const struct problem *p, const char *program) {
        if (p->retry_after == 0 || p->retry_after > AGAIN_MAX - a->waited)
                return false;
        a->waited += p->retry_after;
        if (a->waited > AGAIN_QUIET && !a->said) {
                fprintf(stderr, "%s: ", program);
                print_clean(stderr, p->text, false);
                fprintf(stderr, ": asking again, for %u s at most\n", (unsigned) (AGAIN_MAX / USEC_PER_SEC));
                a->said = true;
        }
        wait_for(p->retry_after);
        return true;
}
