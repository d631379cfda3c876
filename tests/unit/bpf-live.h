/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The real BPF programs, for tests in this very kernel: loaded by the real loader, which takes root and a
 * kernel that lets them. */
#include <poll.h>

#include "bpf_sets.h"
#include "test.h"

/* Ends the test as skipped (77) where that set is not what it should be. Without CAP_BPF from here on. */
static struct bpf_sets *bpf_live_sets(const char *wanted) {
        struct bpf_sets *s = NULL;
        int r = bpf_sets_start(LOADER, &s);

        ASSERT_OK(r);
        while ((r = bpf_sets_take(s)) == 0) {
                struct pollfd p = { .fd = bpf_sets_fd(s), .events = POLLIN };

                (void) poll(&p, 1, 1000);
        }
        ASSERT_EQ(r, 1);
        for (size_t i = 0; i < bpf_sets_count(s); i++) {
                const struct bpf_report *report = bpf_sets_report(s, i);

                if (streq(report->name, wanted) && report->verdict == VERDICT_OK)
                        return s;
                if (streq(report->name, wanted)) {
                        printf("skipped: %s\n", report->reason);
                        exit(77);
                }
        }
        test_fail(__FILE__, __LINE__, "the loader told nothing of %s", wanted);
}
