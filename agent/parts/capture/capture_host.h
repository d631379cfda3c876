/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * This host's part of a capture: what tpu-stack wrote stays as it is, and what the agent knows is put behind
 * it. Pure.
 */
#include "checks.h"
#include "host_capture.h"
#include "libtpu_status.h"

#define CAPTURE_POST_MAX (1024 * 1024) /* bytes of one, as a collector takes it */
#define CAPTURE_COPY_MAX (240 * 1024)  /* of its text in telemetry: Cloud Logging takes entries of 256 KiB */

struct capture_own { /* this host's addresses: "NIC ADDRESS" */
        char items[CAPTURE_OWN_MAX][CAPTURE_NAME_MAX];
        size_t n;
};

struct capture_about { /* texts are borrowed */
        const char *slice, *host, *address, *episode;
        uint32_t worker, round;
        usec_t wanted, taken, clock_error; /* real time */
        int64_t step;                      /* -1: not known */
        usec_t ended;                      /* 0: it runs, or nobody knows */
        const char *ended_how;             /* "exit-code 1"; NULL */
        const char *ended_peer;            /* "10.0.0.2", "task 3"; NULL */
        const char *problem;               /* why there are no stacks; NULL: there are */
        const struct check_table *checks;  /* what is not OK goes with it; NULL: nothing */
        const struct libtpu_status *cores; /* NULL: no libtpu was asked */
        const struct finding_list *more;   /* what was found for this capture alone; likewise */
        const struct capture_own *own;     /* likewise */
        uint32_t reached;                  /* of host_capture.h */
};

/*
 * stacks: a capture of tpu-stack, which is not looked at; NULL with problem. *ret is malloc'ed,
 * CAPTURE_POST_MAX at most: findings that find no room are left out, and it says so. -E2BIG: stacks are
 * longer than tpu-stack writes; -ENOMEM.
 */
int capture_host_append(const uint8_t *stacks, size_t len, const struct capture_about *a, uint8_t **ret,
                        size_t *ret_len);
