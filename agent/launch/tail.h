/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The last lines of a run that ended, looked at in a process of its own: a journal can be large and its disk
 * slow. What is looked for are the signs of cause.h behind the last step, and that step. Nothing of a line
 * leaves that process but numbers and the address of a host.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "exit_record.h"

#define TAIL_LINES 2000 /* looked at, from the last one backwards */
#define TAIL_LINE_MAX 4096
#define TAIL_TIMEOUT USEC_PER_SEC
/*
 * journald may take a run's last line after the run itself is gone: so long is waited when no sign is there.
 * io.systemd.Journal.Synchronize would say when it has them all, but only once every journal is on the disk,
 * and that may take seconds.
 */
#define TAIL_WAIT (250 * USEC_PER_MSEC)

struct tail_result {
        int sign; /* index of log_sign(), or -1 */
        char lost_peer[LOST_PEER_MAX]; /* whom these lines say that it lost; empty: nobody */
        bool step_known;
        uint64_t last_step;
        bool checkpoint; /* after its notice of a preemption it printed that one is whole */
        int64_t checkpoint_step; /* -1: it did not say of which step */
};

/* Lines one by one, the last one first. Pure. */
void tail_init(struct tail_result *t);
/* False: there is no need of earlier ones. */
bool tail_line(struct tail_result *t, const char *line, size_t len);
/* For lines behind the notice alone. False: this one is what was looked for. */
bool tail_checkpoint(struct tail_result *t, const char *line, size_t len);

struct tail;
/* Called once. Of a journal that cannot be read nothing is found: error says why. */
typedef void (*tail_done_t)(const struct tail_result *t, int error, void *userdata);
struct tail_of {
        const char *name, *id; /* of the run; copied */
        usec_t started_real, preempted_real; /* 0: it was never notified of a preemption */
        bool failed; /* it did not end well, so that a sign is worth waiting for */
};
int tail_new(sd_event *e, const struct tail_of *of, tail_done_t done, void *userdata, struct tail **ret);
struct tail *tail_free(struct tail *t);
