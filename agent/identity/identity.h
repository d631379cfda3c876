/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who this host is: slice, worker, peers, chips. Each field keeps where it came from: the static file, else
 * what identity_add() gives, in the order of the calls (the environment of the asking command, the metadata
 * server), else the kernel, else what follows from other fields (identity_derive(): origin "from …"). A
 * field of a weaker source never replaces one of a stronger.
 *
 * The static file is configuration "identity" (config.h: identity.conf and identity.conf.d/), section
 * [Identity]: the keys of identity.c's table. WorkerHostnames= and WorkerAddresses= may be given many times
 * (a line holds 190 bytes): each time appends to the list, an empty value empties it, so that a later file
 * starts again. One bad name in it makes the whole list unknown, for a list with a hole would give every
 * worker behind it a wrong id. HostName= falls back to the kernel's name (origin "kernel"). The section
 * [Network] of the same file belongs to the network's intent and is passed over.
 */
#include <jansson.h>

#include "base.h"
#include "finding.h"
#include "host.h"

#define IDENTITY_HOSTS_MAX 4096

enum identity_field {
        IDENTITY_HOST_NAME,
        IDENTITY_SLICE_NAME,
        IDENTITY_ACCELERATOR_TYPE, /* "v6e-16" */
        IDENTITY_MACHINE_TYPE, /* "ct6e-standard-4t" */
        IDENTITY_TOPOLOGY, /* "4x4" */
        IDENTITY_WORKER_ID, /* "0"… decimal */
        IDENTITY_WORKER_HOSTNAMES, /* comma list in the order of worker ids */
        IDENTITY_WORKER_ADDRESSES, /* the same, of addresses */
        IDENTITY_CHIPS, /* chips on this host, decimal; 0: none */
        IDENTITY_CHIPS_PER_HOST_BOUNDS, /* "2,2,1" */
        IDENTITY_HOST_BOUNDS, /* "2,2,1": hosts of the slice in each dimension */
        IDENTITY_TOPOLOGY_WRAP, /* "true,true,false": the dimension is a ring */
        IDENTITY_ICI_RESILIENCY, /* "true", "false" */
        IDENTITY_SLICES, /* Multislice: how many, */
        IDENTITY_SLICE_ID, /* which of them this is, */
        IDENTITY_COORDINATOR, /* and who coordinates them, "HOST" or "HOST:PORT" */
        IDENTITY_ZONE,
        IDENTITY_INSTANCE_ID, /* decimal, of Compute Engine */
        IDENTITY_PREEMPTIBLE, /* "true", "false": may be taken away at any time */
        _IDENTITY_FIELD_MAX,
};

struct identity_value {
        char *text; /* NULL: not known */
        char origin[128]; /* "file:line", "kernel", … */
};

struct identity {
        struct identity_value fields[_IDENTITY_FIELD_MAX];
};
#define IDENTITY_NULL ((struct identity){ 0 })

/* Loads what can be known. config_file: --config or NULL. Bad values warn with file:line and stay unknown.
 * -errno only when out of memory or --config cannot be read. */
int identity_load(const struct host *h, const char *config_file, struct identity *ret);
/*
 * For --show-config and --check-config of programs that read no other configuration: prints to out (unless
 * NULL) what is in force and where it is from, and counts in *ret_warnings what was wrong; each was logged.
 */
int identity_report_config(const struct host *h, const char *config_file, FILE *out, unsigned *ret_warnings);
/*
 * A field from a source that is weaker than the static file and stronger than the kernel: fills it when it
 * is not known, only the kernel's, or only follows from others. -EINVAL: text cannot be this field's;
 * -ENOMEM.
 */
int identity_add(struct identity *i, enum identity_field f, const char *text, const char *origin);
/*
 * Fills what follows from other fields and is not known: chips of the machine type or the bounds, the
 * topology of a two-dimensional accelerator type, bounds and wrap of the topology. identity_load() has done
 * it; again after identity_add(). -ENOMEM.
 */
int identity_derive(struct identity *i);
/* Whether the field only follows from others. */
bool identity_is_derived(const struct identity *i, enum identity_field f);
void identity_clear(struct identity *i);
#define _cleanup_identity_ _cleanup_(identity_clear)

/* NULL when not known. */
const char *identity_get(const struct identity *i, enum identity_field f);
/* How many hosts a list has; 0: it is not known. */
size_t identity_count(const struct identity *i, enum identity_field f);
/* "host-name", "slice-name", … */
const char *identity_field_name(enum identity_field f);
/* -EINVAL. */
int identity_field_parse(const char *name, enum identity_field *ret);
/*
 * The field that names the workers: worker-hostnames, or worker-addresses where these are alone or one
 * source says both, for addresses need no resolver.
 */
enum identity_field identity_workers(const struct identity *i);
/* -ENODATA when the field is not known. */
int identity_get_u32(const struct identity *i, enum identity_field f, uint32_t *ret);

/*
 * The host of "HOST", "HOST:PORT" or "[ADDRESS]:PORT", within text; more than one colon without brackets is
 * an address.
 */
const char *identity_host_of(const char *text, size_t len, size_t *ret_len);

/* What does not fit together (worker id not below the number of hosts, …) as findings; OK when all fits. */
int identity_check(const struct identity *i, struct finding_list *ret);
/* {"slice-name": {"value": …, "origin": …}, …}; fields not known are null. New reference. */
json_t *identity_to_json(const struct identity *i);
