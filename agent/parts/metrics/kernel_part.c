/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel log in the loop. The first line after silence wakes us; then it is read at the tick, so that a
 * chatty kernel costs no wakeup a line, and a flood no more than KERNEL_BATCHES_MAX batches an interval.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>

#include "metrics_part.h"

#include "kernel_log.h"
#include "log.h"
#include "paths.h"
#include "state_file.h"

/* 32 × KERNEL_LOG_BATCH: more than the largest usual log holds (1 MiB), so that what is lost was
 * overwritten, not left out. */
#define KERNEL_BATCHES_MAX 32
#define MARK PATH_HOSTD_STATE "/kernel-log"
#define KMSG_MAJOR 1 /* Linux, Documentation/admin-guide/devices.txt */
#define KMSG_MINOR 11

struct kernel_state {
        struct bus *bus;
        struct kernel_log *log; /* NULL: it is not watched */
        sd_event_source *source;
        unsigned batches; /* since the last tick */
        bool broken, mark_failed;
};

/* --- How far it was dealt with ------------------------------------------------------------------------- */

/*
 * "BOOT-ID SEQUENCE". The disk is not waited for: a power cut ends the boot, and with it what the mark is
 * about. It is not there at the first start of a boot: then the whole log of the kernel counts.
 */
static const struct state_format mark_format = {
        .what = "kernel-log", .version = 1, .max = 128, .options = { .mode = 0600, .lazy = true }
};

static uint64_t read_mark(const struct bus *b) {
        _cleanup_free_ char *text = NULL;
        char boot_id[BOOT_ID_MAX];
        uint64_t seq;
        size_t len;

        if (state_file_load(AT_FDCWD, MARK, &mark_format, &text, &len) < 0 ||
            sscanf(text, "%36s %" SCNu64, boot_id, &seq) != 2 || !streq(boot_id, b->boot_id))
                return UINT64_MAX;
        return seq;
}

static void write_mark(struct kernel_state *k) {
        char text[BOOT_ID_MAX + 32];
        int r;

        if (kernel_log_seq(k->log) == UINT64_MAX || k->bus->boot_id[0] == 0)
                return;
        (void) snprintf(text, sizeof(text), "%s %" PRIu64, k->bus->boot_id, kernel_log_seq(k->log));
        r = state_file_write(AT_FDCWD, MARK, &mark_format, text, strlen(text));
        if (r < 0 && !k->mark_failed)
                (void) log_warning_errno(
                        r, "%s cannot be written, a restart reports kernel faults again: %m", MARK);
        k->mark_failed = r < 0;
}

/* --- Faults become events ------------------------------------------------------------------------------ */

static void report_fault(const struct kernel_fault_report *f, void *userdata) {
        const struct kernel_state *k = userdata;

        (void) bus_emit(k->bus,
                          EVENT_AS(KERNEL_FAULT,
                                   kernel_fault_is_mild(f->fault) ? SEVERITY_WARN : SEVERITY_ERROR,
                                   .fault = kernel_fault_name(f->fault),
                                   .meaning = kernel_fault_meaning(f->fault),
                                   .lines = (int64_t) MIN(f->lines, (uint64_t) INT64_MAX), .text = f->text,
                                   .level = f->level, .from = f->by_kernel ? "kernel" : "process",
                                   .seq = (int64_t) MIN(f->seq, (uint64_t) INT64_MAX),
                                   .boot_usec = (int64_t) MIN(f->at, (uint64_t) INT64_MAX)),
                          NULL);
}

static void report_faults(struct kernel_state *k, bool all) {
        if (kernel_log_tell(k->log, host_now(k->bus->host), all, report_fault, k) > 0)
                write_mark(k);
}

/* --- The loop ------------------------------------------------------------------------------------------ */

static void listen_again(struct kernel_state *k, bool on) {
        int r = sd_event_source_set_enabled(k->source, on ? SD_EVENT_ON : SD_EVENT_OFF);

        if (r < 0)
                (void) log_error_errno(r, "the kernel log is not watched any more: %m");
}

static int on_readable(sd_event_source *source, int fd, uint32_t events, void *userdata) {
        struct kernel_state *k = userdata;
        int r = kernel_log_read(k->log);

        (void) source;
        (void) fd;
        (void) events;
        k->batches++;
        if (r < 0 && !k->broken)
                (void) log_error_errno(r, "the kernel log cannot be read, it is tried again: %m");
        k->broken = r < 0;
        report_faults(k, false);
        if (r <= 0 || k->batches >= KERNEL_BATCHES_MAX)
                listen_again(k, false);
        return 0;
}

/* What waits is reported, and it is listened to again. */
static void sample_kernel(void *self, struct bus_sink *s) {
        struct kernel_state *k = self;

        kernel_log_sample(k->broken ? NULL : k->log, &s->sink);
        if (!k->log)
                return;
        report_faults(k, false);
        k->batches = 0;
        listen_again(k, true);
}

/* --- Start and end ------------------------------------------------------------------------------------- */

/* The unit has systemd open /dev/kmsg as our standard input, so that we need no capability for it. Workers
 * must not have it: they get our input, too. */
static int take_stdin(const struct bus *b) {
        _cleanup_close_ int null = -1;
        struct stat st;
        int fd;

        if (fstat(STDIN_FILENO, &st) < 0 || !S_ISCHR(st.st_mode) ||
            st.st_rdev != makedev(KMSG_MAJOR, KMSG_MINOR))
                return -ENODEV;
        fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
        if (fd < 0)
                return -errno;
        null = host_open_file(b->host, "/dev/null", O_RDONLY);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || fcntl(fd, F_SETFL, O_NONBLOCK) < 0) {
                close_fd(fd);
                return null < 0 ? null : -errno;
        }
        return fd;
}

static int start_kernel(void *self) {
        struct kernel_state *k = self;
        const struct bus *b = k->bus;
        int fd, r;

        if (!b->host->real_root)
                return 0; /* a folder has no kernel */
        fd = take_stdin(b);
        if (fd < 0)
                fd = host_open_file(b->host, "/dev/kmsg", O_RDONLY);
        if (fd < 0) {
                (void) log_warning_errno(fd, "the kernel log cannot be read, its faults are not seen (the "
                                             "unit has systemd open /dev/kmsg as standard input): %m");
                return 0;
        }
        r = kernel_log_new(fd, read_mark(b), &k->log);
        if (r < 0) {
                close_fd(fd);
                return r;
        }
        r = sd_event_add_io(b->event, &k->source, fd, EPOLLIN, on_readable, k);
        if (r >= 0)
                (void) sd_event_source_set_description(k->source, "kernel-log");
        return r;
}

static void stop_kernel(void *self) {
        struct kernel_state *k = self;

        if (k->log)
                report_faults(k, true);
        k->source = sd_event_source_disable_unref(k->source);
        k->log = kernel_log_free(k->log);
}

const struct part kernel_part = {
        .name = "kernel",
        .size = sizeof(struct kernel_state),
        .start = start_kernel,
        .sample = sample_kernel,
        .stop = stop_kernel,
};
