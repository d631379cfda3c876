/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel_log.h"

#include <assert.h>

/* --- Faults -------------------------------------------------------------------------------------------- */

#define LEVEL_WARNING 4
#define LEVEL_ANY 7

static const struct {
        const char *name, *meaning;
        bool mild;
} faults[] = {
        [KERNEL_FAULT_PCIE_UNCORRECTED] = { "pcie_uncorrected",
                                            "a PCI Express device reported an error that was not corrected",
                                            false },
        [KERNEL_FAULT_PCIE_CORRECTED] = { "pcie_corrected", "a PCI Express link corrected errors", true },
        [KERNEL_FAULT_MACHINE_CHECK] = { "machine_check", "processor or memory reported an error", false },
        [KERNEL_FAULT_HUNG_TASK] = { "hung_task", "a task waits in the kernel without an end", true },
        [KERNEL_FAULT_LOCKUP] = { "lockup", "a CPU does not leave the kernel", false },
        [KERNEL_FAULT_OOM] = { "oom", "the kernel killed a process for want of memory", false },
        [KERNEL_FAULT_VFIO] = { "vfio", "the driver that hands out the TPU chips complains", false },
        [KERNEL_FAULT_IOMMU] = { "iommu", "a device touched memory that it may not touch", false },
        [KERNEL_FAULT_NIC_RESET] = { "nic_reset", "a NIC hung or was reset", false },
        [KERNEL_FAULT_DISK] = { "disk", "a disk or file system reported an error", false },
        [KERNEL_FAULT_CONNTRACK_FULL] = { "conntrack_full",
                                          "the table of connections is full, packets are dropped", true },
        [KERNEL_FAULT_THERMAL] = { "thermal", "a processor is too hot and slows down", true },
        [KERNEL_FAULT_KERNEL_BUG] = { "kernel_bug", "the kernel itself failed", false },
};
_Static_assert(ELEMENTSOF(faults) == _KERNEL_FAULT_MAX, "each fault has its row");

/*
 * The kernel's own words (Linux: drivers/pci/pcie/aer.c, arch/x86/kernel/cpu/mce, kernel/hung_task.c,
 * kernel/watchdog.c, kernel/rcu/tree_stall.h, mm/oom_kill.c, drivers/vfio, drivers/iommu,
 * net/sched/sch_generic.c, drivers/net/ethernet/google/gve, block/blk-core.c, fs/ext4/super.c, fs/xfs,
 * net/netfilter/nf_conntrack_core.c). Both texts must be there; the first rule wins.
 */
static const struct {
        enum kernel_fault fault;
        const char *first, *second; /* second: NULL: none */
        unsigned level;             /* this or more severe */
} rules[] = {
        { KERNEL_FAULT_PCIE_UNCORRECTED, "AER:", "ncorrect", LEVEL_ANY },
        { KERNEL_FAULT_PCIE_UNCORRECTED, "PCIe Bus Error:", "ncorrect", LEVEL_ANY },
        { KERNEL_FAULT_PCIE_CORRECTED, "AER:", "orrected error", LEVEL_ANY },
        { KERNEL_FAULT_PCIE_CORRECTED, "PCIe Bus Error:", "severity=Corrected", LEVEL_ANY },
        { KERNEL_FAULT_MACHINE_CHECK, "[Hardware Error]", NULL, LEVEL_ANY },
        { KERNEL_FAULT_MACHINE_CHECK, "Machine check events logged", NULL, LEVEL_ANY },
        { KERNEL_FAULT_MACHINE_CHECK, "EDAC ", " UE ", LEVEL_ANY },
        { KERNEL_FAULT_MACHINE_CHECK, "EDAC ", " CE ", LEVEL_ANY },
        { KERNEL_FAULT_HUNG_TASK, "INFO: task ", " blocked for more than ", LEVEL_ANY },
        { KERNEL_FAULT_LOCKUP, "soft lockup", NULL, LEVEL_ANY },
        { KERNEL_FAULT_LOCKUP, "hard LOCKUP", NULL, LEVEL_ANY },
        { KERNEL_FAULT_LOCKUP, "rcu", "detected stall", LEVEL_ANY },
        { KERNEL_FAULT_OOM, "ut of memory: Kill", NULL, LEVEL_ANY },
        { KERNEL_FAULT_VFIO, "vfio", NULL, LEVEL_WARNING },
        { KERNEL_FAULT_IOMMU, "DMAR:", "fault", LEVEL_ANY },
        { KERNEL_FAULT_IOMMU, "IO_PAGE_FAULT", NULL, LEVEL_ANY },
        { KERNEL_FAULT_NIC_RESET, "NETDEV WATCHDOG", NULL, LEVEL_ANY },
        { KERNEL_FAULT_NIC_RESET, "gve ", "eset", LEVEL_ANY },
        { KERNEL_FAULT_DISK, "I/O error", "dev ", LEVEL_ANY },
        { KERNEL_FAULT_DISK, "EXT4-fs error", NULL, LEVEL_ANY },
        { KERNEL_FAULT_DISK, "Remounting filesystem read-only", NULL, LEVEL_ANY },
        { KERNEL_FAULT_DISK, "XFS (", "orruption", LEVEL_ANY },
        { KERNEL_FAULT_CONNTRACK_FULL, "nf_conntrack: table full", NULL, LEVEL_ANY },
        { KERNEL_FAULT_CONNTRACK_FULL, "nf_conntrack: nf_conntrack: table full", NULL, LEVEL_ANY },
        { KERNEL_FAULT_THERMAL, "temperature", "above threshold", LEVEL_ANY },
        { KERNEL_FAULT_KERNEL_BUG, "kernel BUG at ", NULL, LEVEL_ANY },
        { KERNEL_FAULT_KERNEL_BUG, "BUG: ", NULL, LEVEL_WARNING },
        { KERNEL_FAULT_KERNEL_BUG, "Oops:", NULL, LEVEL_WARNING },
        { KERNEL_FAULT_KERNEL_BUG, "general protection fault", NULL, 3 }, /* at 6 a process had it */
};

const char *kernel_fault_name(enum kernel_fault f) {
        assert(f < _KERNEL_FAULT_MAX);
        return faults[f].name;
}

const char *kernel_fault_meaning(enum kernel_fault f) {
        return faults[f].meaning;
}

bool kernel_fault_is_mild(enum kernel_fault f) {
        return faults[f].mild;
}

static bool record_holds(const struct kmsg_record *r, const char *text) {
        return memmem(r->text, r->len, text, strlen(text)) != NULL;
}

enum kernel_fault kernel_fault_of(const struct kmsg_record *r) {
        for (size_t i = 0; i < ELEMENTSOF(rules); i++)
                if (r->level <= rules[i].level && record_holds(r, rules[i].first) &&
                    (!rules[i].second || record_holds(r, rules[i].second)))
                        return rules[i].fault;
        return _KERNEL_FAULT_MAX;
}

/* One number of the heading, and the character behind it. */
static bool take_heading(const char **p, const char *end, uint64_t *ret, char *ret_after) {
        uint64_t v = 0;
        const char *c = *p;

        for (; c < end && *c >= '0' && *c <= '9'; c++)
                if (__builtin_mul_overflow(v, 10u, &v) ||
                    __builtin_add_overflow(v, (uint64_t) (*c - '0'), &v))
                        return false;
        if (c == *p || c == end)
                return false;
        *ret = v;
        *ret_after = *c;
        *p = c + 1;
        return true;
}

int kmsg_parse(const char *data, size_t size, struct kmsg_record *ret) {
        const char *p = data, *end = data + size, *semicolon, *newline;
        uint64_t priority, seq, at;
        char after;

        if (!take_heading(&p, end, &priority, &after) || after != ',' || priority > UINT16_MAX ||
            !take_heading(&p, end, &seq, &after) || after != ',' || !take_heading(&p, end, &at, &after) ||
            (after != ',' && after != ';'))
                return -EBADMSG;
        /* Flags, and what later kernels add, end at the semicolon. */
        semicolon = after == ';' ? p - 1 : memchr(p, ';', (size_t) (end - p));
        if (!semicolon)
                return -EBADMSG;
        newline = memchr(semicolon, '\n', (size_t) (end - semicolon));
        *ret = (struct kmsg_record){
                .level = (unsigned) priority & 7,
                .facility = (unsigned) priority >> 3,
                .seq = seq,
                .at = at,
                .text = semicolon + 1,
                .len = (size_t) ((newline ? newline : end) - (semicolon + 1)),
        };
        return 0;
}

/* --- The log ------------------------------------------------------------------------------------------- */

#define NEVER USEC_INFINITY

struct waiting {
        uint64_t total;   /* lines since we started */
        uint64_t lines;   /* of them not reported yet */
        usec_t told;      /* when it was reported last */
        unsigned level;   /* from here on: of the first that was not reported */
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

static void note_record(struct kernel_log *l, const struct kmsg_record *r) {
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

static void take_record(struct kernel_log *l, const char *data, size_t size) {
        struct kmsg_record r;

        if (kmsg_parse(data, size, &r) < 0)
                return; /* not of the kernel's making */
        if (l->skip != UINT64_MAX && r.seq <= l->skip)
                return;
        if (l->seq != UINT64_MAX && r.seq > l->seq)
                l->lost += r.seq - l->seq - 1;
        l->seq = r.seq;
        note_record(l, &r);
}

int kernel_log_read(struct kernel_log *l) {
        char data[KMSG_RECORD_MAX];

        for (unsigned i = 0; i < KERNEL_LOG_BATCH; i++) {
                ssize_t n = read(l->fd, data, sizeof(data));

                if (n > 0)
                        take_record(l, data, (size_t) n);
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
