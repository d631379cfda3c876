/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that delivers: the spool and its sender (agent/uplink) as the settings want them. Checks:
 * "uplink.delivery", "uplink.certificate". Samples: tpu.uplink.* of docs/metrics.md, so that a host that
 * falls behind says so itself. Events of what was lost. Publishes BUS_DURABLE.
 */
#include "part.h"
#include "tls_files.h"
#include "uplink.h"

extern const struct part uplink_part;

/* Borrowed; NULL outside of the part's life. */
struct uplink *uplink_of(const struct bus *b);

/* As GET /v1/status has it. Pure; now and now_real: the same instant. New reference; NULL: out of memory. */
json_t *uplink_to_json(const struct uplink_stats *s, const char *endpoint, usec_t now, usec_t now_real);

/* --- Files of TLS, also of the parts that listen or join ----------------------------------------------- */

/* "credential:NAME" becomes the file in which systemd keeps it for this service. Logs what is wrong. */
int tls_credential_path(const char *key, const char *value, char ret[static TLS_PATH_MAX]);

#define CERTIFICATE_NOTICE (14 * 86400 * USEC_PER_SEC) /* or a third of its life, where that is less */

struct certificate_end {
        usec_t not_before, not_after; /* real clock */
        const char *path;             /* for the remedy */
        const char *what_then;        /* what an expired one means */
        enum verdict gravest;         /* when it is of no use now */
};
/* Sets found, verdict, and what is wrong as the end comes near: reason and remedy. Pure. */
void certificate_end_judge(const struct certificate_end *c, usec_t now_real, struct finding *f);
