/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run/ record of the registry as this host reads it (docs/registry.md): what tpu-launchd is asked for, and who
 * the peers are. Pure; the record is foreign.
 */
#include <jansson.h>

#include "base.h"
#include "identity.h"
#include "local.pb-c.h"
#include "run_spec.h"

/* "" when it is not there, or no text. */
const char *run_text(const json_t *o, const char *key);
/* 0 when it is not there, no number, or below 0. */
uint64_t run_number(const json_t *o, const char *key);

struct run_coordinator {
        const char *host, *address; /* of the record */
        uint16_t port;              /* 0: it has none */
};
void run_coordinator_of(const json_t *run, struct run_coordinator *ret);

/*
 * Visits the run's other hosts, those after this one first and round to those before it, so that who looks at some only does not
 * leave out the same ones everywhere; until visit says false.
 */
void run_visit_peers(const json_t *run, const char *slice, unsigned worker,
                     bool (*visit)(const char *host, const char *address, void *userdata), void *userdata);

/*
 * What tpu-launchd is asked for, to be freed with local__run_request__free_unpacked(). interfaces: NICs of
 * the data-centre network, "eth0,eth1". slice, worker: this host. -EBADMSG, -EINVAL: why (one line, then the
 * remedy after a line feed where there is one); -ENOMEM.
 */
int run_request_make(const json_t *run, const char *slice, unsigned worker, const struct identity *i,
                     const char *interfaces, Local__RunRequest **ret, char why[static RUN_WHY_MAX]);
