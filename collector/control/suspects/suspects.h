/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hosts that fail again and again, out of the events of the store.
 *
 * The principle: one trouble is nobody's habit. A report counts by its gravity, which is 1 at most, and half
 * as much after three days. A suspect has SUSPECTS_SCORE, so two reports at least. What is reported of one
 * run again and again, or of no run within a day, is one report of each kind. What a program does to itself
 * (its exit code, its memory) is no report about the host that it ran on. Nor is what is older than 14 days.
 *
 * An event is about the host that it is stored under: the sender of an agent's, as its certificate names it,
 * and whom the collector itself means in its own. So no host can accuse another one.
 *
 * What it costs: each event is read once. A call reads behind what was read before, at most
 * SUSPECTS_READ_MAX events of each kind, so that a full store is read piece by piece. What is kept is
 * bounded: SUSPECTS_HOSTS_MAX hosts, SUSPECTS_REPORTS_MAX reports of each; the oldest make room.
 */
#include <jansson.h>

#include "store.h"

#define SUSPECTS_SCORE       1.5
#define SUSPECTS_READ_MAX    1000
#define SUSPECTS_HOSTS_MAX   16384
#define SUSPECTS_REPORTS_MAX 16
#define SUSPECTS_KINDS       9
#define SUSPECTS_KEPT        (5 * USEC_PER_SEC) /* how long suspects_words() stay as they are */

struct suspects;

int suspects_new(struct suspects **ret);
struct suspects *suspects_free(struct suspects *s);
DEFINE_CLEANUP(struct suspects *, suspects_free)
/* The store was replaced: it is read from its beginning. NULL is none. */
void suspects_forget(struct suspects *s);

/* Reads on. 0: all is read; 1: there is more, for the next call; the store's error, -ENOMEM. */
int suspects_read(struct suspects *s, struct store *store, usec_t now);

struct suspect_host {
        const char *host, *slice; /* borrowed until more is read; slice NULL: not known */
        int64_t worker;           /* -1: not known */
        double score;
        unsigned runs; /* that the reports are about */
        usec_t first;  /* when the oldest report came */
        size_t n_reports;
        struct suspect_report {
                const char *name, *noun; /* of the event; what one is called: "confirmed stall" */
                unsigned count;
                usec_t last;   /* the time of the newest */
                int64_t event; /* its id */
        } reports[SUSPECTS_KINDS];
};
/* Of what was read: the worst first. free() the list, which is NULL where there is none. -ENOMEM. */
int suspects_list(const struct suspects *s, usec_t now, struct suspect_host **ret, size_t *ret_n);

/* Reads on, too: each suspect with words why ({"h3": "2 confirmed stalls in 3 days"}), SUSPECTS_KEPT old at
 * most where the store can be read. NULL: not known. Borrowed until the next call; never altered. */
const json_t *suspects_words(struct suspects *s, struct store *store, usec_t now);
