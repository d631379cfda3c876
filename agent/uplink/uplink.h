/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Durable delivery to OTLP/HTTP endpoints: one spool and at most one outstanding request per class. A
 * submitted record is acknowledged through on_durable when its fdatasync returned (done by the one thread,
 * sync.h): for events at once, for metrics within a second. Only durable records are sent (spool.h), at
 * least once, in order; retried on transport failure and 429/502/503/504 (Retry-After honoured, up to an
 * hour) with full-jitter backoff; refused content (400, 413, 422, partial success) is dropped and counted;
 * any other answer, and a certificate that either side does not believe, parks the endpoint for the class
 * (one try a minute) and keeps the spool. With several endpoints the first in the list that works is used
 * (route.h). Bodies are packed with gzip where that pays. Names are looked up in processes of their own
 * (exchange.h), never in the loop. Each request carries "TPU-Spool-Record: <spool id, 16 hex digits>/<class
 * name>/<seq>" so that a collector can drop repeats.
 *
 * What is lost (forced out by the byte limit, damaged, refused, thinned) is reported through on_gap, at most
 * once in gap_pause for a class and a reason, and is remembered on the disk until the event that reports it
 * is durable.
 *
 * A spool that fails never stops the program: what cannot be written is refused with -errno and counted,
 * what is kept is still sent, and the disk is tried again within 8 s. Two things block the loop by design:
 * uplink_new() (recovery), and an append with more than SPOOL_PENDING_MAX bytes unsynced or that forces a
 * segment out (sync in the caller).
 */
#include <systemd/sd-event.h>

#include "config.h"
#include "spool.h"
#include "tls_files.h"

enum uplink_class {
        UPLINK_EVENTS,  /* logs: POST <endpoint>/v1/logs */
        UPLINK_METRICS, /* POST <endpoint>/v1/metrics */
        UPLINK_LOGS,    /* lines that runs print: POST <endpoint>/v1/logs; many a record */
        _UPLINK_CLASS_MAX,
};
const char *uplink_class_name(enum uplink_class c); /* "events", "metrics", "logs" */
/* "byte limit", "damaged", "refused: 400 malformed", …, "thinned": stable. */
const char *uplink_loss_name(enum spool_loss why);

/*
 * After an outage: while the oldest metrics are older than UPLINK_BEHIND, the newest go first; of those
 * older than UPLINK_THIN_AGE, the first record of each minute (of the time they were made) is sent.
 */
#define UPLINK_BEHIND (60 * USEC_PER_SEC)
#define UPLINK_THIN_AGE (600 * USEC_PER_SEC)
#define UPLINK_THIN_EACH (60 * USEC_PER_SEC)

/* The event that reports a gap: one that is refused is not reported by another. */
#define UPLINK_GAP_PAUSE (60 * USEC_PER_SEC)

#define UPLINK_RECORD_HEADER "TPU-Spool-Record"
#define UPLINK_ASIDE_HEADER "TPU-Spool-Aside" /* instead; "part" of a part, which has no number */
#define UPLINK_SYNC_METRICS \
        (1 * USEC_PER_SEC) /* metrics are durable at the latest this long after they came */
#define UPLINK_TIMEOUT (30 * USEC_PER_SEC)      /* of one request, if options do not say */
#define UPLINK_SEGMENT_BYTES (4 * 1024 * 1024)  /* or a sixteenth of all, where that is less */
#define UPLINK_BYTES_MIN (_UPLINK_CLASS_MAX * 2 * SPOOL_SEGMENT_MIN)

struct uplink_options {
        const char *spool_dir;  /* made 0700 if missing; each class has a directory of its own in it */
        const char *endpoint;   /* "http://10.0.0.2:4318", several separated by blanks, the preferred one
                                   first;   NULL or empty: spool only */
        const char *proxy;      /* URL; NULL or empty: none, whatever the environment says */
        bool plain;             /* bodies are not packed */
        bool held;              /* nothing is sent before uplink_release() */
        bool closed;            /* the spool is not opened: what is submitted is refused */
        bool aside;             /* a spool that was set aside: sent as such, nothing is submitted to it */
        const char *ca_file, *cert_file, *key_file, *crl; /* tls_files.h; NULL or empty: none */
        const struct exchange_bearer *bearer; /* exchange.h; borrowed; NULL: none. It goes to: */
        const char *bearer_endpoints; /* those of these URLs; empty: to all */
        uint64_t max_bytes; /* of all classes together, at least UPLINK_BYTES_MIN: a class has what the more
                                   important ones, in the order of enum uplink_class, leave */
        /* of UPLINK_LOGS, within what the others leave; at least two segments. 0: no limit of its own */
        uint64_t log_bytes;
        const char *user_agent; /* "tpu-hostd/0.2" */
        usec_t timeout;         /* of one request; 0: UPLINK_TIMEOUT */
        /* seq of class c and all before are durable. May be NULL. Runs in the loop; may submit. */
        void (*on_durable)(enum uplink_class c, uint64_t seq, void *userdata);
        /*
         * To be submitted to UPLINK_EVENTS, its sequence in ret_seq (-errno: asked again later). The same
         * gap may be reported again after a restart, with the same number. May be NULL.
         */
        int (*on_gap)(enum uplink_class c, uint64_t spool_id, const struct spool_gap *g, enum spool_loss why,
                      uint64_t *ret_seq, void *userdata);
        usec_t gap_pause; /* 0: UPLINK_GAP_PAUSE */
        void *userdata;
};

struct uplink_class_stats {
        struct spool_stats spool;
        uint64_t sent;     /* records that a receiver took, wholly or partly */
        uint64_t retried;  /* exchanges that ended without a decision: each is tried again */
        uint64_t refused;  /* records, or parts of one (413), that a receiver refused for good */
        uint64_t lost[_SPOOL_LOSS_MAX]; /* records, or parts; of SPOOL_IN_PART points and log records */
        uint64_t not_kept; /* records that uplink_submit() refused because the spool could not take them */
        uint64_t body_bytes, wire_bytes; /* of the records sent: before and after packing */
        usec_t oldest_real; /* when the oldest waiting record was made, as it says itself; 0: not known */
        bool parked;       /* no endpoint takes it */
        bool durable; /* false: the spool cannot be opened or written now */
};
/* How one class fares with one endpoint. Times are of the boot clock. */
struct uplink_route {
        uint64_t sent;
        unsigned failures;  /* in a row */
        bool parked;
        usec_t retry_boot;  /* it is not tried before; 0 or in the past: nothing to wait for */
        usec_t avoid_boot;  /* another one is used before */
        char why[160];      /* what failed last; empty while it works */
};
struct uplink_endpoint_stats {
        const char *url;            /* valid as long as the uplink */
        char dns_error[160];
        struct uplink_route routes[_UPLINK_CLASS_MAX];
};
struct uplink_stats {
        struct uplink_class_stats classes[_UPLINK_CLASS_MAX];
        struct uplink_endpoint_stats endpoints[CONFIG_URLS_MAX];
        size_t n_endpoints;
        bool parked;            /* any class */
        char last_error[320];   /* of the last failed exchange; empty after a good one */
        char spool_error[160];  /* why durable is false; empty while it is true */
        usec_t last_ok_boot;    /* 0: never */
        bool durable;           /* all classes */
        struct tls_files tls;   /* as they were at the last look */
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
/* What was held is sent from now on. */
void uplink_release(struct uplink *u);
/* Another byte limit, from now on. */
void uplink_set_limit(struct uplink *u, uint64_t max_bytes);
/* Whether its disk takes what is submitted, as far as is known. */
bool uplink_is_durable(const struct uplink *u, enum uplink_class c);
/* Of a spool that was set aside: events that tell its gaps are durable in another one, up to seq. */
void uplink_gaps_durable(struct uplink *u, uint64_t seq);
/* Nothing is left in it to be sent or reported. */
bool uplink_is_done(const struct uplink *u);
/* The longest record that fits into a segment: less than SPOOL_RECORD_MAX when max_bytes is small. */
size_t uplink_record_max(const struct uplink *u);
/* What was submitted to c is made durable now, without the wait for more that could share the sync. */
void uplink_sync_now(struct uplink *u, enum uplink_class c);
/*
 * What the next record submitted to c will be: for the attributes tpu.spool.id, .seq of a log record.
 * -errno: no spool now.
 */
int uplink_next(const struct uplink *u, enum uplink_class c, uint64_t *ret_spool_id, uint64_t *ret_seq);
void uplink_get_stats(const struct uplink *u, struct uplink_stats *ret);
/*
 * To be called now and then (each tick): gaps are reported, certificate files that have changed are taken
 * into use (connections are made again, parked endpoints tried at once).
 */
void uplink_refresh(struct uplink *u);
/* What endpoints refused before may be taken now. */
void uplink_try_now(struct uplink *u);
