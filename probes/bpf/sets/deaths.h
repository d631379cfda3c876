/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who ended which process, out of the records of deaths.bpf.c: a signal is kept until a process is seen to
 * end by it. Pure, of fixed size; what is forgotten first is the oldest.
 */
#include <linux/types.h>
#include <sys/types.h>

#include "base.h"
#include "deaths_figures.h"

#define DEATHS_SIGNALS 64u /* sent, and not yet seen to end anybody */
#define DEATHS_KEPT 32u     /* ends */
#define DEATH_RUN_MAX 48u

struct death {
        usec_t at;      /* boot clock */
        int signal;     /* 0: nothing */
        pid_t victim;
        bool ended;     /* it was seen to end by the signal; else that was sent and no more */
        /* else nothing was seen of the sender: it was before we looked, or in too much else */
        bool sender_known;
        bool by_kernel, out_of_memory;
        pid_t sender;   /* 0: outside of this pid namespace */
        uid_t sender_uid;
        int32_t global; /* the victim's number in the first pid namespace */
        char victim_comm[DEATH_COMM_MAX + 1], sender_comm[DEATH_COMM_MAX + 1], sender_group[DEATH_GROUP_MAX];
        char run[DEATH_RUN_MAX]; /* by its name; empty: in no control group of a run */
};

struct death_log {
        struct death signals[DEATHS_SIGNALS], ends[DEATHS_KEPT];
        size_t next_signal, next_end;
        uint64_t refused; /* records of another size or kind */
};

/* One record. Returns the death that it tells of, which is valid until the next call; NULL: it tells of none
 * (yet). */
const struct death *deaths_take(struct death_log *d, const void *data, size_t len);
/*
 * What ended that process at or after since, or the last signal sent to it then that asks to end; pid 0: the
 * last end of a process of that run. NULL: nothing was seen.
 */
const struct death *deaths_find(const struct death_log *d, const char *run, pid_t pid, usec_t since);

/* "SIGKILL from pid 4242 (python3, uid 1000, session-3.scope)", "SIGKILL from the kernel, out of memory".
 * Returns buf. */
#define DEATH_TEXT_MAX 200u
const char *death_text(const struct death *d, char buf[static DEATH_TEXT_MAX]);
/* "SIGKILL". */
#define DEATH_SIGNAL_TEXT_MAX 16u
const char *death_signal(int signal, char buf[static DEATH_SIGNAL_TEXT_MAX]);
