/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that makes this host a member of a registry: it reports who this host is and what runs here,
 * obeys the registry's records (slice, orders, runs over slices), and does this host's parts in those runs.
 * A registry that is away changes nothing here. Checks: "enroll.registry", "enroll.identity". POST /v1/runs,
 * DELETE /v1/runs/NAME. Publishes BUS_REGISTRY, and BUS_RECORD for every record of this host and its slice.
 */
#include "part.h"
#include "registry.h"
#include "tls_files.h"

extern const struct part member_part;

/* As configuration and identity say. */
struct member {
        enum registry_kind kind;
        bool by_itself; /* Kind=auto: nobody asked for this one by name */
        bool in_the_clear; /* and who answers there could be anybody: it is not asked */
        unsigned worker;
        char endpoint[256], host[64], slice[64]; /* empty: not known */
        char why_not[160];                       /* why there is no registry; empty: none is wanted */
};
const struct member *member_of(const struct bus *b);
const char *member_incarnation(const struct bus *b);
/* The first address as it was reported last; empty: none was. */
const char *member_address(const struct bus *b);

/* The registry that this host joins; NULL: none. */
struct registry *member_registry(const struct bus *b);
/* The same where a collector is it, and took this host as member; else NULL. */
struct registry *member_collector(const struct bus *b);

/* One more value of a run's figures (docs/registry.md), for the next reports. NULL: not any more. The value
 * is taken over. */
void member_figure(const struct bus *b, const char *run, const char *key, json_t *value);
/* The figures as they are now go out with the next report. */
void member_report_now(const struct bus *b);

/* What this host measured of its pairs, for its member/ record from now on. The value is taken over. */
void member_say_pairs(const struct bus *b, json_t *value);
/* What it speaks TLS with, as a client. */
const struct tls_files *member_tls(const struct bus *b);

/* The record slice/ of this host's slice; NULL: none came. */
const json_t *member_slice_record(const struct bus *b);
/* The record run/NAME; borrowed, NULL: none came. */
const json_t *member_run_record(const struct bus *b, const char *name);
