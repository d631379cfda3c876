/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What agent_registry.c, agent_registry_judge.c and agent_registry_records.c share. */
#include "agent.h"
#include "registry.h"
#include "tls_files.h"

struct agent_registry {
        struct bus *bus;
        struct registry *registry; /* NULL: none, see why_not */
        enum registry_kind kind;
        bool by_itself; /* Kind=auto: nobody asked for this one by name */
        char endpoint[256], host[64], slice[64], address[256];
        char leader[256]; /* the collector that led last, also in an earlier life; empty: not known */
        unsigned worker;
        usec_t splay;
        char why_not[160]; /* why there is none; empty: none is wanted */
        struct tls_files tls; /* what it speaks TLS with */
        struct registry_status status;
        bool complete; /* all records have been told */
        char incarnation[17];
        sd_event_source *news;
        json_t *said; /* the member as it was said last; NULL: not yet */
        usec_t said_at, started; /* boot clock; said_at: the steps of runs */
        json_t *slice_record, *site_mode, *order; /* NULL: not told, or gone */
        unsigned run; /* of findings */
        bool conflict_told;
        struct agent_parts *parts; /* in agent_parts.c */
};

/* Forgets all records: another registry, another slice. */
void agent_registry_forget(struct agent_registry *g);
void agent_registry_record(const char *key, const json_t *value, void *userdata);
void agent_registry_complete(void *userdata);
/* What is ordered by the registry is in force here, and nothing else of it. */
void agent_registry_apply_orders(struct agent_registry *g);
/* The durable identity of this machine. */
const char *agent_registry_id(const struct bus *b);
/* The checks of the registry and of who this host is in it. */
void agent_registry_judge(struct agent_registry *g);
