/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From samples and events to OTLP records in the uplink's spool, under one resource: who this host is.
 */
#include "base.h"
#include "otlp.h"
#include "identity.h"
#include "samples.h"
#include "uplink.h"

struct telemetry {
        struct otlp *otlp;
        struct uplink *uplink; /* borrowed */
        struct uplink *spare;  /* borrowed: in memory, while the disk takes nothing; NULL: none */
        uint64_t lost;         /* records that could not be built or that the uplink refused */
};

/* Makes the resource anew (start, and reload of the identity). host_id may be empty. The old one stays on
 * failure. */
int telemetry_describe(struct telemetry *t, const struct identity *i, const char *host, const char *host_id,
                       const char *boot_id);
void telemetry_clear(struct telemetry *t);

/* Submits every sample taken since the last push, in as many records as it takes. Returns the first error;
 * what failed is counted. */
int telemetry_push(struct telemetry *t, struct sample_store *s);
/* Submits one event; ret_seq (may be NULL) is its record's. Who wants it waits until it is durable: -EAGAIN
 * while the disk takes nothing. */
int telemetry_event(struct telemetry *t, const char *name, enum severity severity, usec_t time_real,
                    const struct otlp_attribute *body, size_t n, uint64_t *ret_seq);
