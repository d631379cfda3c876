/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>

#include "crc32c.h"
#include "ledger.h"
#include "segment_file.h"

#define LEDGER_MAGIC 0x4c555054u /* "TPUL" */
#define LEDGER_VERSION 1
#define SLOT_STRIDE 4096

/* A slot counts when its checksum does, the one with the higher serial first. */
struct slot {
        uint32_t magic;
        uint16_t version, size; /* of the slot in bytes: these first 16 stay in every version */
        uint32_t crc, zero;     /* crc32c of the 8 bytes before and of what follows zero, up to size */
        uint64_t spool_id, serial, acked, next_gap, held;
        struct ledger_range settled[LEDGER_SETTLED_MAX]; /* from is 0 behind the last one */
        struct spool_gap open[_SPOOL_LOSS_MAX], closed[_SPOOL_LOSS_MAX];
};
static_assert(sizeof(struct slot) == 16 + 40 + 128 + 2 * 7 * 40, "written as it is");
static_assert(sizeof(struct slot) <= SLOT_STRIDE, "slots do not touch");

static uint32_t slot_crc(const struct slot *t, size_t size) {
        return crc32c(crc32c(0, t, offsetof(struct slot, crc)), (const uint8_t *) t + 16, size - 16);
}

/* 1: good; 0: nothing, or damaged; -EPROTONOSUPPORT. */
static int slot_read(int fd, unsigned which, struct slot *ret) {
        union {
                struct slot t;
                uint8_t bytes[SLOT_STRIDE];
        } u = { 0 };

        if (segment_pread(fd, &u.t, sizeof(u.t), which * SLOT_STRIDE) < 0 || u.t.magic != LEDGER_MAGIC ||
            u.t.size < 16 || u.t.size > SLOT_STRIDE)
                return 0;
        if (u.t.version > LEDGER_VERSION) {
                (void) segment_pread(fd, u.bytes, u.t.size, which * SLOT_STRIDE);
                return u.t.crc == slot_crc(&u.t, u.t.size) ? -EPROTONOSUPPORT : 0;
        }
        if (u.t.version != LEDGER_VERSION || u.t.size != sizeof(u.t) || u.t.serial > UINT64_MAX / 2 ||
            u.t.crc != slot_crc(&u.t, sizeof(u.t)))
                return 0;
        *ret = u.t;
        return 1;
}

static void slot_take(struct ledger *l, const struct slot *t) {
        l->spool_id = t->spool_id;
        l->serial = t->serial;
        l->held = t->held;
        l->next_gap = MAX(t->next_gap, (uint64_t) 1);
        memcpy(l->open, t->open, sizeof(l->open));
        memcpy(l->closed, t->closed, sizeof(l->closed));
        for (size_t i = 0; i < LEDGER_SETTLED_MAX && t->settled[i].from > 0; i++)
                if (t->settled[i].to > t->acked && t->settled[i].from <= t->settled[i].to &&
                    t->settled[i].to <= UINT64_MAX / 2)
                        (void) ledger_add(l, t->settled[i].from, t->settled[i].to);
        ledger_advance(l, MIN(t->acked, UINT64_MAX / 2));
}

static int open_file(struct ledger *l) {
        if (l->fd >= 0)
                return 0;
        l->fd = openat(l->dir_fd, "ledger", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (l->fd >= 0 || errno != ENOENT)
                return l->fd >= 0 ? 0 : -errno;
        l->fd = openat(l->dir_fd, "ledger", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (l->fd < 0)
                return -errno;
        /* so that a full disk does not keep us from writing it; where this fails, the write will say so */
        (void) posix_fallocate(l->fd, 0, 2 * SLOT_STRIDE);
        return fsync(l->dir_fd) < 0 ? -errno : 0;
}

int ledger_open(struct ledger *l, int dir_fd, uint64_t spool_id) {
        struct slot best = { 0 }, t;
        int r;

        *l = (struct ledger) { .dir_fd = dir_fd, .fd = -1, .spool_id = spool_id, .next_gap = 1 };
        r = open_file(l);
        for (unsigned i = 0; r >= 0 && i < 2; i++) {
                r = slot_read(l->fd, i, &t);
                if (r > 0 && t.serial > best.serial && (spool_id == 0 || t.spool_id == spool_id)) {
                        best = t;
                        l->slot = i ^ 1;
                }
        }
        if (r < 0)
                return r;
        if (best.serial > 0) {
                if (fdatasync(l->fd) < 0) /* it must not be lost to the next write of the other slot */
                        return -errno;
                slot_take(l, &best);
        }
        l->changed = false;
        return 0;
}

static int write_slot(struct ledger *l) {
        struct slot t = {
                .magic = LEDGER_MAGIC,
                .version = LEDGER_VERSION,
                .size = sizeof(t),
                .spool_id = l->spool_id,
                .serial = l->serial + 1,
                .acked = l->acked,
                .next_gap = l->next_gap,
                .held = l->held,
        };
        ssize_t n;
        int r;

        if (l->syncing)
                return -EBUSY;
        r = open_file(l);
        if (r < 0)
                return r;
        memcpy(t.settled, l->settled, l->n_settled * sizeof(*l->settled));
        memcpy(t.open, l->open, sizeof(t.open));
        memcpy(t.closed, l->closed, sizeof(t.closed));
        t.crc = slot_crc(&t, sizeof(t));
        n = pwrite(l->fd, &t, sizeof(t), (off_t) l->slot * SLOT_STRIDE);
        if (n != sizeof(t))
                return n < 0 ? -errno : -EIO;
        l->serial++;
        l->changed = false;
        return 0;
}

int ledger_save(struct ledger *l) {
        if (l->syncing || !l->changed)
                return 0; /* what waits for the disk is whole in itself */
        return write_slot(l);
}

static void synced(struct ledger *l, bool dirty) {
        l->slot ^= 1;
        l->dirty = dirty;
}

int ledger_sync(struct ledger *l) {
        int r;

        l->syncing = false; /* what the other one syncs is synced here, too */
        r = write_slot(l);
        if (r < 0)
                return r;
        if (fdatasync(l->fd) < 0) {
                closep(&l->fd); /* the kernel says it once: another descriptor, another try */
                return -EIO;
        }
        synced(l, false);
        return 0;
}

int ledger_begin(struct ledger *l, int *ret_fd) {
        int fd, r;

        r = write_slot(l);
        if (r < 0)
                return r;
        fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return -errno;
        l->syncing = true;
        l->lost_since = false;
        *ret_fd = fd;
        return 0;
}

void ledger_end(struct ledger *l, int result) {
        if (!l->syncing) /* overtaken by ledger_sync() */
                return;
        l->syncing = false;
        if (result >= 0)
                synced(l, l->lost_since);
}

/* --- What is done with ------------------------------------------------------------------------------- */

uint64_t ledger_next(const struct ledger *l, uint64_t seq) {
        for (size_t i = 0; i < l->n_settled && l->settled[i].from <= seq; i++)
                if (seq <= l->settled[i].to)
                        seq = l->settled[i].to + 1;
        return seq;
}

uint64_t ledger_count(const struct ledger *l, uint64_t from, uint64_t to) {
        uint64_t n = 0;

        for (size_t i = 0; i < l->n_settled; i++) {
                uint64_t a = MAX(from, l->settled[i].from), b = MIN(to, l->settled[i].to);

                n += a <= b ? b - a + 1 : 0;
        }
        return n;
}

static void remove_settled(struct ledger *l, size_t i) {
        memmove(l->settled + i, l->settled + i + 1, (--l->n_settled - i) * sizeof(*l->settled));
}

int ledger_add(struct ledger *l, uint64_t from, uint64_t to) {
        size_t i = 0;

        assert(from <= to && l->n_settled <= LEDGER_SETTLED_MAX);
        while (i < l->n_settled && l->settled[i].to + 1 < from)
                i++;
        if (i < l->n_settled && l->settled[i].from <= to + 1) {
                l->settled[i].from = MIN(l->settled[i].from, from);
                l->settled[i].to = MAX(l->settled[i].to, to);
                while (i + 1 < l->n_settled && l->settled[i + 1].from <= l->settled[i].to + 1) {
                        l->settled[i].to = MAX(l->settled[i].to, l->settled[i + 1].to);
                        remove_settled(l, i + 1);
                }
        } else {
                if (l->n_settled == LEDGER_SETTLED_MAX)
                        return -ENOSPC;
                memmove(l->settled + i + 1, l->settled + i, (l->n_settled++ - i) * sizeof(*l->settled));
                l->settled[i] = (struct ledger_range) { from, to };
        }
        l->changed = true;
        return 0;
}

void ledger_advance(struct ledger *l, uint64_t seq) {
        l->changed = l->changed || seq > l->acked;
        l->acked = MAX(l->acked, seq);
        while (l->n_settled > 0 && l->settled[0].from <= l->acked + 1) {
                l->acked = MAX(l->acked, l->settled[0].to);
                remove_settled(l, 0);
                l->changed = true;
        }
}

bool ledger_may_add(const struct ledger *l, uint64_t seq) {
        if (l->n_settled + 1 < LEDGER_SETTLED_MAX)
                return true;
        for (size_t i = 0; i < l->n_settled; i++)
                if (l->settled[i].from <= seq + 1 && seq <= l->settled[i].to + 1)
                        return true;
        return false;
}

/* --- Losses and gaps --------------------------------------------------------------------------------- */

void ledger_lose(struct ledger *l, enum spool_loss why, const struct spool_gap *lost) {
        struct spool_gap *g = &l->open[why];
        bool first = g->records == 0 && g->items == 0;

        if (lost->records == 0 && lost->items == 0)
                return;
        g->from_seq = first ? lost->from_seq : MIN(g->from_seq, lost->from_seq);
        g->to_seq = first ? lost->to_seq : MAX(g->to_seq, lost->to_seq);
        g->records += lost->records;
        g->items += lost->items;
        l->changed = l->dirty = l->lost_since = true;
}

void ledger_lose_of(struct ledger *l, uint64_t seq, const struct spool_gap *lost) {
        for (enum spool_loss why = 0; lost && why < _SPOOL_LOSS_MAX; why++)
                ledger_lose(l, why,
                            &(struct spool_gap) { 0, seq, seq, lost[why].records, lost[why].items });
}

void ledger_lose_before(struct ledger *l, uint64_t seq) {
        struct spool_gap lost = { .from_seq = l->acked + 1, .to_seq = seq - 1 };

        if (seq <= l->acked + 1)
                return;
        /* numbers that were jumped over named no record, and come in whole jumps (spool.h, Invariant) */
        lost.records = (seq - 1 - l->acked - ledger_count(l, l->acked + 1, seq - 1)) % SPOOL_JUMP;
        ledger_lose(l, SPOOL_DAMAGED, &lost);
}

bool ledger_close_gaps(struct ledger *l) {
        bool any = false;

        if (l->syncing)
                return false;
        for (size_t i = 0; i < _SPOOL_LOSS_MAX; i++) {
                if (l->closed[i].number == 0 && (l->open[i].records > 0 || l->open[i].items > 0)) {
                        l->closed[i] = l->open[i];
                        l->closed[i].number = l->next_gap++;
                        l->open[i] = (struct spool_gap) { 0 };
                        l->changed = l->dirty = true;
                }
                any = any || l->closed[i].number > 0;
        }
        return any;
}

bool ledger_has_gaps(const struct ledger *l) {
        for (size_t i = 0; i < _SPOOL_LOSS_MAX; i++)
                if (l->open[i].records > 0 || l->open[i].items > 0 || l->closed[i].number > 0)
                        return true;
        return false;
}

const struct spool_gap *ledger_gap(const struct ledger *l, enum spool_loss why) {
        return l->closed[why].number > 0 ? &l->closed[why] : NULL;
}

void ledger_told(struct ledger *l, enum spool_loss why) {
        l->closed[why] = (struct spool_gap) { 0 };
        l->changed = true;
        (void) ledger_save(l); /* if it cannot be written, the gap is reported once more, as the same one */
}
