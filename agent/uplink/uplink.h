/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Durable delivery to an OTLP/HTTP endpoint: one spool and at most one outstanding request per class. A
 * submitted record is acknowledged through on_durable when its fdatasync returned (done by the one thread,
 * answered by an eventfd): for events at once, for metrics within a second. Only durable records are sent
 * (spool.h), at least once, in order; retried on transport failure and 429/502/503/504 (Retry-After
 * honoured, up to an hour) with full-jitter backoff; refused content (400, 413, 422, partial success) is
 * dropped and counted; any other answer parks the class (one try a minute) and keeps the spool. Each
 * request carries "TPU-Spool-Record: <spool id, 16 hex digits>/<class name>/<seq>" so that a collector can
 * drop repeats.
 *
 * A spool that fails never stops the program: what cannot be written is refused with -errno and counted,
 * what is kept is still sent, and the disk is tried again (BACKOFF_PARKED). Two things block the loop by
 * design: uplink_new() (recovery), and an append with more than SPOOL_PENDING_MAX bytes unsynced (sync in
 * the caller).
 *
 * One endpoint, no TLS settings, no compression, and libcurl resolves names by its own means.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "spool.h"

enum uplink_class {
        UPLINK_EVENTS,  /* logs: POST <endpoint>/v1/logs */
        UPLINK_METRICS, /* POST <endpoint>/v1/metrics */
        _UPLINK_CLASS_MAX,
};
const char *uplink_class_name(enum uplink_class c); /* "events", "metrics" */

#define UPLINK_RECORD_HEADER "TPU-Spool-Record"
#define UPLINK_SYNC_METRICS \
        (1 * USEC_PER_SEC) /* metrics are durable at the latest this long after they came */
#define UPLINK_TIMEOUT (30 * USEC_PER_SEC)      /* of one request, if options do not say */
#define UPLINK_SEGMENT_BYTES (4 * 1024 * 1024)  /* or an eighth of a class's share, where that is less */
#define UPLINK_BYTES_MIN (_UPLINK_CLASS_MAX * 2 * SPOOL_SEGMENT_MIN)

struct uplink_options {
        const char *spool_dir;  /* made 0700 if missing; each class has a directory of its own in it */
        const char *endpoint;   /* "http://10.0.0.2:4318"; NULL or empty: spool only */
        uint64_t max_bytes;     /* of all classes together, shared out evenly; at least UPLINK_BYTES_MIN */
        const char *user_agent; /* "tpu-hostd/0.1" */
        usec_t timeout;         /* of one request; 0: UPLINK_TIMEOUT */
        /* seq of class c and all before are durable. May be NULL. Runs in the loop; may submit. */
        void (*on_durable)(enum uplink_class c, uint64_t seq, void *userdata);
        void *userdata;
};

struct uplink_class_stats {
        struct spool_stats spool;
        uint64_t sent;     /* records that a receiver took, wholly or partly */
        uint64_t retried;  /* exchanges that ended without a decision: each is tried again */
        uint64_t refused;  /* records that a receiver refused for good */
        uint64_t rejected; /* points and log records that it refused out of records it took (partial success)
                            */
        uint64_t not_kept; /* records that uplink_submit() refused because the spool could not take them */
        bool parked;
        bool durable; /* false: the spool cannot be opened or written now */
};
struct uplink_stats {
        struct uplink_class_stats classes[_UPLINK_CLASS_MAX];
        bool parked;            /* any class */
        char last_error[160];   /* of the last failed exchange; empty after a good one */
        char spool_error[160];  /* why durable is false; empty while it is true */
        usec_t last_ok_boot;    /* 0: never */
        bool durable;           /* all classes */
};

struct uplink;
/*
 * -EBUSY: another process has the spool; -EPROTONOSUPPORT: a newer version wrote it (nothing is touched);
 * -EINVAL: options. A spool that cannot be used for another reason is no failure: see stats.durable.
 */
int uplink_new(sd_event *e, const struct uplink_options *o, struct uplink **ret);
/*
 * Ends the request at work, syncs what was submitted (on_durable is not called any more) and frees. May
 * wait for the disk.
 */
struct uplink *uplink_free(struct uplink *u);
DEFINE_CLEANUP(struct uplink *, uplink_free)

/*
 * Takes one encoded OTLP request (copied). Returns 0 and its sequence, or -errno when it could not be
 * kept (counted).
 */
int uplink_submit(struct uplink *u, enum uplink_class c, const void *data, size_t len, uint64_t *ret_seq);
/*
 * What the next record submitted to c will be: for the attributes tpu.spool.id, .seq of a log record.
 * -errno: no spool now.
 */
int uplink_next(const struct uplink *u, enum uplink_class c, uint64_t *ret_spool_id, uint64_t *ret_seq);
void uplink_get_stats(const struct uplink *u, struct uplink_stats *ret);
