/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the collector knows, in SQLite (WAL, synchronous=FULL): hosts, series of points (milliseconds) and
 * their latest values, events, and which pushes it has already. Writing is store_begin() … store_commit():
 * when store_commit() returned 0, all of it is on the disk and survives a power cut; otherwise none of it is
 * there.
 *
 * Times are of the real clock. Records arrive in any order (an agent sends its current state before its
 * backlog), so that whatever is "the latest" goes by the time of the data, never by arrival. A time in the
 * future counts as now.
 *
 * Errors: -ENOSPC, -EROFS, -EIO, -EBUSY, -ENOMEM, -EUCLEAN (damaged or no database), -ENOTRECOVERABLE
 * (refused, see why); store_error() says it in SQLite's words.
 */
#include "base.h"
#include "events.h"

/* The host that the collector's own events are of. No list of hosts shows it. */
#define STORE_OWN_NAME "tpu-collectord"
#define STORE_SCHEMA      9          /* user_version of the database */
#define STORE_APPLICATION 0x54505543 /* application_id: "TPUC" */
#define STORE_SERIES_MAX  10000      /* series one host may have */
#define STORE_ROWS_OF_PUSH 1024      /* times further apart than a minute, one after the other */
#define STORE_PARTS_OF_PUSH 64       /* starts of runs that lines of one push are the first of */
#define STORE_PARTS_EMPTY 1000       /* starts of runs of a host that are known when their lines are gone */
#define STORE_LINE_LEAST  32         /* bytes that a line counts as at least, of all together */
#define STORE_HOSTS_MAX   100000     /* hosts of one database; one of which nothing is kept is forgotten */
#define STORE_RANGES_MAX  1024       /* runs of sequence numbers kept of one spool, class and sender */
#define STORE_RANGES_OF_HOST 8192    /* the same of all spools of a host */
#define STORE_PAGE        4096       /* bytes of a page, of new databases */

struct store;

/*
 * Opens or makes the database. A newer schema is used when it says that this program may
 * (meta.oldest_reader), else refused and left as it is; so is a database that is not ours. A damaged file,
 * and one of an older schema, is moved to ret_aside ("" when there was none), and a new one made. why gets
 * a sentence with what to do.
 */
int store_open(const char *path, struct store **ret, char ret_aside[static 300], char why[static 256]);
struct store *store_free(struct store *s);
DEFINE_CLEANUP(struct store *, store_free)
/* Of the last failure. Borrowed until the next call. */
const char *store_error(const struct store *s);

/* --- Writing --------------------------------------------------------------------------------------- */

int store_begin(struct store *s);
int store_commit(struct store *s);
/* Drops what was written since store_begin(). Does nothing without one. */
void store_rollback(struct store *s);
#define STORE_WHY_MAX 256
/* The end of all of it: commits where r, which the writing has come to, is no error; else, or where that
 * fails, drops it. 0, or -errno with why in words (STORE_WHY_MAX bytes; may be NULL). */
int store_finish(struct store *s, int r, char *why);
/* A part of the transaction that may be undone alone: store_mark(), then store_keep() or store_undo(). */
int store_mark(struct store *s);
int store_keep(struct store *s);
int store_undo(struct store *s);

/*
 * One push of an agent's spool, and who sends it: a spool may be on two disks, or on one that was put back
 * to an earlier day. So the same number of another host, or of another boot, is another push.
 */
struct store_record {
        char spool[17]; /* 16 hex digits, lower case */
        char class[32];
        uint64_t seq; /* 1 … INT64_MAX */
        const char *host, *boot, *machine; /* as the push states them; borrowed; empty: not given */
};
/*
 * 0: was stored before. Else it is new, and from now on known: one more of a run of numbers, the first of a
 * run, or the first at all of this spool, class and sender. Known numbers are kept as runs, so that a spool
 * read in order is one row. Beyond STORE_RANGES_MAX runs the lowest is forgotten, and of a host with more
 * than STORE_RANGES_OF_HOST the oldest: what was in it is new when it comes again.
 */
enum { STORE_KNOWN_RUN = 1, STORE_NEW_RUN, STORE_FIRST_RECORD };
int store_take_record(struct store *s, const struct store_record *record, usec_t now);
/* Of one that is the first of a run, or (first) of its sender: how it clashes with what others have sent of
 * its spool, and with whom. */
enum store_clash {
        STORE_NO_CLASH,
        STORE_SHARED,    /* two hosts have the spool: a copied disk */
        STORE_WENT_BACK, /* the host has sent this number in another boot: an earlier state of its disk */
};
#define STORE_HOST_MAX 257
int store_record_clash(struct store *s, const struct store_record *r, bool first, enum store_clash *ret,
                       char ret_host[static STORE_HOST_MAX]);

/* The host of this name, made when it is new; *ret is valid in this transaction. now 0: it is not
 * there itself, and store_list_hosts() passes it over until it is. -EDQUOT: STORE_HOSTS_MAX are known. */
int store_find_host(struct store *s, const char *name, usec_t now, int64_t *ret);

struct store_identity { /* NULL, or -1: the agent does not know */
        const char *slice, *accelerator_type, *version, *boot_id, *machine;
        int64_t worker_id;
};
/* The host's own agent was heard at now, with this identity in data of time newest. */
int store_agent_seen(struct store *s, int64_t host, const struct store_identity *i, usec_t newest,
                     usec_t now);
/*
 * Before store_agent_seen(): when the host is new, or in another boot, 1 and the name of another host that
 * was heard within STORE_TWIN_AGE, is in another boot, and has the same machine id; 0: there is none.
 */
#define STORE_TWIN_AGE (5 * 60 * USEC_PER_SEC)
int store_find_twin(struct store *s, int64_t host, const struct store_identity *i, usec_t newest, usec_t now,
                    char ret[static STORE_HOST_MAX]);
/* Something else on the host was heard. Moves last_seen only for hosts without an agent. */
int store_other_seen(struct store *s, int64_t host, usec_t now);

struct store_metric {
        const char *service, *name, *attributes /* canonical JSON; NULL when the key is known */, *unit;
        const void
                *key; /* bytes that only this series is named with, for store_knows_series(); NULL: none */
        size_t key_len;
        bool is_int;
        int64_t i;
        double d;
        usec_t time;
};
/* Whether a point with this key may come without attributes. */
bool store_knows_series(struct store *s, const void *key, size_t len);
/*
 * -EDQUOT: the host has STORE_SERIES_MAX series, and this is another; or STORE_ROWS_OF_PUSH. Points of one
 * host in a row share a row of the database: store_end_points() (or a point of another host) writes it.
 * -EUSERS: so many rows of this host lie at this time that there is no place for one more.
 */
int store_add_point(struct store *s, int64_t host, const struct store_metric *m);
int store_end_points(struct store *s);

struct store_event {
        const char *service, *name, *body, *attributes; /* the last two are JSON */
        unsigned severity;
        usec_t time, received;
};
/* The slice and worker of the event are the host's at this moment, or the identity's when given. */
int store_add_event(struct store *s, int64_t host, const struct store_identity *i,
                    const struct store_event *e);

/*
 * An event of the collector's own: its sentence is the body, its fields are the attributes. host: whom it is
 * about, "": the collector; slice may be "". Inside a transaction. 1; 0: as many hosts are known as may be.
 */
int store_own_event(struct store *s, const struct event *e, const char *host, const char *slice,
                    int64_t worker, usec_t now);
/* The same in a transaction of its own: 1, -errno. */
int store_event_alone(struct store *s, const struct event *e, const char *host, const char *slice,
                      int64_t worker, usec_t now);

/*
 * A line that a run printed. The lines of one start of a run on a host (its invocation) are numbered from 1:
 * one that is not above the last known is a repeat, and dropped; numbers that are left out are lines that
 * were lost before.
 */
struct store_line {
        const char *run, *invocation, *text;
        const char *slice; /* NULL: not known */
        int64_t worker_id, generation; /* -1: not known */
        int64_t number;
        unsigned priority; /* of syslog, 0 … 7 */
        usec_t time;
};
/* 1: stored; 0: a repeat. -EDQUOT: STORE_PARTS_OF_PUSH. */
int store_add_line(struct store *s, int64_t host, const struct store_line *line, usec_t now);

/* A record of the registry; value NULL: it is forgotten. */
int store_put_registry(struct store *s, const char *key, const char *value);

/* Parts of the host's row, each with the time of its data. */
int store_set_state(struct store *s, int64_t host, const char *state, usec_t time);
int store_set_reasons(struct store *s, int64_t host, const char *reasons, usec_t time);
int store_set_step(struct store *s, int64_t host, const char *run, int64_t step, usec_t time);

/* --- Reading --------------------------------------------------------------------------------------- */

/*
 * Texts are borrowed inside the visitor; NULL, and -1 of numbers: not known. A visitor's non-zero answer
 * ends the reading and is returned.
 */

struct store_host {
        int64_t id;
        const char *name, *slice, *accelerator_type, *version, *boot_id, *state, *reasons, *run;
        int64_t worker_id, step;
        usec_t first_seen, last_seen, newest; /* newest: time of the newest data of its agent; 0: none */
};
/* The one of this name, or (NULL) all, as they came. */
int store_list_hosts(struct store *s, const char *name,
                     int (*visit)(const struct store_host *h, void *userdata), void *userdata);

struct store_value {
        struct store_metric metric; /* without key; d may be NaN or infinite */
};
/* The latest values, sorted by name, attributes, service. */
int store_list_metrics(struct store *s, int64_t host,
                       int (*visit)(const struct store_value *v, void *userdata), void *userdata);

struct store_series_filter {
        const char *host, *name;
        usec_t since, until; /* since <= time < until */
        size_t limit;        /* points of all series together */
};
struct store_past { /* a series, or one of its points */
        bool is_point;
        const char *name, *attributes, *service, *unit;
        usec_t time;
        bool is_int;
        int64_t i;
        double d;
};
/* Each series of this name that the host has, then its points in the order of time. -ENOENT: no such host.
 * *ret_cut: limit ended it. */
int store_list_past(struct store *s, const struct store_series_filter *f,
                    int (*visit)(const struct store_past *p, void *userdata), void *userdata, bool *ret_cut);

/* The registry's records, sorted by key. */
int store_list_registry(struct store *s, int (*visit)(const char *key, const char *value, void *userdata),
                        void *userdata);

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
/* The id in front of the first event received at `time` or later: for filter.since. */
int store_event_before(struct store *s, usec_t time, int64_t *ret);

struct store_line_filter {
        const char *run;
        const char *host, *slice; /* NULL: any */
        int64_t worker;           /* -1: any */
        int64_t since, limit;     /* as of struct store_event_filter */
};
struct store_line_row {
        int64_t id, missing; /* missing: lines of this part that were lost in front of this one */
        const char *host;
        struct store_line line;
};
int store_list_lines(struct store *s, const struct store_line_filter *f,
                     int (*visit)(const struct store_line_row *l, void *userdata), void *userdata);
/* Those of all runs with an id above since, the oldest first. */
int store_list_all_lines(struct store *s, int64_t since, int64_t limit,
                         int (*visit)(const struct store_line_row *l, void *userdata), void *userdata);
/* The runs with lines that are, or lately were, kept. */
int store_list_runs(struct store *s, int (*visit)(const char *run, void *userdata), void *userdata);
/* The bytes of all lines that are kept. */
int store_line_bytes(struct store *s, uint64_t *ret);

/* --- Keeping it small ------------------------------------------------------------------------------ */

struct store_retention {
        uint32_t days;       /* points and events are dropped after that */
        uint64_t line_bytes; /* of the lines of runs, their texts: the oldest go; STORE_LINE_LEAST */
        uint64_t bytes;      /* of used pages; the oldest points go first, events last */
};
/*
 * One piece of work, a few milliseconds: old events, and the series of one host after the other. To be
 * called again and again; ret_hosts says how many there are, so that a round has its time.
 */
int store_tend(struct store *s, const struct store_retention *retention, usec_t now, unsigned *ret_hosts);
/* The last piece left work that is not to wait for its turn. */
bool store_is_behind(const struct store *s);
/*
 * More came than could be removed: it is twice as large as retention.bytes, or as it was when it was opened.
 * Nothing more is to be written than what makes it smaller.
 */
bool store_is_full(const struct store *s);
/* Up to which time it was tended, as the database has it; 0: not known. */
int store_tended(struct store *s, usec_t *ret);

struct store_size {
        uint64_t file, used; /* bytes; used: without free pages */
        double squeeze;      /* what bytes leaves of the age of points, 0 … 1 */
        uint64_t damaged_rows;
};
int store_size(struct store *s, struct store_size *ret);

/*
 * After -EUCLEAN: closes the database, moves its files aside (path.damaged, at most two of them are kept)
 * and makes a new one. The store is usable afterwards; when this fails it is not, and the program has to
 * end.
 */
int store_start_over(struct store *s, char ret_aside[static 300], char why[static 256]);
