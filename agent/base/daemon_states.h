/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Our daemons, and the journal's, as systemd, the kernel and they themselves tell: what ask_daemons()
 * collects, and the probe "daemon" judges. */
#include "finding.h"

enum daemon_id {
        DAEMON_HOSTD,
        DAEMON_LAUNCHD,
        DAEMON_NETCFG,
        DAEMON_JOURNALD, /* not ours, and not asked: what runs print goes through it */
        _DAEMON_MAX,
};

#define DAEMON_ANSWER_TIME (2 * USEC_PER_SEC)
#define DAEMON_FAILURES_TIME (3600 * USEC_PER_SEC)
#define DAEMON_FINDINGS_MAX 4 /* that one says of itself */

struct daemon_state {
        int error;                  /* 0; -errno: systemd does not say */
        char load[16], active[16];  /* systemd's words; load is "not-found" when it is not installed */
        char sub[24], result[24], enabled[16];
        uint32_t restarts, pid;     /* pid 0: none */
        /* of the restarts, those within DAEMON_FAILURES_TIME after a failure; 0 also where the system's
         * journal may not be read. result then is that of the last */
        uint32_t failures;
        usec_t up;                  /* since its process was started; 0: not known */
        usec_t lived;               /* of one that has ended: how long it ran; 0: not known, or it runs */
        char process;               /* as in /proc/PID/stat; 0: not known */
        bool asked;
        int answer;                 /* when asked: 0; -errno, -ENOENT and -ECONNREFUSED of its socket */
        struct finding says[DAEMON_FINDINGS_MAX];
        size_t n_says;
};

/* What systemd lets all runs together have, or, without a unit, each service. UINT64_MAX: no limit. */
struct run_limit {
        const char *unit, *property; /* static; unit NULL: the manager's */
        uint64_t value;
};
#define RUN_LIMITS_MAX 14

struct daemon_states {
        bool systemd; /* it is the first process here: else nothing below is filled in */
        usec_t since_boot; /* when they were asked */
        struct run_limit limits[RUN_LIMITS_MAX];
        size_t n_limits; /* those that systemd says */
        struct daemon_state of[_DAEMON_MAX];
};
