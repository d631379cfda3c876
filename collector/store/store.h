/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector knows, in SQLite (WAL, synchronous=FULL): hosts, the latest value of every series,
 * events, and which pushes it has already. Writing is store_begin() … store_commit(): when store_commit()
 * returned 0, all of it is on the disk and survives a power cut; otherwise none of it is there.
 *
 * Times are of the real clock. Records arrive in any order (an agent sends its current state before its
 * backlog), so that whatever is "the latest" goes by the time of the data, never by arrival. A time in the
 * future counts as now.
 *
 * Errors: -ENOSPC, -EROFS, -EIO, -EBUSY, -ENOMEM, -EUCLEAN (damaged or no database), -ENOTRECOVERABLE
 * (refused, see why); store_error() says it in SQLite's words.
 */
#include "base.h"

#define STORE_SCHEMA 1               /* user_version of the database */
#define STORE_APPLICATION 0x54505543 /* application_id: "TPUC" */
#define STORE_SERIES_MAX 10000       /* series one host may have */
#define STORE_HOSTS_MAX 100000       /* hosts of one database */
#define STORE_RANGES_MAX 1024        /* runs of sequence numbers kept of one spool and class */

struct store;

/*
 * Opens or makes the database. A newer schema is used when it says that this program may
 * (meta.oldest_reader), else refused and left as it is; so is a file that is not ours. why gets a sentence
 * with what to do.
 */
int store_open(const char *path, struct store **ret, char why[static 256]);
struct store *store_free(struct store *s);
DEFINE_CLEANUP(struct store *, store_free)
/* Of the last failure. Borrowed until the next call. */
const char *store_error(const struct store *s);

/* --- Writing --------------------------------------------------------------------------------- */

int store_begin(struct store *s);
int store_commit(struct store *s);
/* Drops what was written since store_begin(). Does nothing without one. */
void store_rollback(struct store *s);
/* A part of the transaction that may be undone alone: store_mark(), then store_keep() or store_undo(). */
int store_mark(struct store *s);
int store_keep(struct store *s);
int store_undo(struct store *s);

/* One push of an agent's spool. */
struct store_record {
        char spool[17]; /* 16 hex digits, lower case */
        char class[32];
        uint64_t seq; /* 1 … INT64_MAX */
};
/*
 * 1: new, and from now on known; 0: was stored before. Known numbers are kept as runs, so that a spool read
 * in order is one row. Beyond STORE_RANGES_MAX runs the lowest gap is closed: what was in it would be taken
 * for a repeat.
 */
int store_take_record(struct store *s, const struct store_record *record, usec_t now);

/* The host of this name, made when it is new; *ret is valid in this database for good. -EDQUOT:
 * STORE_HOSTS_MAX are known. */
int store_find_host(struct store *s, const char *name, usec_t now, int64_t *ret);

struct store_identity { /* NULL, or -1: the agent does not know */
        const char *slice, *accelerator_type, *version, *boot_id;
        int64_t worker_id;
};
/* The host's own agent was heard at now, with this identity in data of time newest. */
int store_agent_seen(struct store *s, int64_t host, const struct store_identity *i, usec_t newest,
                     usec_t now);
/* Something else on the host was heard. Moves last_seen only for hosts without an agent. */
int store_other_seen(struct store *s, int64_t host, usec_t now);

struct store_metric {
        const char *service, *name, *attributes /* canonical JSON */, *unit;
        bool is_int;
        int64_t i;
        double d;
        usec_t time;
};
/* -EDQUOT: the host has STORE_SERIES_MAX series, and this is another. An older value than the known one is
 * dropped silently. */
int store_set_metric(struct store *s, int64_t host, const struct store_metric *m);

struct store_event {
        const char *service, *name, *body, *attributes; /* the last two are JSON */
        unsigned severity;
        usec_t time, received;
};
/* The slice and worker of the event are the host's at this moment, or the identity's when given. */
int store_add_event(struct store *s, int64_t host, const struct store_identity *i,
                    const struct store_event *e);

/* Parts of the host's row, each with the time of its data. */
int store_set_state(struct store *s, int64_t host, const char *state, usec_t time);
int store_set_reasons(struct store *s, int64_t host, const char *reasons, usec_t time);
int store_set_step(struct store *s, int64_t host, const char *job, int64_t step, usec_t time);

/* --- Reading --------------------------------------------------------------------------------- */

/*
 * Texts are borrowed inside the visitor; NULL, and -1 of numbers: not known. A visitor's non-zero answer ends the
 * reading and is returned.
 */

struct store_host {
        int64_t id;
        const char *name, *slice, *accelerator_type, *version, *boot_id, *state, *reasons, *job;
        int64_t worker_id, step;
        usec_t first_seen, last_seen;
};
/* Sorted by slice (none last), worker (none last), name. name NULL: all. */
int store_list_hosts(struct store *s, const char *name,
                     int (*visit)(const struct store_host *h, void *userdata), void *userdata);

struct store_value {
        struct store_metric metric;
        bool is_null; /* NaN */
};
/* Sorted by name, attributes, service. */
int store_list_metrics(struct store *s, int64_t host,
                       int (*visit)(const struct store_value *v, void *userdata), void *userdata);

struct store_event_filter {
        const char *host, *slice, *name; /* NULL: any */
        int64_t since; /* events with an id above, oldest first; -1: the latest ones, newest first */
        int64_t limit;
};
struct store_event_row {
        int64_t id, worker_id;
        const char *host, *slice;
        struct store_event event;
};
int store_list_events(struct store *s, const struct store_event_filter *f,
                      int (*visit)(const struct store_event_row *e, void *userdata), void *userdata);
