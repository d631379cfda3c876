/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Durable delivery to an OTLP/HTTP endpoint: one spool and at most one outstanding request per class. A submitted record is acknowledged
 * through on_durable when its fdatasync returned (done by the one thread, answered by an eventfd), delivered at least once, retried on transport
 * failure and 429/502/503/504 (Retry-After honoured) with full-jitter backoff; refused content (400, 413, 422, partial success) is dropped and counted; any other
 * answer parks the endpoint (one try a minute) and keeps the spool.
 * Each request carries "TPU-Spool-Record: <spool id hex>/<class>/<seq>" so that a collector can drop repeats.
 */
#include <systemd/sd-event.h>

#include "base.h"
#include "spool.h"

enum uplink_class {
        UPLINK_EVENTS,  /* logs: POST <endpoint>/v1/logs */
        UPLINK_METRICS, /* POST <endpoint>/v1/metrics */
        _UPLINK_CLASS_MAX,
};
const char *uplink_class_name(enum uplink_class c);

struct uplink_options {
        const char *spool_dir;  /* each class has a directory of its own in it */
        const char *endpoint;   /* "http://10.0.0.2:4318"; NULL or empty: spool only */
        uint64_t max_bytes;     /* of all classes together */
        const char *user_agent; /* "tpu-hostd/0.1" */
        /* seq of class c and all before are durable. May be NULL. */
        void (*on_durable)(enum uplink_class c, uint64_t seq, void *userdata);
        void *userdata;
};

struct uplink_class_stats {
        struct spool_stats spool;
        uint64_t sent, retried, refused; /* records */
};
struct uplink_stats {
        struct uplink_class_stats classes[_UPLINK_CLASS_MAX];
        bool parked;
        char last_error[160]; /* of the last failed exchange; empty after a good one */
        usec_t last_ok_boot;  /* 0: never */
        bool durable;         /* false: the spool cannot be written (reason in last_error), records are kept in memory only, bounded and counted */
};

struct uplink;
int uplink_new(sd_event *e, const struct uplink_options *o, struct uplink **ret);
struct uplink *uplink_free(struct uplink *u);
DEFINE_CLEANUP(struct uplink *, uplink_free)

/* Takes one encoded OTLP request. Returns 0 and its sequence, or -errno when it could not be kept (counted). */
int uplink_submit(struct uplink *u, enum uplink_class c, const void *data, size_t len, uint64_t *ret_seq);
void uplink_get_stats(const struct uplink *u, struct uplink_stats *ret);
