/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Client of the metadata server in an sd-event loop. It asks for the network interfaces, the machine type,
 * the name and what is said of the slice, then waits for changes of the interfaces and of tpu-env
 * (wait_for_change with the ETag), upon which it asks again, and tells each change. Beside that it follows
 * instance/preempted, instance/maintenance-event and instance/upcoming-maintenance. An attribute that the
 * server does not have is looked for again after one wait, then after twice as many as before, ten at most.
 * It never blocks, never asks DNS (the server is an address) and never gives up: what fails is tried again
 * after a random wait of up to 30 s, once a minute at most when the server has long been away.
 *
 * The environment variables GCE_METADATA_HOST and GCE_METADATA_IP are not read: an address
 * other than the well-known one is configuration.
 */
#include <systemd/sd-event.h>

#include "metadata_facts.h"

#define METADATA_ADDRESS "169.254.169.254" /* Google Compute Engine documentation, "About VM metadata" */
#define METADATA_WAIT    (60 * USEC_PER_SEC)

enum metadata_notice {
        METADATA_PREEMPTION, /* instance/preempted is TRUE: 30 s are left (Compute Engine, Spot) */
        METADATA_MAINTENANCE, /* instance/maintenance-event is not NONE: 60 s are left */
        /* instance/upcoming-maintenance plans one, days ahead; reported again when the plan changes */
        METADATA_UPCOMING,
        _METADATA_NOTICE_MAX,
};
/* "preemption", "maintenance", "upcoming-maintenance" */
const char *metadata_notice_name(enum metadata_notice n);

struct metadata_options {
        const char *address; /* copied, as all texts: "ADDRESS", "ADDRESS:PORT" or "[ADDRESS]:PORT" */
        const char *user_agent;
        usec_t wait; /* of one wait for a change, whole seconds; 0: METADATA_WAIT */
        /* The server said something new: the interfaces at once, the rest together when it is settled. */
        void (*changed)(const struct metadata_facts *f, void *userdata);
        /* An answer of it was none: said once for each reason until an answer is good again. */
        void (*failed)(const char *why, void *userdata);
        /*
         * Something is to happen to this host, or no longer; may be NULL. text: the server's word,
         * printable; of what is upcoming metadata_facts.h's.
         */
        void (*notice)(enum metadata_notice kind, bool ahead, const char *text, void *userdata);
        void *userdata;
};

struct metadata_status {
        bool known; /* the interfaces were answered since start */
        bool answering; /* the last question was answered */
        char why[192]; /* what failed last; empty while answering */
};

struct metadata;
/* -EINVAL: the address is none. */
int metadata_new(sd_event *e, const struct metadata_options *o, struct metadata **ret);
struct metadata *metadata_free(struct metadata *m);
DEFINE_CLEANUP(struct metadata *, metadata_free)
void metadata_get_status(const struct metadata *m, struct metadata_status *ret);

/* Whether text is an address that metadata_options takes: an IP address, with a port or without, no name. */
bool metadata_address_is_valid(const char *text);
