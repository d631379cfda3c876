/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_log.h"

#include "probe.h"

#define NEVER USEC_INFINITY

struct waiting {
        uint64_t total;   /* lines since we started */
        uint64_t lines;   /* of them not told yet */
        usec_t told;      /* when it was told last */
        unsigned level;   /* from here on: of the first that was not told */
        bool by_kernel;
        uint64_t seq;
        usec_t at;
        char text[KERNEL_FAULT_TEXT_MAX];
};

struct kernel_log {
        int fd;
        uint64_t seq;  /* the last one read; UINT64_MAX: none */
        uint64_t skip; /* up to here all was dealt with before; UINT64_MAX: nothing was */
        uint64_t lost;
        struct waiting waiting[_KERNEL_FAULT_MAX];
};

int kernel_log_new(int fd, uint64_t after, struct kernel_log **ret) {
        struct kernel_log *l = calloc(1, sizeof(*l));

        if (!l)
                return -ENOMEM;
        l->fd = fd;
        l->seq = l->skip = after;
        for (size_t i = 0; i < _KERNEL_FAULT_MAX; i++)
                l->waiting[i].told = NEVER;
        *ret = l;
        return 0;
}

struct kernel_log *kernel_log_free(struct kernel_log *l) {
        if (!l)
                return NULL;
        close_fd(l->fd);
        free(l);
        return NULL;
}

uint64_t kernel_log_seq(const struct kernel_log *l) {
        return l->seq;
}

static void note(struct kernel_log *l, const struct kmsg_record *r) {
        enum kernel_fault fault = kernel_fault_of(r);
        struct waiting *w;
        size_t n;

        if (fault == _KERNEL_FAULT_MAX)
                return;
        w = &l->waiting[fault];
        w->total++;
        if (w->lines++ > 0)
                return;
        n = MIN(r->len, sizeof(w->text) - 1);
        memcpy(w->text, r->text, n);
        w->text[n] = 0;
        (void) make_printable(w->text);
        w->level = r->level;
        w->by_kernel = r->facility == 0;
        w->seq = r->seq;
        w->at = r->at;
}

static void take(struct kernel_log *l, const char *data, size_t size) {
        struct kmsg_record r;

        if (kmsg_parse(data, size, &r) < 0)
                return; /* not of the kernel's making */
        if (l->skip != UINT64_MAX && r.seq <= l->skip)
                return;
        if (l->seq != UINT64_MAX && r.seq > l->seq)
                l->lost += r.seq - l->seq - 1;
        l->seq = r.seq;
        note(l, &r);
}

int kernel_log_read(struct kernel_log *l) {
        char data[KMSG_RECORD_MAX];

        for (unsigned i = 0; i < KERNEL_LOG_BATCH; i++) {
                ssize_t n = read(l->fd, data, sizeof(data));

                if (n > 0)
                        take(l, data, (size_t) n);
                else if (n == 0)
                        return -ENODATA; /* the end: a kernel log has none */
                else if (errno == EAGAIN)
                        return 0;
                else if (errno != EPIPE && errno != EINVAL && errno != EINTR)
                        return -errno;
                /* EPIPE: the next records were overwritten, the sequence number will tell how many. EINVAL:
                 * this one is longer than any may be, and is skipped. */
        }
        return 1;
}

unsigned kernel_log_tell(struct kernel_log *l, usec_t now, bool all,
                         void (*tell)(const struct kernel_fault_report *r, void *userdata), void *userdata) {
        unsigned told = 0;

        for (enum kernel_fault f = 0; f < _KERNEL_FAULT_MAX; f++) {
                struct waiting *w = &l->waiting[f];
                const struct kernel_fault_report r = {
                        .fault = f,
                        .lines = w->lines,
                        .text = w->text,
                        .level = w->level,
                        .by_kernel = w->by_kernel,
                        .seq = w->seq,
                        .at = w->at,
                };

                if (w->lines == 0 || (!all && w->told != NEVER && now - w->told < KERNEL_FAULT_QUIET))
                        continue;
                tell(&r, userdata);
                w->lines = 0;
                w->told = now;
                told++;
        }
        return told;
}

void kernel_log_sample(const struct kernel_log *l, struct sink *s) {
        put_int(s, METRIC_KERNEL_LOG_READABLE, l != NULL, NULL, NULL, NULL);
        if (!l)
                return;
        put_int(s, METRIC_KERNEL_LOG_LOST, (int64_t) MIN(l->lost, (uint64_t) INT64_MAX), NULL, NULL, NULL);
        for (enum kernel_fault f = 0; f < _KERNEL_FAULT_MAX; f++)
                put_int(s, METRIC_KERNEL_FAULTS, (int64_t) MIN(l->waiting[f].total, (uint64_t) INT64_MAX),
                        kernel_fault_name(f), NULL, NULL);
}
