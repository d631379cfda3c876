/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A list of the collector's that grows at its end: asked once, or followed until somebody ends it. */
#include "answer.h"

#define FEED_PATH_SIZE 4096
#define FOLLOW_WAIT    25 /* seconds that an answer is held back; collector and tpu-launchd allow no more */
#define FOLLOW_RETRY   2  /* seconds */

struct feed {
        const char *program, *list;                /* of the answer: "events", "lines" */
        char path[FEED_PATH_SIZE];                 /* what is asked each time */
        const char *first_key, *first_value;       /* of the first call alone; value NULL: nothing */
        int (*print)(const json_t *list, FILE *out); /* -errno */
        struct collector collector;
        int64_t next; /* what stands behind this one; -1: not asked yet */
};

/* One answer; what comes next is behind it. wait: seconds for news, 0: none. */
int feed_ask(struct feed *f, unsigned wait, json_t **ret, struct problem *problem);
/* Prints and drops the answer. Negative: go on; else the exit code. */
int feed_print(const struct feed *f, json_t *answer);
/* Until somebody ends it; the exit code. The collector may be away for a while: said once. */
int feed_follow(struct feed *f);
