/* SPDX-License-Identifier: Apache-2.0 */
#include "wait_descriptor.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include "grow.h"
#include "io.h"
#include "utf8.h"

#define LOCKS_MAX  (1024u * 1024) /* bytes of /proc/locks */
#define EPOLL_DEEP 5u             /* the kernel lets them watch each other no deeper */
#define LOOKED_MAX 4096u          /* descriptors of one thread */

int thread_wait_put(struct thread_waiting *t, const struct captured_wait *w, const char *text) {
        struct waits *o = t->out;
        struct waits_span *span = &o->threads[t->task - t->from->tasks->items];
        struct thread_wait *to;
        int r;

        if (o->n - span->first >= WAITS_OF_THREAD || o->n >= WAITS_MAX) {
                o->cut = true;
                return 0;
        }
        r = grow(&o->items, &o->size, o->n + 1, sizeof(*o->items));
        if (r < 0)
                return r;
        to = &o->items[o->n++];
        to->w = *w;
        (void) snprintf(to->text, sizeof(to->text), "%s", text);
        utf8_mend(to->text);
        return 0;
}

bool thread_wait_memory(const struct thread_waiting *t, uint64_t address, void *buf, size_t len) {
        struct iovec local = { buf, len };

        return len == 0 || (t->from->memory && memory_read_many(t->from->memory, &local, &address, 1) == 0);
}

struct watched {
        struct thread_waiting *t;
        const struct captured_wait *like;
        unsigned depth;
};

static int add_at_depth(struct thread_waiting *t, uint32_t fd, const struct captured_wait *like,
                        unsigned depth);

static int add_watched(uint32_t fd, uint32_t events, void *userdata) {
        const struct watched *a = userdata;
        struct captured_wait w = *a->like;

        w.any = true;
        w.writes = (events & EPOLLOUT) && !(events & EPOLLIN);
        return add_at_depth(a->t, fd, &w, a->depth + 1);
}

static int add_epoll(struct thread_waiting *t, uint32_t fd, const struct captured_wait *like,
                     unsigned depth) {
        struct watched a = { t, like, depth };
        int r = depth < EPOLL_DEEP ? descriptor_epoll_visit(t->from->process, fd, add_watched, &a) : 0;

        return r == -ENOMEM ? r : 0;
}

/* The kinds that a descriptor's kind stands for alone. */
static uint8_t kind_of(enum descriptor_kind kind) {
        switch (kind) {
        case DESCRIPTOR_SOCKET:
                return WAIT_SOCKET;
        case DESCRIPTOR_PIPE:
                return WAIT_PIPE;
        case DESCRIPTOR_EVENTFD:
                return WAIT_EVENTFD;
        case DESCRIPTOR_TIMER:
                return WAIT_TIMER;
        case DESCRIPTOR_PIDFD:
                return WAIT_CHILD;
        case DESCRIPTOR_IO_URING:
                return WAIT_IO_URING;
        case DESCRIPTOR_DEVICE:
                return WAIT_DEVICE;
        case DESCRIPTOR_FILE:
                return WAIT_FILE;
        case DESCRIPTOR_OTHER:
        case DESCRIPTOR_EPOLL:
        default:
                return WAIT_UNKNOWN;
        }
}

static int add_at_depth(struct thread_waiting *t, uint32_t fd, const struct captured_wait *like,
                        unsigned depth) {
        struct captured_wait w = *like;
        const struct mount *m;
        struct descriptor d;
        char text[WAIT_TEXT_MAX] = "";

        if (t->looked++ >= LOOKED_MAX) {
                t->out->cut = true;
                return 0;
        }
        w.fd = fd;
        w.kind = WAIT_UNKNOWN;
        if (descriptor_read(t->from->process, &t->mounts, fd, &d) < 0) {
                (void) snprintf(text, sizeof(text), "descriptor %" PRIu32 ", which is not open", fd);
                return thread_wait_put(t, &w, text);
        }
        if (d.kind == DESCRIPTOR_EPOLL)
                return add_epoll(t, fd, like, depth);
        w.kind = kind_of(d.kind);
        w.space = d.space;
        w.number = d.number;
        if (w.kind == WAIT_CHILD) {
                w.holder_pid = (uint32_t) d.number;
                w.number = 0;
        }
        m = mounts_find(&t->mounts, d.mount);
        if (w.kind == WAIT_FILE)
                (void) snprintf(text, sizeof(text), "%.340s", m ? m->words : d.link);
        else if (w.kind == WAIT_DEVICE || w.kind == WAIT_UNKNOWN ||
                 (w.kind == WAIT_PIPE && d.link[0] == '/'))
                (void) snprintf(text, sizeof(text), "%.300s", d.link);
        return thread_wait_put(t, &w, text);
}

int wait_descriptor_add(struct thread_waiting *t, uint32_t fd, const struct captured_wait *w) {
        return add_at_depth(t, fd, w, 0);
}

/* --- File locks --------------------------------------------------------------------------------------- */

struct lock_line {
        unsigned long id;
        bool waits;
        long pid;
        unsigned major, minor;
        unsigned long inode;
};

/* "1: -> FLOCK  ADVISORY  WRITE 4711 08:02:131 0 EOF" */
static bool parse_lock(const char *line, struct lock_line *ret) {
        char arrow[4] = "";
        int at = 0;

        if (sscanf(line, "%lu: %n", &ret->id, &at) != 1 || at == 0)
                return false;
        ret->waits = sscanf(line + at, "%3s", arrow) == 1 && streq(arrow, "->");
        if (ret->waits)
                at += 2;
        return sscanf(line + at, "%*s %*s %*s %ld %x:%x:%lu", &ret->pid, &ret->major, &ret->minor,
                      &ret->inode) == 4;
}

static const char *locks_text(struct thread_waiting *t) {
        _cleanup_close_ int fd = -1;

        if (t->file_locks)
                return t->file_locks;
        t->file_locks = calloc(1, LOCKS_MAX + 1);
        fd = host_open_file(t->from->host, "/proc/locks", O_RDONLY);
        if (t->file_locks && fd >= 0)
                (void) io_read_up_to(fd, t->file_locks, LOCKS_MAX); /* what came before an error counts */
        return t->file_locks ? t->file_locks : "";
}

/* The line of the wait of this process for this file, then the one of the same number that does not wait. */
static void find_lock_holder(struct thread_waiting *t, uint64_t inode, struct captured_wait *w) {
        const char *text = locks_text(t);
        struct lock_line mine = { 0 }, l;
        bool found = false;

        for (unsigned pass = 0; pass < 2 && (pass == 0 || found); pass++)
                for (const char *at = text; *at; at += strcspn(at, "\n"), at += *at == '\n') {
                        if (!parse_lock(at, &l))
                                continue;
                        if (pass == 0 && !found && l.waits && l.pid == (long) t->from->process->pid &&
                            (inode == 0 || inode == l.inode)) {
                                mine = l;
                                found = true;
                        }
                        if (pass == 1 && !l.waits && l.id == mine.id && l.pid > 0)
                                w->holder_pid = (uint32_t) l.pid;
                }
        if (found) {
                w->number = mine.inode;
                w->space = (uint64_t) mine.major << 20 | mine.minor;
        }
}

int wait_descriptor_lock(struct thread_waiting *t, uint32_t fd) {
        struct captured_wait w = { .kind = WAIT_FILE_LOCK, .fd = fd };
        struct descriptor d = { .link = "" };

        (void) descriptor_read(t->from->process, &t->mounts, fd, &d); /* else its name is not known */
        find_lock_holder(t, d.number, &w);
        return thread_wait_put(t, &w, d.link);
}
