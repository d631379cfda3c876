/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A probe that can hang (struct probe, blocks) runs in a short-lived process of its own: PROGRAM [VERB]
 * [--root DIR] --probe NAME, which writes findings and samples to its standard output
 * as lines of JSON, between two processes of one version: {"finding": …}, {"sample": …}, and last {"done": 0
 * or -errno}. Its parent kills it at the probe's timeout. A process in uninterruptible sleep outlives that:
 * it is left alone, and whoever wants to look again waits until it is gone.
 */
#include <sys/types.h>

#include "probe.h"

#define WIRE_LINE_MAX 4096

struct wire_reader {
        char *line; /* what came of one that has not ended; NULL: nothing */
        size_t n;
        bool done;  /* the last line came */
        int result; /* of the probe, when done */
};

/* Runs p and writes what it says. -EIO when out does not take it. */
int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out);
/* Takes bytes, hands whole lines to s. -EBADMSG: no line of ours; -E2BIG: too long; -ENOMEM. */
int wire_take(struct wire_reader *r, const char *data, size_t len, struct sink *s);
void wire_clear(struct wire_reader *r);

struct worker {
        const struct probe *probe;
        pid_t pid;      /* 0: none */
        int fd;         /* of its output, non-blocking; -1: at its end */
        usec_t started; /* boot clock */
        struct wire_reader reader;
};
#define WORKER_NULL ((struct worker){ .fd = -1 })

struct worker_program {
        const char *path, *verb; /* verb NULL: none. path is not looked up in PATH */
        /*
         * Unless NULL, no program is started: the caller is forked, serve writes those lines to stdout,
         * and its return is the exit code. For a caller of one thread that ends soon; saves loading every
         * library anew, which is most of what a probe costs.
         */
        int (*serve)(const struct host *h, const char *probe);
};

/* Starts one. -errno, with *ret untouched. */
int worker_start(const struct worker_program *program, const struct host *h, const struct probe *p,
                 struct worker *ret);
/* Takes what has come. 0: more may come; 1: that was all, and the probe is done; -errno: it ended early, or
 * its answer is malformed. */
int worker_take(struct worker *w, struct sink *s);
/* UNKNOWN, for a worker that gave no whole answer: error is worker_take()'s, or -ETIMEDOUT. stuck: it could
 * not be killed either. */
void worker_tell_failure(const struct probe *p, int error, bool stuck, struct sink *s);

/*
 * For a program without a loop: waits for w until its timeout, kills it then, and reaps it unless it is
 * stuck. The failure is then a finding already. 0, or -errno as worker_take().
 */
int worker_finish(struct worker *w, struct sink *s);
