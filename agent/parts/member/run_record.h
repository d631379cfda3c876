/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run as others describe it to this host: the run/ record of the registry (docs/registry.md), out of which
 * comes what tpu-launchd is asked for and who the peers are; and the body of POST /v1/runs. Pure; both are
 * foreign.
 */
#include <jansson.h>

#include "base.h"
#include "identity.h"
#include "local.pb-c.h"
#include "run_spec.h"

struct run_coordinator {
        const char *host, *address; /* of the record */
        uint16_t port;              /* 0: it has none */
};
void run_coordinator_of(const json_t *run, struct run_coordinator *ret);

/* Whether this host is the one that coordinates. */
bool run_is_coordinator(const json_t *run, const char *slice, unsigned worker);

/*
 * Visits the run's other hosts, those after this one first and round to those before it, so that a host that
 * looks at some only does not leave out the same ones as all others; until visit says false.
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

/*
 * The body of POST /v1/runs: the intent of docs/registry.md without by, at and stop, of a run of this host
 * alone. One with slices, min or max is for the registry, and nothing else of it is looked at.
 */
struct run_body {
        Run__Spec *spec; /* NULL: over slices */
        bool over_slices;
        uint64_t generation;
        char serial[64];
};
/* -EINVAL with one line of why, naming the member; -ENOMEM. */
int run_body_parse(const char *text, size_t len, struct run_body *ret, char why[static RUN_WHY_MAX]);
void run_body_clear(struct run_body *b);
#define _cleanup_run_body_ _cleanup_(run_body_clear)
