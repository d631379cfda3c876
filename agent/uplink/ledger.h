/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The account of a spool: which records are done with, and what of them was lost and not reported yet. Each
 * loss is counted once and each gap is reported until it is durable elsewhere, through kills and power cuts.
 *
 * File "ledger": two slots. It is on the disk before a file that it speaks of is removed and before a gap is
 * reported; how far was acknowledged is written without waiting for the disk: what a power cut takes of that
 * is delivered again. What was synced is never written over before the other slot is synced.
 */
#include "base.h"

/* Why records were lost. The first two happen in the spool, the others are its user's. */
enum spool_loss {
        SPOOL_BYTE_LIMIT,
        SPOOL_DAMAGED,
        SPOOL_MALFORMED,     /* refused with 400 */
        SPOOL_TOO_LARGE,     /* 413 */
        SPOOL_UNPROCESSABLE, /* 422 */
        SPOOL_IN_PART,       /* items of records that were taken: no record is counted */
        SPOOL_THINNED,
        _SPOOL_LOSS_MAX,
};

/*
 * Records that were lost for one reason: records of them, with items in all (of damaged ones: not known, 0),
 * at or between from_seq and to_seq, where others may have been delivered.
 */
struct spool_gap {
        uint64_t number; /* of this spool, from 1: reported twice, it has the same number and content */
        uint64_t from_seq, to_seq, records, items;
};

#define LEDGER_SETTLED_MAX 8
struct ledger_range {
        uint64_t from, to;
};

struct ledger {
        int dir_fd;      /* borrowed */
        int fd;          /* -1: to be opened */
        unsigned slot;   /* what the next write goes to; the other one is on the disk */
        bool changed;    /* not written */
        bool dirty;      /* losses in it that are not on the disk */
        bool syncing;    /* by ledger_begin(): nothing is written meanwhile */
        bool lost_since; /* since ledger_begin() */
        uint64_t spool_id, serial, next_gap;
        uint64_t acked; /* everything up to it is done with */
        uint64_t held;  /* spool_hold() */
        struct ledger_range settled[LEDGER_SETTLED_MAX]; /* behind acked: rising, not adjoining */
        size_t n_settled;
        struct spool_gap open[_SPOOL_LOSS_MAX], closed[_SPOOL_LOSS_MAX]; /* number of closed 0: none */
};

/*
 * Reads the ledger of this spool, or makes an empty one. spool_id 0: of whatever spool it is, which then
 * stands in l->spool_id (0: there is none). -EPROTONOSUPPORT: a newer version wrote it. l->fd is the
 * caller's to close.
 */
int ledger_open(struct ledger *l, int dir_fd, uint64_t spool_id);
/* Writes what has changed, if anything; does not wait for the disk. */
int ledger_save(struct ledger *l);
/* Writes and syncs, in the calling thread. */
int ledger_sync(struct ledger *l);
/*
 * The same in two halves: ledger_begin() gives a descriptor of the caller's own to fdatasync (-errno: try
 * again later; -EBUSY: one is at work), ledger_end() takes the result.
 */
int ledger_begin(struct ledger *l, int *ret_fd);
void ledger_end(struct ledger *l, int result);

/* The first number from seq on that is not done with. */
uint64_t ledger_next(const struct ledger *l, uint64_t seq);
/* How many numbers of from … to are done with behind acked. */
uint64_t ledger_count(const struct ledger *l, uint64_t from, uint64_t to);
/* Whether it can be remembered that seq is done with before older ones; one place is the byte limit's. */
bool ledger_may_add(const struct ledger *l, uint64_t seq);
/* -ENOSPC: the list is full. */
int ledger_add(struct ledger *l, uint64_t from, uint64_t to);
/* Everything up to seq is done with, and what adjoins. */
void ledger_advance(struct ledger *l, uint64_t seq);

void ledger_lose(struct ledger *l, enum spool_loss why, const struct spool_gap *lost);
/* What was lost of record seq, an array by enum spool_loss; NULL: nothing. */
void ledger_lose_of(struct ledger *l, uint64_t seq, const struct spool_gap *lost);
/* The numbers behind acked and before seq that are not done with are damage. */
void ledger_lose_before(struct ledger *l, uint64_t seq);

/*
 * Gives open gaps their numbers, where the gap before of the same reason was reported; they do not change
 * any more, and may be reported when ledger_end() had a good result. False: there are none.
 */
bool ledger_close_gaps(struct ledger *l);
/* Whether there are any, open or closed. */
bool ledger_has_gaps(const struct ledger *l);
/* The closed one of a reason, NULL for none. */
const struct spool_gap *ledger_gap(const struct ledger *l, enum spool_loss why);
/* It is durable elsewhere and is forgotten here. */
void ledger_told(struct ledger *l, enum spool_loss why);
