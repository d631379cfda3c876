/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Points that go to another store: rows of table samples that were not handed on yet. They are noted in
 * the transaction that writes them, and no copy is made: what retention removes is not handed on any more.
 * Rows are read host by host, the oldest of each first. Events and lines go in the order in which they came:
 * what was handed on of them is a position each.
 */
#include "store.h"

/* From now on rows are noted, or no longer. What was noted stays. */
void store_hand_over(struct store *s, bool on);

struct handed_point {
        int64_t host, series, ms;
        bool is_int;
        int64_t i;
        double d; /* also set when is_int */
};
struct handover {
        int64_t *rows; /* out of which the points are */
        size_t n_rows, size_rows;
        struct handed_point *points;
        size_t n, size;
        int64_t through; /* where the next one goes on */
        bool end;        /* no more behind these: the next one begins at 0 */
};
void handover_clear(struct handover *h);
#define _cleanup_handover_ _cleanup_(handover_clear)
/* -ENOMEM. */
int handover_add(struct handover *h, const struct handed_point *p);

/*
 * Rows behind `after`, until there are rows_max of them or at least points_max points. ret is emptied first;
 * after a failure it is empty.
 */
int store_read_handover(struct store *s, int64_t after, size_t rows_max, size_t points_max,
                        struct handover *ret);
/* The rows of h are handed on, or given up: they are forgotten, durably. A transaction of its own. */
int store_forget_handover(struct store *s, const struct handover *h);

struct handed_series {
        /* of the host; NULL and -1: not known */
        const char *host, *slice, *accelerator_type, *version;
        int64_t worker_id;
        const char *name, *attributes, *service, *unit; /* as struct store_metric */
        const struct handed_point *points; /* the oldest first, each time once */
        size_t n;
};
/* Sorts h. Each series of each host; texts are borrowed inside. One that is not known any more is passed
 * over. */
int store_show_handover(struct store *s, struct handover *h,
                        int (*visit)(const struct handed_series *one, void *userdata), void *userdata);

struct handover_state {
        uint64_t waiting; /* rows that wait: pushes of hosts, more or less */
        uint64_t expired; /* rows that retention removed before they were handed on, since the start */
};
int store_handover_state(struct store *s, struct handover_state *ret);

/* In table meta: handed_events and handed_lines. */
enum handed_records { HANDED_EVENTS, HANDED_LINES, _HANDED_MAX };
/* The id up to which they were handed on. The first time it is the last that there is: only what comes from
 * then on goes. */
int store_handed(struct store *s, enum handed_records what, int64_t *ret);
/* All up to id are handed on, or given up: durably, in a transaction of its own. */
int store_set_handed(struct store *s, enum handed_records what, int64_t id);
/* How many wait; 0 of those that were never to be handed on. */
int store_records_waiting(struct store *s, enum handed_records what, uint64_t *ret);
