/* SPDX-License-Identifier: Apache-2.0 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <sys/stat.h>
#include <sys/uio.h>
#include <systemd/sd-journal.h>

#include "journal.h"

/* systemd says in JOURNAL_STREAM=DEVICE:INODE which stream is the journal's (systemd.exec(5)). */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(STDERR_FILENO, &st) == 0 &&
               st.st_dev == device && st.st_ino == inode;
}

static bool send_line(int priority, int error, const char *line) {
        return sd_journal_send("MESSAGE=%s", line, "PRIORITY=%i", priority, "ERRNO=%i", error, NULL) >= 0;
}

void journal_open(const char *program) {
        log_open(program);
        if (stderr_is_journal())
                log_set_sink(send_line);
}

/* sd_journal_sendv() only reads; iovec has no const. */
static struct iovec field_of(const char *text) {
        union {
                const char *in;
                void *out;
        } field = { .in = text };

        return (struct iovec) { .iov_base = field.out, .iov_len = strlen(text) };
}

int journal_event(int priority, const char *message_id, const char *message, const char *const *fields, size_t n) {
        struct iovec iov[JOURNAL_FIELDS_MAX + 3];
        char id[64], text[LOG_LINE_MAX], level[16];
        size_t k = 0;

        if (n > JOURNAL_FIELDS_MAX)
                return -E2BIG;
        if (!stderr_is_journal()) {
                (void) log_full(priority, 0, "%s", message);
                return 0;
        }
        (void) snprintf(id, sizeof(id), "MESSAGE_ID=%s", message_id);
        (void) snprintf(text, sizeof(text), "MESSAGE=%s", message);
        (void) snprintf(level, sizeof(level), "PRIORITY=%d", priority);
        iov[k++] = field_of(id);
        iov[k++] = field_of(text);
        iov[k++] = field_of(level);
        for (size_t i = 0; i < n; i++)
                iov[k++] = field_of(fields[i]);
        return sd_journal_sendv(iov, (int) k);
}
