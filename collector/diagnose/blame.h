/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is at fault, and why. Every host gets a score between 0 and 1 out of independent reasons (1 - Π(1 -
 * reason)), each with its weight of one table (weights.h); hosts with one come ranked, each with a sentence.
 * Who is at fault is where the waits of the others lead (graph.h). A host is named from BLAME_NAMED on:
 * below, it is shown as a hint.
 *
 * Pure, and the same whatever the order of captures, of hosts and of threads.
 */
#include "cores.h"
#include "departures.h"
#include "graph.h"
#include "paths.h"

#define BLAME_NAMED 0.5
#define BLAME_SENTENCE_MAX 1024u
#define BLAME_DETAILS_MAX 2048u
#define BLAME_SUSPECTS_MAX 64u

enum stall_state {
        RUN_UNKNOWN, /* it is taken for stalled, unless the captures show that it is not */
        RUN_STALLED,
        RUN_GOES_ON,
};

struct suspect {
        uint32_t host; /* of the evidence */
        double score;
        enum stall_kind kind; /* the gravest reason */
        uint32_t rank;        /* that the sentence speaks of; STACK_NONE: of the host */
        double parts[_KIND_MAX];
        bool moved, saves; /* that rank: other places in the two captures; it is in code that writes */
        const struct captured_core *core;
        const struct captured_finding *finding;
        const struct path_end *path;
        char sentence[BLAME_SENTENCE_MAX];
        char details[BLAME_DETAILS_MAX]; /* one line each */
};

enum outcome {
        OUTCOME_NAMED,
        OUTCOME_NOBODY,      /* it stalls, but no host stands out */
        OUTCOME_GOES_ON,     /* no stall */
        OUTCOME_WORKS,       /* no step, but no rank waits for another either: most of them do something */
        OUTCOME_OUTSIDE,     /* several hosts wait for one thing that is none of theirs */
        OUTCOME_NO_EVIDENCE, /* no capture of any rank */
        _OUTCOME_MAX,
};
const char *outcome_name(enum outcome o);

struct diagnosis {
        struct evidence evidence;
        struct cores cores;
        struct paths paths;
        struct wait_graph graph;
        bool *odd; /* of each host; NULL: nobody was judged */
        enum outcome outcome;
        struct suspect suspects[BLAME_SUSPECTS_MAX]; /* greatest score first; then by host */
        size_t n_suspects, n_odd;                    /* odd: hosts at which waits end, all of them */
        size_t n_waiting, n_stopped;                 /* ranks; waiting: for other ranks */
        struct departures left;
        size_t n_active;                  /* ranks that run, sleep or moved, in code of their own */
        uint32_t outside;                 /* string: what most of those wait for who wait for no rank */
        size_t n_outside;                 /* hosts that wait for it */
        char summary[BLAME_SENTENCE_MAX]; /* the whole in one sentence */
};
struct diagnosis *diagnosis_free(struct diagnosis *d);
DEFINE_CLEANUP(struct diagnosis *, diagnosis_free)

struct diagnose_options {
        const char *slice; /* NULL: all hosts of the scene */
        uint32_t hosts;    /* how many the slice has; 0: not known */
        enum stall_state run;
};
/* The scene is borrowed by the diagnosis. -ENOMEM, -E2BIG. */
int diagnose(const struct scene *s, const struct diagnose_options *o, struct diagnosis **ret);
