/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The state of the part "member", and what its files do for each other. */
#include "member.h"
#include "run_parts.h"
#include "tls_files.h"
#include "worker_names.h"

struct member_state {
        struct bus *bus;
        unsigned source, round; /* of its findings */
        bool up;                /* started, and not stopped: before and behind that, news are not for it */
        struct member who;
        struct registry *registry; /* NULL: none, see who.why_not */
        struct tls_files tls;      /* what it speaks TLS with */
        struct registry_status status;
        bool complete; /* all records have come */
        bool conflict_reported;
        char leader[256]; /* the collector that led last, also in an earlier life; empty: not known */
        char incarnation[34]; /* docs/registry.md */
        sd_event_source *news; /* a report is due */
        json_t *said;          /* the member/ record as it was reported last; NULL: not yet */
        usec_t said_at, started; /* boot clock; said_at: the steps of runs */
        json_t *figures;         /* run -> key -> what member_figure() gave; NULL: nothing */
        json_t *pairs;           /* member_say_pairs(); NULL: nothing was measured */
        json_t *slice_record, *site_mode, *order; /* NULL: none came, or it is gone */
        struct run_parts runs;
        struct worker_names *looking; /* at the names of the workers; NULL: not now */
        struct finding names;         /* what the last look found; no check name: there was none */
        usec_t looked;
        bool clock_known;
        int64_t clock_ahead; /* of the collector's, half a second more or less */
};

/* The calls of run_calls.c. */
extern const struct part_route run_calls[];

/* member_checks.c: all of them anew. */
void member_judge(struct member_state *m);

/* member_records.c */
/* Reports soon what is reported of this host, where that has changed. */
void member_report_soon(struct member_state *m);
/* In the tick: how far the runs of this host are. member_figures.c, as what follows. */
void member_report_figures(struct member_state *m);
void member_keep_figure(struct member_state *m, const char *run, const char *key, json_t *value);
/* The durable identity of this machine: the instance id, else the machine id. */
const char *member_machine(const struct bus *b);
/* Two callbacks of the registry (registry.h); userdata: the state. */
void member_record(const char *key, const json_t *value, void *userdata);
void member_complete(void *userdata);
/* What is ordered by the registry is in force here, and nothing else of it. */
void member_apply_orders(struct member_state *m);
/* Forgets all records: another registry, another slice. */
void member_forget(struct member_state *m);
int member_start_news(struct member_state *m);
