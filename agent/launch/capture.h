/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One capture of a run's stacks: tpu-stack as a child, its text (or JSON, packed as it comes) through a pipe
 * read in the loop. Bounded in size and time; the tool decides what is a Python process and skips the rest.
 */
#include <systemd/sd-event.h>
#include <sys/types.h>

#include "base.h"

#define CAPTURE_TEXT_MAX (900 * 1024) /* fits into one frame with its neighbours */
#define CAPTURE_PACKED_MAX (900 * 1024)
#define CAPTURE_JSON_MAX (4 * 1024 * 1024) /* tpu-stack prints no more */
#define CAPTURE_TIMEOUT (5 * USEC_PER_SEC)
#define CAPTURE_NATIVE_TIMEOUT (15 * USEC_PER_SEC) /* hundreds of libraries are looked into */
#define CAPTURE_INTERVAL USEC_PER_SEC /* between two captures of one run */
#define CAPTURE_ROUND 2 /* captures with native frames that remote may have of a run … */
#define CAPTURE_ROUND_EVERY (300 * USEC_PER_SEC) /* … in this time */
#define CAPTURE_PIDS_MAX 4096

struct capture_wish {
        bool frames; /* JSON, packed; else text */
        bool native; /* native frames and the kernel's, too: a thread that runs is stopped for them, for some
                        microseconds */
};

struct capture_result {
        int error; /* 0, -ETIMEDOUT, -EIO, -ENOENT (the tool is missing), -E2BIG (frames: more than can be
                      sent) */
        struct capture_wish wish;
        const char *text; /* of every process that could be read; borrowed; with frames "" */
        const uint8_t *packed; /* with frames; borrowed */
        size_t packed_len;
        bool partial; /* some process could not be read, or the text was cut */
        const char *problem; /* what the tool said on standard error; "" */
        uint32_t processes, threads;
};

struct capture;
/* Called once, from the loop. */
typedef void (*capture_done_t)(struct capture *c, const struct capture_result *r, void *userdata);
/* Called once, when the tool is gone for good: after a timeout that may be much later, or never (a process
 * in D state). */
typedef void (*capture_gone_t)(struct capture *c, void *userdata);

struct capture_handlers {
        capture_done_t done;
        capture_gone_t gone; /* c is freed by the handler */
};

/* tool: path of tpu-stack. -ENOENT when it is not installed. h is borrowed and must outlive the capture. */
int capture_new(sd_event *e, const char *tool, const pid_t *pids, size_t n, const struct capture_wish *wish,
                const struct capture_handlers *h, void *userdata, struct capture **ret);
/* Kills the tool when it runs, and waits for nothing. */
struct capture *capture_free(struct capture *c);
