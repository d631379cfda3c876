/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One capture of a run: tpu-stack as a child, whose answer (proto/capture.proto, as gzip) goes on as it is.
 * The tool bounds it; here it is bounded in size and time again.
 */
#include "child.h"

#define CAPTURE_BYTES_MAX (900 * 1024) /* fits into one frame with its neighbours */
#define CAPTURE_TIMEOUT (5 * USEC_PER_SEC)
#define CAPTURE_NATIVE_TIMEOUT (15 * USEC_PER_SEC) /* hundreds of libraries are looked into */
#define CAPTURE_INTERVAL USEC_PER_SEC /* between two captures of one run */
#define CAPTURE_ROUND 2 /* captures with native frames that remote may have of a run … */
#define CAPTURE_ROUND_EVERY (300 * USEC_PER_SEC) /* … in this time */
#define CAPTURE_PIDS_MAX 4096

struct capture_result {
        int error;   /* 0, -ETIMEDOUT, -EIO, -E2BIG */
        bool native; /* native frames were asked for */
        const void *data; /* borrowed */
        size_t len;
        usec_t taken_real;
};

/* tool: path of tpu-stack. native: native frames and the kernel's, too: a thread that runs is stopped for
 * them, for some microseconds. done: as of a child. -ENOENT: it is not installed. */
int capture_start(sd_event *e, const char *tool, const pid_t *pids, size_t n, bool native,
                  void (*done)(int result, const char *answer, size_t len, void *userdata), void *userdata,
                  struct child **ret);
