/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was lost and not told yet, and what is done with: file "ledger", two slots of struct slot at 0 and
 * SLOT_STRIDE. A slot counts when its checksum does, the one with the higher serial first. What was synced is
 * never written over before the other slot is synced, so that a power cut leaves one of them.
 */
#include <assert.h>
#include <fcntl.h>

#include "crc32c.h"
#include "spool_state.h"

#define LEDGER_MAGIC 0x4c555054u /* "TPUL" */
#define LEDGER_VERSION 1
#define SLOT_STRIDE 4096

struct slot {
        uint32_t magic;
        uint16_t version, size; /* of the slot in bytes: these first 16 stay in every version */
        uint32_t crc, zero;     /* crc32c of the 8 bytes before and of what follows zero, up to size */
        uint64_t spool_id, serial, acked, next_gap, held;
        struct spool_range settled[SPOOL_SETTLED_MAX]; /* from is 0 behind the last one */
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
        if (u.t.version != LEDGER_VERSION || u.t.size != sizeof(u.t) || u.t.crc != slot_crc(&u.t, sizeof(u.t)))
                return 0;
        *ret = u.t;
        return 1;
}

static void slot_take(struct spool *s, const struct slot *t) {
        struct spool_ledger *l = &s->ledger;

        l->serial = t->serial;
        s->held = t->held;
        l->next_gap = MAX(t->next_gap, (uint64_t) 1);
        memcpy(l->open, t->open, sizeof(l->open));
        memcpy(l->closed, t->closed, sizeof(l->closed));
        for (size_t i = 0; i < SPOOL_SETTLED_MAX && t->settled[i].from > 0; i++)
                if (t->settled[i].to > t->acked && t->settled[i].from <= t->settled[i].to)
                        (void) spool_add_settled(s, t->settled[i].from, t->settled[i].to);
        spool_advance(s, MIN(t->acked, UINT64_MAX / 2));
}

int spool_ledger_open(struct spool *s) {
        struct spool_ledger *l = &s->ledger;
        struct slot t = { 0 };
        uint64_t acked = s->acked;
        bool any = false;

        l->next_gap = 1;
        l->fd = openat(s->dir_fd, "ledger", O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
        if (l->fd < 0)
                return errno == ENOENT ? 0 : -errno;
        for (unsigned i = 0; i < 2; i++) {
                struct slot other;
                int r = slot_read(l->fd, i, &other);

                if (r < 0)
                        return r;
                if (r == 0 || other.spool_id != s->id || (any && other.serial <= t.serial))
                        continue;
                any = true;
                t = other;
                l->slot = i ^ 1;
        }
        if (!any)
                return 0;
        /* it must not be lost to the next write of the other slot */
        if (fdatasync(l->fd) < 0)
                return -errno;
        slot_take(s, &t);
        spool_advance(s, acked);
        l->changed = false;
        return 0;
}

static int ledger_create(struct spool *s) {
        struct spool_ledger *l = &s->ledger;

        if (l->fd >= 0)
                return 0;
        l->fd = openat(s->dir_fd, "ledger", O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
        if (l->fd < 0)
                return -errno;
        /* so that a full disk does not keep us from writing it; where this is not possible, the write will say */
        (void) posix_fallocate(l->fd, 0, 2 * SLOT_STRIDE);
        return fsync(s->dir_fd) < 0 ? -errno : 0;
}

int spool_ledger_write(struct spool *s) {
        struct spool_ledger *l = &s->ledger;
        struct slot t = {
                .magic = LEDGER_MAGIC,
                .version = LEDGER_VERSION,
                .size = sizeof(t),
                .spool_id = s->id,
                .serial = l->serial + 1,
                .acked = s->acked,
                .next_gap = l->next_gap,
                .held = s->held,
        };
        ssize_t n;
        int r;

        if (l->syncing)
                return -EBUSY;
        r = ledger_create(s);
        if (r < 0)
                return r;
        memcpy(t.settled, s->settled, s->n_settled * sizeof(*s->settled));
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

static void synced(struct spool_ledger *l) {
        l->slot ^= 1;
        l->dirty = false;
}

int spool_ledger_sync(struct spool *s) {
        struct spool_ledger *l = &s->ledger;
        int r;

        l->syncing = false; /* what the other one syncs is synced here, too */
        r = spool_ledger_write(s);
        if (r < 0)
                return r;
        if (fdatasync(l->fd) < 0) {
                closep(&l->fd); /* the kernel says it once: another descriptor, another try */
                return -EIO;
        }
        synced(l);
        return 0;
}

int spool_ledger_begin(struct spool *s, int *ret_fd) {
        struct spool_ledger *l = &s->ledger;
        int fd, r;

        r = spool_ledger_write(s);
        if (r < 0)
                return r;
        fd = fcntl(l->fd, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return -errno;
        l->syncing = true;
        *ret_fd = fd;
        return 0;
}

void spool_ledger_end(struct spool *s, int result) {
        struct spool_ledger *l = &s->ledger;

        if (!l->syncing) /* overtaken by spool_ledger_sync() */
                return;
        l->syncing = false;
        if (result < 0)
                return;
        /* losses that came meanwhile are not in it */
        bool changed = l->changed;

        synced(l);
        l->dirty = changed;
}

bool spool_gaps_close(struct spool *s) {
        struct spool_ledger *l = &s->ledger;
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

const struct spool_gap *spool_gap(const struct spool *s, enum spool_loss why) {
        return s->ledger.closed[why].number > 0 ? &s->ledger.closed[why] : NULL;
}

void spool_gap_told(struct spool *s, enum spool_loss why) {
        s->ledger.closed[why] = (struct spool_gap) { 0 };
        s->ledger.changed = true;
        (void) spool_save_cursor(s); /* if it cannot be written, the gap is told once more, as the same one */
}
