/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Device state compared across all cores of a slice. Every core of a synchronous run has the same program
 * and the same launch; the rule for program counters is Megascale's own (maxtext,
 * megascale_hang_playbook.md of its guides): an outlier with a counter that is not 0
 * is likely a bad TPU; 0 is waiting for input, and says to look at the Python stack.
 */
#include "evidence.h"

enum core_state {
        CORE_LIKE_OTHERS, /* the gravest last */
        CORE_NO_INPUT,    /* counter 0 where most have another */
        CORE_ODD_COUNTER, /* same program and launch, another program counter, not 0 */
        CORE_BEHIND,      /* an earlier launch of the same program than most */
        CORE_OTHER_PROGRAM,
        CORE_ERROR, /* it reports an error message */
        _CORE_STATE_MAX,
};

struct cores {
        size_t n;         /* of the slice */
        uint32_t program; /* most cores' fingerprint, a string */
        int64_t launch, pc;
        uint32_t location;
        size_t n_same; /* cores with that program, launch and counter */
        bool clear;    /* more than half of the cores agree on a program */
        bool clear_launch, clear_pc;
};
/* What most cores of the last captures say. -ENOMEM. */
int cores_survey(const struct evidence *e, struct cores *ret);
enum core_state core_judge(const struct cores *all, const struct captured_core *c);
/* The gravest state of a host's cores, and which core. */
enum core_state cores_of_host(const struct cores *all, const struct seen_host *h,
                              const struct captured_core **ret);
