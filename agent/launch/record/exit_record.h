/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How a run ended, as systemd reported it to the ExecStopPost= of the run's own unit: written durably by a
 * process of its own
 * ("tpu-launchd --record"), so that no daemon need be alive. systemd itself forgets, and answers "success"
 * for a unit it has forgotten: a run that is gone without a record is of unknown cause, never a success.
 *
 * A record is one JSON object in the state file (state_file.h) exits/NAME; it belongs to the run whose id it
 * carries, not to the name.
 */
#include "base.h"
#include "host.h"

#define EXIT_TEXT_MAX 256
#define LOST_PEER_MAX 48
#define RUN_ID_MAX 33 /* 32 hex digits and NUL */

struct exit_record {
        char id[RUN_ID_MAX];
        /* systemd's: success, exit-code, signal, core-dump, timeout, oom-kill, …; "unknown" without a record
         */
        char result[32];
        char code[16]; /* exited, killed, dumped; empty when the command was never started */
        char status[16]; /* "0", "TERM" */
        bool not_executed; /* the process that was to become the command could not (handover.h) */
        char boot_id[BOOT_ID_MAX];
        usec_t real, boot;
        uint32_t oom_kills; /* processes of the run that the kernel killed for lack of memory, as its control
                               group counts */

        /* Added by tpu-launchd once it has looked at all evidence (cause.h); empty before that. */
        char cause[24];
        char why[EXIT_TEXT_MAX], remedy[EXIT_TEXT_MAX];
        char lost_peer[LOST_PEER_MAX]; /* peer-lost: whom its lines name, "10.0.0.2" or "task 3" */
        bool step_known;
        uint64_t last_step; /* that the run's log reported */
};

int exit_record_write(int exits_fd, const char *name, const struct exit_record *r);
/* -ENOENT: there is none for the run of this id, or it could not be used and was set aside; -EBADMSG: it
 * says what no record says. */
int exit_record_read(int exits_fd, const char *name, const char *id, struct exit_record *ret);

/* The whole of "tpu-launchd --record NAME --id ID". Returns 0 or -errno, logged. */
int exit_record_main(const struct host *h, const char *name, const char *id);
