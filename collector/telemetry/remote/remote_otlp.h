/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the store has as a request of OTLP: series as metrics, events and lines as log records, each under a
 * resource of its host, its slice and, of a line, its run. Those that follow each other share it.
 *
 * Of an agent's metrics the kind is known: counters are cumulative monotonic sums, histograms have count and
 * sum, and no buckets. The store keeps no start of a sum, so none is said: OTLP reads that as unknown. What
 * others send is a gauge. Inside the room only.
 */
#include "otlp.h"
#include "remote_request.h"

#define REMOTE_RESOURCE_MAX 2048

/* Whose something is. Texts are borrowed; NULL and -1: not known. */
struct remote_resource {
        const char *host, *service, *slice, *run, *accelerator_type, *version;
        int64_t worker_id;
};

struct remote_otlp {
        struct remote_request *q; /* where it goes to */
        bool is_logs;
        struct store *store;      /* asked for what records do not say of their host; NULL: of series */
        struct otlp *one;         /* of the resource at hand; NULL: none yet */
        char resource[REMOTE_RESOURCE_MAX]; /* that one, as a text */
        char host[STORE_HOST_MAX];          /* whose counts wait */
        struct remote_counts *counts;       /* of histograms, until their sums come */
        size_t n_counts, size_counts;
};
void remote_otlp_clear(struct remote_otlp *b);
#define _cleanup_remote_otlp_ _cleanup_(remote_otlp_clear)

/* A visitor of store_show_handover(). What no request can hold is counted in q. -ENOMEM. */
int remote_otlp_series(const struct handed_series *one, void *remote_otlp);
/* -ENOMEM, the store's. */
int remote_otlp_event(struct remote_otlp *b, const struct store_event_row *e);
int remote_otlp_line(struct remote_otlp *b, const struct store_line_row *l);
/* All that was added is in q, packed where that pays. -ENOMEM. */
int remote_otlp_end(struct remote_otlp *b);
