/* SPDX-License-Identifier: Apache-2.0 */
#define SD_JOURNAL_SUPPRESS_LOCATION
#include <ctype.h>
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

/* "main_pid" -> "TPU_MAIN_PID=123". False: a long text stays out of the journal. */
static bool field_text(const struct event_value *v, char *buf, size_t size) {
        size_t k;

        if (v->text && strlen(v->text) > EVENT_TEXT_MAX)
                return false;
        k = (size_t) snprintf(buf, size, "TPU_%s=", v->key);
        for (size_t i = 0; i < k - 1; i++)
                buf[i] = (char) toupper((unsigned char) buf[i]);
        if (v->text)
                (void) snprintf(buf + k, size - k, "%s", v->text);
        else
                (void) snprintf(buf + k, size - k, "%" PRIi64, v->number);
        return true;
}

int journal_event(const struct event *e) {
        char texts[EVENT_FIELDS_MAX][EVENT_TEXT_MAX + 64], head[4][EVENT_SENTENCE_MAX + 16],
                sentence[EVENT_SENTENCE_MAX];
        const struct event_def *def = event_def(e->id);
        struct event_value values[EVENT_FIELDS_MAX];
        struct iovec iov[EVENT_FIELDS_MAX + ELEMENTSOF(head)];
        size_t n = event_values(e, values), k = 0;

        (void) event_sentence(e, sentence);
        if (!stderr_is_journal()) {
                (void) log_full(severity_priority(e->severity), 0, "%s", sentence);
                return 0;
        }
        (void) snprintf(head[0], sizeof(head[0]), "MESSAGE_ID=%s", def->message_id);
        (void) snprintf(head[1], sizeof(head[1]), "MESSAGE=%s", sentence);
        (void) snprintf(head[2], sizeof(head[2]), "PRIORITY=%d", severity_priority(e->severity));
        (void) snprintf(head[3], sizeof(head[3]), "TPU_EVENT=%s", def->name);
        while (k < ELEMENTSOF(head)) {
                iov[k] = field_of(head[k]);
                k++;
        }
        for (size_t i = 0; i < n; i++)
                if (field_text(&values[i], texts[i], sizeof(texts[i])))
                        iov[k++] = field_of(texts[i]);
        return sd_journal_sendv(iov, (int) k);
}
