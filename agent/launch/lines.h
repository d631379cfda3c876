/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What a run has printed, for people: a page at a time, read from the journal in a process of its own, for a
 * journal can be large and its disk slow. Whoever wants the next page asks again, with the place at which
 * the last one ended. That process may also wait for a line.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "host.h"
#include "local.pb-c.h"

#define LINES_PAGE (256 * 1024) /* bytes of lines; the next page has the others */
#define LINES_LINE_MAX 16384 /* longer ones are cut */
#define LINES_LAST_MAX 1000000
#define LINES_WAIT_MAX (25 * USEC_PER_SEC)
#define LINES_TIMEOUT (10 * USEC_PER_SEC) /* besides the wait */
/* After the first line that was waited for: others come with it, and a busy run costs few pages. */
#define LINES_GATHER (300 * USEC_PER_MSEC)
#define LINES_OF_ALL ((uid_t) -1)

struct lines_of { /* all of it is copied */
        const char *name; /* of the run: lines of its unit count, whoever started it under that name */
        uid_t uid; /* of runs of this user alone, or LINES_OF_ALL */
        uint32_t last; /* the newest so many, at most LINES_LAST_MAX; 0: from the first one on */
        const char *after; /* the next of the page before; "": last counts */
        usec_t wait; /* for one, when there is none yet; at most LINES_WAIT_MAX */
        const struct host *host; /* whose journal; below --root its persistent files */
};

struct lines;
/* Called once, and may free it. reply: NULL on failure, else valid until it returns. */
typedef void (*lines_done_t)(Local__LinesReply *reply, int error, void *userdata);
int lines_new(sd_event *e, const struct lines_of *of, lines_done_t done, void *userdata, struct lines **ret);
/* What is there now: it waits no longer, for the run has ended. -errno: done is not called. */
int lines_hurry(struct lines *l);
struct lines *lines_free(struct lines *l);
DEFINE_CLEANUP(struct lines *, lines_free)
