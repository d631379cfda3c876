/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>

#include "spool_state.h"

/* The file keeps what it holds and gives the rest back. Called when all of it is durable. */
static void seal(struct segment *g, int fd) {
        if (ftruncate(fd, (off_t) g->end) >= 0)
                g->size = g->end;
}

/* Takes the current segment out of use: at once when all of it is durable, else it waits as the old one. */
static void retire_current(struct spool *s) {
        struct segment *g = spool_current(s);

        if (g->last_seq <= s->synced) {
                seal(g, s->fd);
                closep(&s->fd);
                closep(&s->sync_fd);
                return;
        }
        s->old_fd = TAKE_FD(s->fd);
        s->old_sync_fd = TAKE_FD(s->sync_fd);
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
        _cleanup_close_ int fd = -1, sync_fd = -1;
        bool fresh = s->fd < 0;
        uint64_t first_seq = fresh ? s->synced + 1 : s->next_seq;
        struct segment g, *last;
        int r;

        if (s->n_segments >= SPOOL_SEGMENTS_MAX)
                return -ENOSPC;
        r = spool_reserve_segment(s);
        if (r < 0)
                return r;
        spool_trim(s, s->options.segment_bytes);
        r = segment_create(s->dir_fd, s->id, first_seq, (size_t) s->options.segment_bytes, &g, &fd,
                           &sync_fd);
        if (r < 0)
                return r;
        if (fresh)
                adopt_pending(s, &g);
        last = s->n_segments > 0 ? &s->segments[s->n_segments - 1] : NULL;
        if (last && last->first_seq == first_seq) {
                *last = g; /* it was empty, and its file is replaced */
                closep(&s->fd);
                closep(&s->sync_fd);
        } else {
                if (!fresh)
                        retire_current(s);
                s->segments[s->n_segments++] = g;
        }
        spool_forget_reader(s);
        s->fd = TAKE_FD(fd);
        s->sync_fd = TAKE_FD(sync_fd);
        return 0;
}

static bool fits(struct spool *s, size_t len) {
        const struct segment *g = spool_current(s);

        return g && g->end + segment_record_size(len) <= g->size;
}

/*
 * Nothing of the segments in use counts beyond the last good sync. A segment that begins right behind it
 * stays until the next one takes its name: it keeps the sequence numbers.
 */
static void give_up(struct spool *s) {
        s->generation++;
        s->given_up++;
        closep(&s->fd);
        closep(&s->sync_fd);
        closep(&s->old_fd);
        closep(&s->old_sync_fd);
        spool_forget_reader(s);
        for (size_t i = 0; i < s->n_segments; i++) {
                struct segment *g = &s->segments[i];
                uint64_t last = MAX(s->synced, g->first_seq - 1);

                if (g->last_seq <= last)
                        continue;
                g->records -= MIN(g->records, g->last_seq - last);
                g->last_seq = last;
        }
        while (s->n_segments > 0 && s->segments[s->n_segments - 1].first_seq > s->synced + 1) {
                char name[SEGMENT_NAME_MAX];

                segment_name(s->segments[--s->n_segments].first_seq, name);
                (void) unlinkat(s->dir_fd, name,
                                0); /* if it stays, it is a copy of records that were never acknowledged */
        }
}

/* A write or a sync has failed with error, which is returned. */
static int start_anew(struct spool *s, int error) {
        give_up(s);
        if (s->pending_len > 0)
                (void) new_current(s); /* if this fails, the next append or sync tries again */
        return error;
}

/* Writes what is in memory only, all of it by one call. */
static int flush(struct spool *s) {
        int r;

        if (s->written == s->pending_len)
                return 0;
        r = segment_write(spool_current(s), s->fd, s->pending + s->written, s->pending_len - s->written);
        if (r < 0)
                return start_anew(s, r);
        s->written = s->pending_len;
        return 0;
}

int spool_make_room(struct spool *s, size_t len) {
        int r;

        if (s->fd < 0) {
                r = new_current(s);
                if (r < 0)
                        return r;
        }
        if (fits(s, len))
                return 0;
        if (s->old_fd >= 0) { /* never three segments with unsynced records */
                r = spool_sync(s);
                if (r < 0)
                        return r;
        }
        if (fits(s, len))
                return 0;
        r = flush(s);
        return r < 0 ? r : new_current(s);
}

/* Lists the spool's own descriptors that a sync needs now: 0 when nothing waits. */
static int collect(struct spool *s, bool own, struct spool_sync_job *ret) {
        struct spool_sync_job j = { .seq = s->next_seq - 1, .generation = s->generation };
        const struct segment *g;
        int r;

        if (s->fd < 0) {
                if (s->pending_len == 0)
                        return 0;
                r = new_current(s);
                if (r < 0)
                        return r;
        }
        r = flush(s);
        if (r < 0)
                return r;
        g = spool_current(s);
        if (s->pending_len == 0 && g->durable)
                return 0;
        if (s->old_fd >= 0)
                j.fds[j.n_fds++] = own ? s->old_fd : s->old_sync_fd;
        j.fds[j.n_fds++] = own ? s->fd : s->sync_fd;
        if (!g->durable)
                j.fds[j.n_fds++] = s->dir_fd;
        j.directory = !g->durable;
        j.segment = g->first_seq;
        *ret = j;
        return 1;
}

int spool_sync_begin(struct spool *s, struct spool_sync_job *ret) {
        struct spool_sync_job j;
        int r;

        r = collect(s, false, &j);
        if (r <= 0)
                return r;
        for (size_t i = 0; i < j.n_fds; i++) {
                int fd = fcntl(j.fds[i], F_DUPFD_CLOEXEC, 3);

                if (fd < 0) {
                        r = -errno;
                        while (i > 0)
                                (void) close(j.fds[--i]);
                        return r;
                }
                j.fds[i] = fd;
        }
        *ret = j;
        return 1;
}

int spool_sync(struct spool *s) {
        struct spool_sync_job j;
        int r;

        r = collect(s, true, &j);
        if (r <= 0)
                return r;
        r = 0;
        for (size_t i = 0; i < j.n_fds && r == 0; i++)
                if ((j.directory && i + 1 == j.n_fds ? fsync(j.fds[i]) : fdatasync(j.fds[i])) < 0)
                        r = -errno;
        return spool_sync_end(s, &j, r);
}

static void pop_pending(struct spool *s, uint64_t n) {
        uint32_t length;
        size_t at = 0;

        for (; n > 0 && at < s->pending_len; n--) {
                memcpy(&length, s->pending + at, sizeof(length));
                at += segment_record_size(length);
        }
        memmove(s->pending, s->pending + at, s->pending_len - at);
        s->pending_len -= at;
        s->written -= at; /* only what was written can have been synced */
        if (s->pending_len == 0) { /* seldom, once a push: not kept from one to the next */
                free(TAKE_PTR(s->pending));
                s->pending_size = 0;
        }
}

int spool_sync_end(struct spool *s, const struct spool_sync_job *job, int result) {
        if (job->generation != s->generation)
                return 0;
        if (result < 0)
                return start_anew(s, result);
        if (job->seq > s->synced) {
                pop_pending(s, job->seq - s->synced);
                s->synced = job->seq;
        }
        for (size_t i = 0; i < s->n_segments && s->segments[i].first_seq <= job->segment; i++)
                s->segments[i].durable = true;
        if (s->old_fd >= 0 && s->n_segments >= 2 && s->segments[s->n_segments - 2].last_seq <= s->synced) {
                seal(&s->segments[s->n_segments - 2], s->old_fd);
                closep(&s->old_fd);
                closep(&s->old_sync_fd);
        }
        spool_trim(s, 0);
        return 0;
}
