/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One pass over the host: read, plan, save originals, write, verify, judge. The daemon and the one-shots are
 * made of it.
 */
#include "contest.h"
#include "contested.h"
#include "finding.h"
#include "host.h"
#include "intent.h"
#include "netns.h"
#include "observe.h"
#include "plan.h"

/* A setting that was wanted and is not so. */
struct trouble {
        enum op_kind kind;
        char subject[64];
        char nic[IF_NAMESIZE]; /* as in struct plan_op */
        int index;
        int error; /* -errno of the write; 0: contested, and so not written */
        unsigned tries; /* in a row that failed */
        usec_t again;   /* boot clock; after FAILED_TRIES of them it is not tried before */
};

/* A write that fails may have events of its own (a driver that sets its queues up anew): it is tried again
 * at the next of them so often, then once in so long. */
#define FAILED_TRIES 3
#define FAILED_PAUSE (25 * USEC_PER_SEC) /* shorter than the daemon's 30 s, as GATEWAY_PAUSE */

struct trouble_list {
        struct trouble *items;
        size_t n;
};

struct netcfg {
        struct host host;
        struct intent intent;
        struct netns netns;
        int runtime_fd; /* netns.runtime; -1: not opened, and nothing may be written */
        char boot_id[BOOT_ID_MAX];
        bool parameters_only;   /* nothing else is written */
        struct observe observe; /* what a person ordered; not of a container's namespace */
        struct contest contest;
        bool daemon; /* it keeps contests over passes, and says in its directory which there are */
        struct contested_list contested; /* as that file has it … */
        int contested_error; /* … but for this: 0, or the -errno of writing it */

        /* The last pass: */
        struct plan plan; /* the writes that were wanted */
        struct plan sources; /* the rules and routes of source routing that were wanted (source_wanted()) */
        struct trouble_list troubles, before; /* before: of the pass before it, while one runs */
        struct finding_list report;
        const char *held; /* why nothing was written, NULL when writing was allowed */

        bool gateway_silent;  /* and that was logged */
        usec_t ask_again[2]; /* boot clock; a silent gateway (of IPv4, of IPv6) is not asked before */
        unsigned writes; /* verified, since start */
};
#define NETCFG_NULL ((struct netcfg) { .host = HOST_NULL, .netns = NETNS_NULL, .runtime_fd = -1 })
void netcfg_clear(struct netcfg *n);
#define _cleanup_netcfg_ _cleanup_(netcfg_clear)

enum pass_kind {
        PASS_LOOK,   /* writes nothing */
        PASS_APPLY,  /* --once, and the daemon's first */
        PASS_REPAIR, /* the daemon's later ones: what is wrong now was right before, so the rule of contests
                        holds */
};

/*
 * Returns 0 when the host was looked at (what is wrong is in report); -EAGAIN when another tpu-netcfg holds
 * the lock for longer than wait; -EPERM, -EACCES or -EROFS when a right is missing (logged; nothing was
 * written); -EBADMSG and others when the originals cannot be saved (logged; nothing was written); -ENOMEM.
 */
int pass_run(struct netcfg *n, enum pass_kind kind, usec_t wait);

/*
 * Saves nothing and judges nothing: does one write and logs it, with its source or with what went wrong (not
 * again when the pass before met the same). A
 * change of the MTU or of a private flag of the NIC that carries the only default route is taken back when
 * its gateway does not answer within 2 s after it: -EHOSTUNREACH. When the gateway did not answer before it
 * either, nothing is written (-ENETUNREACH), unless restoring; it is then not asked again for 20 s.
 *
 * This is what blocks the daemon's loop: at most 2 s before and 2 s after each such change, for at most two
 * NICs (one that carries the only default route of IPv4, one that of IPv6), so 8 s in a pass, and with one
 * private flag to set besides 16 s. A change that was taken back is held for an hour, and who does not
 * answer is asked for 2 s in 22 s, so that drift of all else waits that long at most. WatchdogSec= of the
 * unit is 30 s.
 */
int pass_apply_one(struct netcfg *n, const struct plan_op *op, bool restoring);
/* Logs which write is not permitted and what to do, unless the pass before met the same. Returns error. */
int pass_log_refused(const struct netcfg *n, const struct plan_op *op, int error);
