/* SPDX-License-Identifier: Apache-2.0 */
#include "bpf_sets.h"

#include <assert.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "processes.h"
#include "texts.h"

#define SETS_MAX 16u
#define MAPPINGS_MAX 4u /* of one set */

struct mapping {
        const struct bpf_thing *thing;
        void *memory;
};

struct set {
        struct bpf_report report;
        int fds[BPF_THINGS_MAX];
        const void *figures; /* NULL: none */
        size_t figures_size;
        struct mapping mappings[MAPPINGS_MAX];
        size_t n_mappings;
        int watching[BPF_THINGS_MAX];
        size_t n_watching;
};

struct bpf_sets {
        struct set *sets[SETS_MAX];
        size_t n;
        pid_t pid; /* of the loader; 0: it is reaped */
        int fd;
};

/* --- Start and end ------------------------------------------------------------------------------------- */

static int start(const char *program, int fds[static 2], struct bpf_sets *s) {
        const char *const argv[] = { program, "--hand-over", NULL };
        char *const environment[] = { NULL };
        const struct spawn_options o = {
                .path = program, .argv = argv, .environment = environment, .out = fds[1], .error = -1
        };

        return spawn_program(&o, &s->pid);
}

int bpf_sets_start(const char *program, struct bpf_sets **ret) {
        _cleanup_(bpf_sets_freep) struct bpf_sets *s = calloc(1, sizeof(*s));
        int fds[2] = { -1, -1 }, r = 0, dropped;

        if (!s)
                r = -ENOMEM;
        else
                s->fd = -1;
        if (r >= 0 && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) < 0)
                r = -errno;
        if (r >= 0) {
                s->fd = fds[0];
                r = start(program, fds, s);
        }
        dropped = capabilities_drop((const unsigned[]){ CAP_BPF, CAP_PERFMON }, 2);
        close_fd(fds[1]);
        if (r < 0 || dropped < 0)
                return dropped < 0 ? -EXDEV : r;
        *ret = TAKE_PTR(s);
        return 0;
}

static struct set *free_set(struct set *t) {
        for (size_t i = 0; i < t->n_watching; i++)
                close_fd(t->watching[i]);
        if (t->figures)
                (void) munmap((void *) (uintptr_t) t->figures, t->figures_size);
        for (size_t i = 0; i < t->n_mappings; i++)
                (void) munmap(t->mappings[i].memory, t->mappings[i].thing->size);
        for (size_t i = 0; i < t->report.n_things; i++)
                close_fd(t->fds[i]);
        free(t);
        return NULL;
}

/* It ends by itself: it waits for nobody but us. */
static void reap(struct bpf_sets *s) {
        while (s->pid > 0 && waitpid(s->pid, NULL, 0) < 0 && errno == EINTR)
                ;
        s->pid = 0;
}

struct bpf_sets *bpf_sets_free(struct bpf_sets *s) {
        if (!s)
                return NULL;
        for (size_t i = 0; i < s->n; i++)
                s->sets[i] = free_set(s->sets[i]);
        if (s->fd >= 0)
                (void) shutdown(s->fd, SHUT_RDWR); /* a loader that still sends ends by this */
        reap(s);
        s->fd = close_fd(s->fd);
        free(s);
        return NULL;
}

/* --- What the loader tells ----------------------------------------------------------------------------- */

static void close_all(const int *fds, size_t n) {
        for (size_t i = 0; i < n; i++)
                close_fd(fds[i]);
}

/* Takes what came with the message: how many, or -EBADMSG. */
static int take_descriptors(struct msghdr *m, int fds[static BPF_THINGS_MAX]) {
        const struct cmsghdr *c = CMSG_FIRSTHDR(m);
        size_t n;

        if (!c)
                return 0;
        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS || c->cmsg_len < CMSG_LEN(0))
                return -EBADMSG;
        n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
        memcpy(fds, CMSG_DATA(c), MIN(n, (size_t) BPF_THINGS_MAX) * sizeof(int));
        return n > BPF_THINGS_MAX ? -EBADMSG : (int) n;
}

static bool is_sound(const struct bpf_report *r, size_t fds) {
        if (r->n_things != fds || r->verdict >= _VERDICT_MAX || !memchr(r->name, 0, sizeof(r->name)) ||
            !memchr(r->summary, 0, sizeof(r->summary)) || !memchr(r->reason, 0, sizeof(r->reason)))
                return false;
        for (size_t i = 0; i < r->n_things; i++)
                if (!memchr(r->things[i].name, 0, BPF_NAME_MAX) || r->things[i].kind >= _BPF_THING_MAX)
                        return false;
        return true;
}

static int map_index(const struct set *t, const char *name) {
        for (size_t i = 0; i < t->report.n_things; i++)
                if (t->report.things[i].kind == BPF_THING_MAP && streq(t->report.things[i].name, name))
                        return (int) i;
        return -ENOENT;
}

static void map_figures(struct set *t) {
        int i = map_index(t, "figures");
        void *memory;

        if (i < 0 || t->report.things[i].size == 0)
                return;
        memory = mmap(NULL, t->report.things[i].size, PROT_READ, MAP_SHARED, t->fds[i], 0);
        if (memory == MAP_FAILED) {
                t->report.verdict = VERDICT_UNKNOWN;
                (void) snprintf(t->report.reason, sizeof(t->report.reason),
                                "its figures cannot be mapped: %s", strerror(errno));
                return;
        }
        t->figures = memory;
        t->figures_size = t->report.things[i].size;
}

/* Programs of the kind tp_btf know their tracepoint: they are attached without a name (Linux 5.5,
 * bpf(2)). */
static int attach(int program) {
        union bpf_attr attr;
        long fd;

        memset(&attr, 0, sizeof(attr));
        attr.raw_tracepoint.prog_fd = (uint32_t) program;
        fd = syscall(SYS_bpf, BPF_RAW_TRACEPOINT_OPEN, &attr, sizeof(attr));
        return fd < 0 ? -errno : (int) fd;
}

/* Whether its watch programs could be attached, is known before anybody asks: one of them is tried. */
static void try_watch(struct set *t) {
        struct bpf_report *r = &t->report;
        int fd = 0;

        for (size_t i = 0; i < r->n_things && fd == 0; i++)
                if (r->things[i].kind == BPF_THING_WATCH)
                        fd = attach(t->fds[i]);
        if (fd > 0)
                close_fd(fd);
        if (fd >= 0)
                return;
        r->verdict = VERDICT_UNKNOWN;
        text_append(r->reason, sizeof(r->reason), "; ", "%s",
                    fd == -EPERM ? BPF_WATCH_REFUSED : "its programs cannot be attached");
}

/* 1: a set was taken, 0: that was all, -EAGAIN: nothing is there now. */
static int take_one(struct bpf_sets *s) {
        union {
                char space[CMSG_SPACE(sizeof(int) * BPF_THINGS_MAX)];
                struct cmsghdr align;
        } control;
        struct bpf_report report;
        struct iovec body = { .iov_base = &report, .iov_len = sizeof(report) };
        struct msghdr m = {
                .msg_iov = &body, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof(control)
        };
        int fds[BPF_THINGS_MAX], n;
        struct set *t;
        ssize_t len = recvmsg(s->fd, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

        if (len <= 0)
                return len < 0 ? -errno : 0;
        n = take_descriptors(&m, fds);
        if (n < 0)
                return n;
        t = len == (ssize_t) sizeof(report) && !(m.msg_flags & (MSG_CTRUNC | MSG_TRUNC)) &&
                            is_sound(&report, (size_t) n) && s->n < SETS_MAX
                    ? calloc(1, sizeof(*t))
                    : NULL;
        if (!t) {
                close_all(fds, (size_t) n);
                return -EBADMSG;
        }
        t->report = report;
        memcpy(t->fds, fds, (size_t) n * sizeof(int));
        map_figures(t);
        try_watch(t);
        s->sets[s->n++] = t;
        return 1;
}

int bpf_sets_fd(const struct bpf_sets *s) {
        return s->fd;
}

int bpf_sets_take(struct bpf_sets *s) {
        int r;

        do
                r = take_one(s);
        while (r > 0 || r == -EINTR);
        if (r == -EAGAIN)
                return 0;
        /*
         * Not closed yet: who waits for it takes it out of his epoll first. Of a closed one a child may hold
         * a copy just now, and then epoll goes on telling of it.
         */
        (void) shutdown(s->fd, SHUT_RDWR); /* a loader that still sends ends by this */
        reap(s);
        return r < 0 ? r : 1;
}

/* --- What is asked of them ----------------------------------------------------------------------------- */

size_t bpf_sets_count(const struct bpf_sets *s) {
        return s->n;
}

const struct bpf_report *bpf_sets_report(const struct bpf_sets *s, size_t i) {
        assert(i < s->n);
        return &s->sets[i]->report;
}

static struct set *find_set(const struct bpf_sets *s, const char *name) {
        for (size_t i = 0; s && i < s->n; i++)
                if (streq(s->sets[i]->report.name, name))
                        return s->sets[i];
        return NULL;
}

const char *bpf_sets_reason(const struct bpf_sets *s, const char *set) {
        const struct set *t = find_set(s, set);

        return t ? t->report.reason : "it is not loaded";
}

const void *bpf_sets_figures(const struct bpf_sets *s, const char *set, size_t size) {
        const struct set *t = find_set(s, set);

        return t && t->figures_size == size ? t->figures : NULL;
}

int bpf_sets_map(const struct bpf_sets *s, const char *set, const char *map) {
        const struct set *t = find_set(s, set);
        int i = t ? map_index(t, map) : -ENOENT;

        return i < 0 ? i : t->fds[i];
}

void *bpf_sets_map_memory(struct bpf_sets *s, const char *set, const char *map, size_t size) {
        struct set *t = find_set(s, set);
        int i = t ? map_index(t, map) : -ENOENT;
        void *memory;

        errno = i < 0 ? ENOENT : t->n_mappings == MAPPINGS_MAX ? ENOSPC : EINVAL;
        if (i < 0 || t->n_mappings == MAPPINGS_MAX || t->report.things[i].size != size)
                return NULL;
        for (size_t k = 0; k < t->n_mappings; k++)
                if (t->mappings[k].thing == &t->report.things[i])
                        return t->mappings[k].memory;
        memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fds[i], 0);
        if (memory == MAP_FAILED)
                return NULL;
        t->mappings[t->n_mappings++] = (struct mapping){ .thing = &t->report.things[i], .memory = memory };
        return memory;
}

/* --- Watching ------------------------------------------------------------------------------------------ */

int bpf_sets_watch(struct bpf_sets *s, const char *set) {
        struct set *t = find_set(s, set);
        int r = -ENOENT;

        if (!t)
                return r;
        if (t->n_watching > 0)
                return -EALREADY;
        for (size_t i = 0; i < t->report.n_things; i++) {
                if (t->report.things[i].kind != BPF_THING_WATCH)
                        continue;
                r = attach(t->fds[i]);
                if (r < 0)
                        break;
                t->watching[t->n_watching++] = r;
        }
        if (r < 0)
                bpf_sets_unwatch(s, set);
        return MIN(r, 0);
}

void bpf_sets_unwatch(struct bpf_sets *s, const char *set) {
        struct set *t = find_set(s, set);

        while (t && t->n_watching > 0)
                close_fd(t->watching[--t->n_watching]);
}

bool bpf_sets_watched(const struct bpf_sets *s, const char *set) {
        const struct set *t = find_set(s, set);

        return t && t->n_watching > 0;
}
