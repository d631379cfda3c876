/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>

#include "spool_inside.h"

#define LOCK_TRIES 100
#define LOCK_PAUSE (20 * USEC_PER_MSEC)

/* --- Opening ----------------------------------------------------------------------------------------- */

/* What a killed process had begun in a child of its own shares its lock for some moments more. */
static int lock_patiently(int fd) {
        for (unsigned i = 0; flock(fd, LOCK_EX | LOCK_NB) < 0; i++) {
                if (errno != EWOULDBLOCK)
                        return -errno;
                if (i == LOCK_TRIES)
                        return -EBUSY;
                (void) usleep(LOCK_PAUSE);
        }
        return 0;
}

static int lock_directory(const char *path, int *ret) {
        _cleanup_close_ int fd = -1;
        int r;

        if (mkdir(path, 0700) < 0 && errno != EEXIST)
                return -errno;
        fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        r = lock_patiently(fd);
        if (r >= 0)
                *ret = TAKE_FD(fd);
        return r;
}

/* All segments, and the id that they carry. *ret_clean: the last one may be continued. */
static int recover_segments(struct spool *s, uint64_t *ret_id, bool *ret_clean) {
        struct segments *all = &s->segments;
        int r;

        r = segments_find(s->dir_fd, all);
        /* Backwards: the newest readable header gives the id. Nothing is changed before all are seen. */
        for (size_t i = all->n; r >= 0 && i > 0; i--) {
                uint64_t before = i < all->n ? all->list[i].first_seq : UINT64_MAX;
                bool clean;

                r = segment_recover(s->dir_fd, &all->list[i - 1], before, ret_id, &s->damaged, &clean);
                if (r >= 0 && i == all->n)
                        *ret_clean = clean;
        }
        if (r >= 0 && all->n > 0 && fsync(s->dir_fd) < 0)
                return -errno;
        return r;
}

/* The ledger, and the id: what the segments carry, else the ledger, else a new one. */
static int open_ledger(struct spool *s, uint64_t id) {
        struct ledger *l = &s->ledger;
        int r;

        r = ledger_open(l, s->dir_fd, id);
        if (r < 0)
                return r;
        while (l->spool_id == 0)
                if (getrandom(&l->spool_id, sizeof(l->spool_id), 0) != sizeof(l->spool_id))
                        return -EIO;
        if (l->serial == 0)
                (void) ledger_sync(l); /* keeps the id, should all segments be damaged; else they keep it */
        if (s->segments.n > 0) /* what was removed was done with, whatever a power cut left of the ledger */
                ledger_advance(l, s->segments.list[0].first_seq - 1);
        return 0;
}

/*
 * Decides the next sequence number (spool.h, Invariant), and goes on in the last segment where that is safe.
 */
static int continue_last(struct spool *s, bool clean) {
        const struct segment *g = s->segments.n > 0 ? &s->segments.list[s->segments.n - 1] : NULL;
        uint64_t done = s->ledger.acked;

        s->next_seq = 1;
        if (g && clean)
                s->next_seq = g->last_seq + 1;
        if (g && !clean) {
                s->next_seq = g->last_seq + 1 + SPOOL_JUMP;
                s->torn++;
        }
        if (s->ledger.n_settled > 0)
                done = s->ledger.settled[s->ledger.n_settled - 1].to;
        s->next_seq = MAX(s->next_seq, done + 1);
        s->synced = s->next_seq - 1;
        if (!g || !clean || s->next_seq != g->last_seq + 1)
                return 0;
        return segment_continue(s->dir_fd, g, &s->current);
}

int spool_open(const char *path, const struct spool_options *o, struct spool **ret) {
        _cleanup_(spool_freep) struct spool *s = calloc(1, sizeof(*s));
        bool clean = false;
        uint64_t id = 0;
        int r;

        if (!s)
                return -ENOMEM;
        s->current = s->old = SEGMENT_FDS_NONE;
        s->dir_fd = s->reader.fd = s->ledger.fd = -1;
        s->options = *o;
        s->options.segment_bytes -= o->segment_bytes % SPOOL_UNIT;
        if (s->options.segment_bytes < SPOOL_SEGMENT_MIN || s->options.segment_bytes > SPOOL_SEGMENT_MAX ||
            s->options.max_bytes / 2 < s->options.segment_bytes)
                return -EINVAL;
        r = lock_directory(path, &s->dir_fd);
        if (r >= 0)
                r = recover_segments(s, &id, &clean);
        if (r >= 0)
                r = open_ledger(s, id);
        if (r >= 0)
                r = continue_last(s, clean);
        if (r < 0)
                return r;
        (void) unlinkat(s->dir_fd, SEGMENT_NEW_NAME, 0);
        spool_trim(s, 0);
        *ret = TAKE_PTR(s);
        return 0;
}

struct spool *spool_free(struct spool *s) {
        if (!s)
                return NULL;
        segment_fds_close(&s->current);
        segment_fds_close(&s->old);
        segment_reader_forget(&s->reader);
        closep(&s->ledger.fd);
        closep(&s->dir_fd);
        free(s->segments.list);
        free(s->pending);
        free(s);
        return NULL;
}

uint64_t spool_id(const struct spool *s) {
        return s->ledger.spool_id;
}

/* --- The segments that are written ------------------------------------------------------------------- */

static struct segment *current_segment(struct spool *s) {
        return s->current.write >= 0 ? &s->segments.list[s->segments.n - 1] : NULL;
}

/* Half a segment: unsynced records never lie in more than two segments, and always fit into a new one. */
static size_t pending_limit(const struct spool *s) {
        return (size_t) MIN((uint64_t) SPOOL_PENDING_MAX, s->options.segment_bytes / 2);
}

/* The file keeps what it holds and gives the rest back. Called when all of it is durable. */
static void seal_segment(struct segment *g, int fd) {
        if (ftruncate(fd, (off_t) g->end) >= 0)
                g->size = g->end;
}

/* Takes the current segment out of use: at once when all of it is durable, else it waits as the old one. */
static void retire_current(struct spool *s) {
        struct segment *g = current_segment(s);

        if (g->last_seq <= s->synced) {
                seal_segment(g, s->current.write);
                segment_fds_close(&s->current);
                return;
        }
        assert(s->old.write < 0); /* unsynced records never lie in more than two segments */
        s->old = s->current;
        s->current = SEGMENT_FDS_NONE;
}

/* Makes the unsynced records part of a fresh segment, which they are then to be written to. */
static void adopt_pending(struct spool *s, struct segment *g) {
        uint64_t seq = s->synced + 1;
        uint32_t length;

        for (size_t at = 0; at < s->pending_len; at += segment_record_size(length), seq++) {
                memcpy(&length, s->pending + at, sizeof(length));
                segment_put(g, seq, s->pending + at, length);
        }
        s->written = 0;
}

/*
 * Makes a new current segment; without one before it (after a failure, after open) it begins with what is
 * pending.
 */
static int new_current(struct spool *s) {
        bool fresh = s->current.write < 0;
        uint64_t first_seq = fresh ? s->synced + 1 : s->next_seq;
        struct segment g, *last;
        struct segment_fds fds;
        int r;

        r = segments_reserve(&s->segments);
        if (r < 0)
                return r;
        spool_trim(s, s->options.segment_bytes);
        r = segment_create(s->dir_fd, s->ledger.spool_id, first_seq, (size_t) s->options.segment_bytes, &g,
                           &fds);
        if (r < 0)
                return r;
        if (fresh)
                adopt_pending(s, &g);
        last = s->segments.n > 0 ? &s->segments.list[s->segments.n - 1] : NULL;
        if (last && last->first_seq == first_seq) {
                *last = g; /* it was empty, and its file is replaced */
                segment_fds_close(&s->current);
        } else {
                if (!fresh)
                        retire_current(s);
                s->segments.list[s->segments.n++] = g;
        }
        segment_reader_forget(&s->reader);
        s->current = fds;
        return 0;
}

static bool record_fits(struct spool *s, size_t len) {
        const struct segment *g = current_segment(s);

        return g && g->end + segment_record_size(len) <= g->size;
}

/*
 * Nothing of the segments in use counts beyond the last good sync. A segment that begins right behind it
 * stays until the next one takes its name: it keeps the sequence numbers.
 */
static void give_segments_up(struct spool *s) {
        s->generation++;
        s->given_up++;
        segment_fds_close(&s->current);
        segment_fds_close(&s->old);
        segment_reader_forget(&s->reader);
        for (size_t i = 0; i < s->segments.n; i++) {
                struct segment *g = &s->segments.list[i];
                uint64_t last = MAX(s->synced, g->first_seq - 1);

                if (g->last_seq <= last)
                        continue;
                g->records -= MIN(g->records, g->last_seq - last);
                g->last_seq = last;
        }
        while (s->segments.n > 0 && s->segments.list[s->segments.n - 1].first_seq > s->synced + 1)
                /* if it stays, it is a copy of records that were never acknowledged */
                (void) segment_remove(s->dir_fd, &s->segments.list[--s->segments.n]);
}

/* A write or a sync has failed with error, which is returned. */
static int start_anew(struct spool *s, int error) {
        give_segments_up(s);
        if (s->pending_len > 0)
                (void) new_current(s); /* if this fails, the next append or sync tries again */
        return error;
}

/* Writes what is in memory only, all of it by one call. */
static int flush_pending(struct spool *s) {
        int r;

        if (s->written == s->pending_len)
                return 0;
        r = segment_write(current_segment(s), s->current.write, s->pending + s->written,
                          s->pending_len - s->written);
        if (r < 0)
                return start_anew(s, r);
        s->written = s->pending_len;
        return 0;
}

static int make_room(struct spool *s, size_t len) {
        int r;

        if (s->current.write < 0) {
                r = new_current(s);
                if (r < 0)
                        return r;
        }
        if (record_fits(s, len))
                return 0;
        if (s->old.write >= 0) { /* never three segments with unsynced records */
                r = spool_sync(s);
                if (r < 0)
                        return r;
        }
        if (record_fits(s, len))
                return 0;
        r = flush_pending(s);
        return r < 0 ? r : new_current(s);
}

/* Lists the spool's own descriptors that a sync needs now: 0 when nothing waits. */
static int collect_descriptors(struct spool *s, bool own, struct spool_sync_task *ret) {
        struct spool_sync_task task = { .seq = s->next_seq - 1, .generation = s->generation };
        const struct segment *g;
        int r;

        if (s->current.write < 0) {
                if (s->pending_len == 0)
                        return 0;
                r = new_current(s);
                if (r < 0)
                        return r;
        }
        r = flush_pending(s);
        if (r < 0)
                return r;
        g = current_segment(s);
        if (s->pending_len == 0 && g->durable)
                return 0;
        if (s->old.write >= 0)
                task.fds[task.n_fds++] = own ? s->old.write : s->old.sync;
        task.fds[task.n_fds++] = own ? s->current.write : s->current.sync;
        if (!g->durable)
                task.fds[task.n_fds++] = s->dir_fd;
        task.directory = !g->durable;
        task.segment = g->first_seq;
        *ret = task;
        return 1;
}

int spool_sync_begin(struct spool *s, struct spool_sync_task *ret) {
        struct spool_sync_task task;
        int r;

        r = collect_descriptors(s, false, &task);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < task.n_fds; i++) {
                int fd = fcntl(task.fds[i], F_DUPFD_CLOEXEC, 3);

                if (fd < 0) {
                        r = -errno;
                        while (i > 0)
                                (void) close(task.fds[--i]);
                        return r;
                }
                task.fds[i] = fd;
        }
        *ret = task;
        return 1;
}

int spool_sync(struct spool *s) {
        struct spool_sync_task task;
        int r;

        r = collect_descriptors(s, true, &task);
        if (r <= 0)
                return r;
        r = 0;
        for (size_t i = 0; i < task.n_fds && r == 0; i++)
                if ((task.directory &&
                     i + 1 == task.n_fds ? fsync(task.fds[i]) : fdatasync(task.fds[i])) < 0)
                        r = -errno;
        return spool_sync_end(s, &task, r);
}

static void pop_pending(struct spool *s, uint64_t n) {
        uint32_t length;
        size_t at = 0;

        for (; n > 0 && at < s->pending_len; n--) {
                memcpy(&length, s->pending + at, sizeof(length));
                at += segment_record_size(length);
        }
        assert(at <= s->written); /* only what was written can have been synced */
        memmove(s->pending, s->pending + at, s->pending_len - at);
        s->pending_len -= at;
        s->written -= at;
        if (s->pending_len == 0) { /* seldom, once a push: not kept from one to the next */
                free(TAKE_PTR(s->pending));
                s->pending_size = 0;
        }
}

int spool_sync_end(struct spool *s, const struct spool_sync_task *task, int result) {
        if (task->generation != s->generation)
                return 0;
        if (result < 0)
                return start_anew(s, result);
        assert(task->seq < s->next_seq);
        if (task->seq > s->synced) {
                pop_pending(s, task->seq - s->synced);
                s->synced = task->seq;
        }
        for (size_t i = 0; i < s->segments.n && s->segments.list[i].first_seq <= task->segment; i++)
                s->segments.list[i].durable = true;
        if (s->old.write >= 0 && s->segments.n >= 2 &&
            s->segments.list[s->segments.n - 2].last_seq <= s->synced) {
                seal_segment(&s->segments.list[s->segments.n - 2], s->old.write);
                segment_fds_close(&s->old);
        }
        spool_trim(s, 0);
        return 0;
}

/* --- Appending --------------------------------------------------------------------------------------- */

/* Room for a record with len bytes of payload behind what is pending. */
static int pending_reserve(struct spool *s, size_t len) {
        size_t need = s->pending_len + segment_record_size(len), size;
        uint8_t *p;

        if (need <= s->pending_size)
                return 0;
        /* all of it at once: only what is used becomes memory, and nothing grows later */
        size = MAX(need, pending_limit(s));
        p = realloc(s->pending, size);
        if (!p)
                return -ENOMEM;
        s->pending = p;
        s->pending_size = size;
        return 0;
}

int spool_append(struct spool *s, const void *data, size_t len, uint64_t *ret_seq) {
        uint8_t *out;
        int r;

        if (len == 0)
                return -EINVAL;
        if (len > SPOOL_RECORD_MAX ||
            segment_record_size(len) > s->options.segment_bytes - sizeof(struct segment_header))
                return -E2BIG;
        if (s->pending_len > 0 && s->pending_len + segment_record_size(len) > pending_limit(s)) {
                r = spool_sync(s);
                if (r < 0)
                        return r;
        }
        r = make_room(s, len);
        if (r < 0)
                return r;
        r = pending_reserve(s, len);
        if (r < 0)
                return r;
        out = s->pending + s->pending_len;
        memcpy(out + sizeof(struct segment_record), data, len);
        segment_put(current_segment(s), s->next_seq, out, len);
        s->pending_len += segment_record_size(len);
        s->appended++;
        *ret_seq = s->next_seq++;
        return 0;
}

int spool_prepare(struct spool *s) {
        return make_room(s, pending_limit(s) - sizeof(struct segment_header) -
                                          sizeof(struct segment_record));
}
