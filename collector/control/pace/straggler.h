/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who slows a run down that goes on. In synchronous training all hosts have the same step time: the slow
 * host is the one that the others wait for. It shows in the share of each window that a host spends
 * computing; what measures it is the caller's: CPU time of the run's slice, 1 - device idle time, 1 - share
 * of stack samples that wait in a collective.
 *
 * A host is the straggler when, in STRAGGLER_WINDOWS_NEEDED of the last STRAGGLER_WINDOWS windows with the
 * last among them, it computes more than all others: by STRAGGLER_RATIO of the median host and by
 * STRAGGLER_MARGIN of the window, and beyond four times the usual spread (median absolute deviation) of the
 * hosts. One loud window is no straggler, and what all hosts share is none.
 */
#include "base.h"

#define STRAGGLER_WINDOWS 4u
#define STRAGGLER_WINDOWS_NEEDED 3u
#define STRAGGLER_RATIO 1.25
#define STRAGGLER_MARGIN 0.10
#define STRAGGLER_HOSTS_MAX 65536u

struct straggler_verdict {
        bool found;
        size_t host;         /* index in the windows */
        double busy, others; /* its mean share, and the median of the others */
        unsigned windows;    /* in how many it stood out */
};

/*
 * busy[w * n + i] is the share (0 to 1) of window w, oldest first, in which host i computed; negative: not
 * known, and no evidence. With fewer than STRAGGLER_WINDOWS windows, or fewer than three known hosts in a
 * window, nobody is found. -EINVAL (n above STRAGGLER_HOSTS_MAX), -ENOMEM.
 */
int straggler_judge(const double *busy, size_t windows, size_t n, struct straggler_verdict *ret);
