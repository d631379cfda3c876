/* SPDX-License-Identifier: Apache-2.0 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "log.h"

#define LINE_SIZE 2048
#define EVENT_FIELDS_MAX 24

static struct {
        const char *program;
        int level;
        bool journal;
} sink = { .program = "tpu-hostd", .level = LOG_INFO };

/* systemd says in JOURNAL_STREAM=DEVICE:INODE which stream is the journal's (systemd.exec(5)). */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
               st.st_dev == device && st.st_ino == inode;
}

void log_open(const char *program) {
        sink.program = program;
        sink.journal = stderr_is_journal();
}

void log_set_level(int level) {
        sink.level = level;
}

int log_full(int priority, int error, const char *fmt, ...) {
        char line[LINE_SIZE];
        va_list ap;

        error = abs(error);
        if (priority > sink.level)
                return -error;
        errno = error; /* for %m */
        va_start(ap, fmt);
        (void) vsnprintf(line, sizeof(line), fmt, ap);
        va_end(ap);
        if (!sink.journal || sd_journal_send("MESSAGE=%s", line, "PRIORITY=%i", priority, "ERRNO=%i", error, NULL) < 0)
                (void) fprintf(stderr, "%s: %s\n", sink.program, line);
        return -error;
}

int log_event(int priority, const char *message_id, const char *message, const char *const *fields, size_t n) {
        struct iovec iov[EVENT_FIELDS_MAX + 3];
        char id[64], text[LINE_SIZE], level[16];
        size_t k = 0;

        if (n > EVENT_FIELDS_MAX)
                return -E2BIG;
        if (!sink.journal) {
                (void) log_full(priority, 0, "%s", message);
                return 0;
        }
        (void) snprintf(id, sizeof(id), "MESSAGE_ID=%s", message_id);
        (void) snprintf(text, sizeof(text), "MESSAGE=%s", message);
        (void) snprintf(level, sizeof(level), "PRIORITY=%d", priority);
        iov[k++] = (struct iovec) { .iov_base = id, .iov_len = strlen(id) };
        iov[k++] = (struct iovec) { .iov_base = text, .iov_len = strlen(text) };
        iov[k++] = (struct iovec) { .iov_base = level, .iov_len = strlen(level) };
        for (size_t i = 0; i < n; i++) {
                /* sd_journal_sendv() only reads; iovec has no const. */
                union {
                        const char *in;
                        void *out;
                } field = { .in = fields[i] };

                iov[k++] = (struct iovec) { .iov_base = field.out, .iov_len = strlen(fields[i]) };
        }
        return sd_journal_sendv(iov, (int) k);
}
