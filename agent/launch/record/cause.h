/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Why a run ended: one word out of all evidence. Pure.
 *
 * The names are those of RunListReply and never change. Where systemd has a word for it (success, exit-code,
 * signal, core-dump, oom-kill, timeout), it is systemd's.
 */
#include "exit_record.h"

enum cause {
        CAUSE_SUCCESS,
        CAUSE_STOPPED, /* somebody ended it, or it was ended by HUP, INT, TERM or PIPE */
        CAUSE_PREEMPTED, /* it was notified that its host goes, and ended */
        CAUSE_NEVER_RESTART, /* it ended with code 93: "do not start me again" */
        CAUSE_NOT_STARTED, /* the command could not be executed */
        CAUSE_OOM_KILL, /* killed for lack of memory, the run's own limit's or the host's */
        CAUSE_DEVICE_BUSY, /* another process had the TPU */
        CAUSE_DEVICE_LOST, /* a chip is gone, or failed */
        CAUSE_PEER_LOST, /* another host of the run is gone, or cannot be reached */
        CAUSE_CONFIGURATION, /* what the run was given about its slice does not fit */
        CAUSE_HANG, /* the runtime itself found that it hangs, and ended */
        CAUSE_TIMEOUT, /* it did not end when it was asked to, and was killed */
        CAUSE_CORE_DUMP,
        CAUSE_SIGNAL,
        CAUSE_EXIT_CODE,
        CAUSE_UNKILLABLE, /* KILL did not end it: a process in state D */
        CAUSE_HOST_DOWN, /* the host went down with it */
        CAUSE_UNKNOWN, /* no record, and no other evidence */
        _CAUSE_MAX,
};
const char *cause_name(enum cause c);
/* -EINVAL. */
int cause_parse(const char *name, enum cause *ret);

/* NVRx (nvidia-resiliency-ext): a worker that ends with it is never restarted. */
#define EXIT_NEVER_RESTART 93

#define CAUSE_TEXT_MAX 256

struct end_evidence {
        const struct exit_record *record; /* result "unknown": there is none */
        bool rebooted; /* the host is not up any more as it was when the run started */
        bool container; /* an engine's client ended, which says in its code how the container did */
        bool stop_asked, preempted; /* what we did to it */
        int32_t unkillable; /* a process of the run that KILL did not end; 0: none */
        bool checkpoint; /* behind the word of a preemption, its lines say that one is whole */
        int64_t checkpoint_step; /* of this step, -1: they do not say */
        int log; /* index of log_sign() in the run's last lines, or -1 */
};

struct cause_found {
        enum cause cause;
        char why[CAUSE_TEXT_MAX]; /* the evidence, in one line; never a line of the run's own log */
        char remedy[CAUSE_TEXT_MAX]; /* may be empty */
};
void cause_of(const struct end_evidence *e, struct cause_found *ret);

/* --- The run's own lines ----------------------------------------------------------------------------- */

/* A line that says why: all its words are in the line, in this order. */
struct log_sign {
        const char *words[3]; /* NULL: no more */
        enum cause cause;
        const char *why, *remedy;
};
/* NULL behind the last one. */
const struct log_sign *log_sign(int i);
/* Which sign this line (len bytes, need not end in NUL) is, or -1. Hostile input. */
int log_sign_find(const char *line, size_t len);

/*
 * Whom a line says that it lost: the last address of a host in a line of a sign (log_sign_find()) that is
 * peer-lost, or a line that is the name of a task of XLA's coordination service and nothing else, which
 * stands below such a line. ret is "10.0.0.2" or "task 3", and left alone when the line says neither:
 * loopback is none. Hostile input.
 */
bool log_lost_peer(const char *line, size_t len, int sign, char ret[static LOST_PEER_MAX]);

/* --- Whether it is restarted ------------------------------------------------------------------------- */

/*
 * Whether and when a local run that ended is restarted. Pure: what follows from the same record and
 * counts is the same before and after our own death.
 *
 * A start that makes no progress is one in which the run's log reported no new step, and which did not last
 * RESTART_LIVED either (for runs whose log reports none). RESTART_NO_PROGRESS of them in a row, and it is
 * not restarted, whatever is left of its budget.
 */
#define RESTART_NO_PROGRESS 3 /* NVRx: max_no_progress_cycles */
#define RESTART_LIVED (600 * USEC_PER_SEC)
#define RESTART_FIRST                                                                                       \
        (500 * USEC_PER_MSEC) /* before the first start after progress; each that makes none doubles it */
#define RESTART_PAUSE_MAX (300 * USEC_PER_SEC)

/* Kept in the run's file, as of its last start. */
struct restarts {
        uint32_t done; /* starts after the first */
        uint32_t idle; /* the last so many starts made no progress */
        bool step_known;
        uint64_t best_step;
};

struct restart_decision {
        bool again;
        usec_t pause; /* from the end on */
        struct restarts next; /* to be kept with the next start */
        char words[128]; /* "restart 2 of 5", or why not; "" when no policy was given */
};
/* end: of the start that lasted for lived. max: the budget. */
void restart_decide(const struct restarts *done, uint32_t max, const struct exit_record *end,
                    enum cause cause, usec_t lived, struct restart_decision *ret);
