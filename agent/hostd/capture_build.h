/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * This host's part of a capture, out of what tpu-stack says and what the agent knows. Pure.
 */
#include <jansson.h>

#include "checks.h"
#include "host_capture.h"
#include "libtpu_status.h"

#define CAPTURE_SEND_MAX (900 * 1024) /* packed */

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
        const char *ended_how;             /* "exit-code 1" */
        const char *problem;               /* why there are no stacks; NULL: there are */
        const struct check_table *checks;  /* what is not OK goes with it; NULL: nothing */
        const struct libtpu_status *cores; /* NULL: no libtpu was asked */
        const struct finding_list *more;   /* what was found for this capture alone; likewise */
        const struct capture_own *own;     /* likewise */
        uint32_t reached;                  /* of host_capture.h */
};

struct built_capture {
        uint8_t *wire, *packed; /* proto/capture.proto, and the same as gzip */
        size_t len, packed_len;
        char *text; /* the stacks for people, CAPTURE_TEXT_MAX at most */
        unsigned processes, threads;
        bool cut;
};
void built_capture_clear(struct built_capture *b);
#define _cleanup_built_capture_ _cleanup_(built_capture_clear)

/* As gzip, CAPTURE_SEND_MAX at most; *ret is malloc'ed. -E2BIG, -ENOMEM. */
int capture_pack(const uint8_t *wire, size_t len, uint8_t **ret, size_t *ret_len);

/*
 * stacks: what tpu-stack --json printed (docs/stack.md), as gzip; NULL with problem. Beside Python processes those without
 * Python (shells, launchers) are left out. What is too large loses threads until it can be sent, the main ones last, and says so.
 * -EPROTO, -E2BIG, -ENOMEM; why: in words.
 */
int capture_build(const uint8_t *stacks, size_t len, const struct capture_about *a,
                  struct built_capture *ret, char why[static 200]);
