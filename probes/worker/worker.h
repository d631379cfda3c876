/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A probe that can hang (struct probe, blocks) runs in a short-lived process of its own (child.h): PROGRAM
 * --probe NAME [--root DIR], or a function of the caller, forked. It writes findings and samples as lines of
 * JSON, between two processes of one version: {"finding": …}, {"sample": …}, and last {"done": 0 or -errno}.
 * It is killed at the probe's timeout. A process in uninterruptible sleep outlives that: it is left alone,
 * and whoever wants to look again waits until it is gone.
 */
#include "child.h"
#include "probe.h"

#define WIRE_NAMES_MAX 64
#define WORKER_ANSWER_MAX (1024 * 1024)

/* Texts of samples must outlive them: each one is kept once. */
struct wire_names {
        char *names[WIRE_NAMES_MAX];
        size_t n;
};

/* Runs p and writes what it says. -EIO when out does not take it. */
int wire_serve(const struct probe *p, const struct host *h, const struct probe_context *c, FILE *out);
/* Hands what whole lines say to s. 0, or the probe's own -errno; -EPIPE: the last line is missing; -EBADMSG:
 * no line of ours; -E2BIG: too many names; -ENOMEM. */
int wire_take(struct wire_names *n, const char *text, size_t len, struct sink *s);
void wire_clear(struct wire_names *n);

struct worker_program {
        const char *path; /* not looked up in PATH */
        /*
         * Unless NULL, no program is started: the caller is forked, serve writes those lines to stdout,
         * and its return is the exit code. For a caller of one thread that ends soon; saves loading every
         * library anew, which is most of what a probe costs.
         */
        int (*serve)(const struct host *h, const char *probe);
};

/* As done of child.h, at the limit also for one that cannot be killed. */
typedef void (*worker_done)(int result, const char *answer, size_t len, void *userdata);
int worker_start(sd_event *e, const struct worker_program *program, const struct host *h,
                 const struct probe *p, worker_done done, void *userdata, struct child **ret);
/* What done was given goes to s, also the beginning of what failed then. 0, or -errno. */
int worker_take(struct wire_names *n, int result, const char *answer, size_t len, struct sink *s);
/* UNKNOWN, for a worker that gave no whole answer: error is worker_take()'s or worker_start()'s. stuck: it
 * could not be killed either. */
void worker_tell_failure(const struct probe *p, int error, bool stuck, struct sink *s);
