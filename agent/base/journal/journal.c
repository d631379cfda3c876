/* SPDX-License-Identifier: Apache-2.0 */
#include "journal.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <systemd/sd-journal.h>

#include "log.h"
#include "loop_timer.h"

#define SD_JOURNAL_SUPPRESS_LOCATION

/* systemd says in JOURNAL_STREAM=DEVICE:INODE which stream is the journal's (systemd.exec(5)). */
static bool stderr_is_journal(void) {
        const char *stream = getenv("JOURNAL_STREAM");
        unsigned long long device, inode;
        struct stat st;

        return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
               fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static bool send_line(int priority, int error, const char *line) {
        return sd_journal_send("MESSAGE=%s", line, "PRIORITY=%i", priority, "ERRNO=%i", error, NULL) >= 0;
}

void journal_open(const char *program) {
        log_open(program);
        if (stderr_is_journal())
                log_set_sink(send_line);
}

bool journal_is_away(const struct host *h) {
        _cleanup_close_ int folder = host_open_file(h, "/run/systemd/journal", O_PATH | O_DIRECTORY);
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        struct sockaddr_un to = { .sun_family = AF_UNIX };

        if (folder < 0 || fd < 0)
                return false;
        (void) snprintf(to.sun_path, sizeof(to.sun_path), "/proc/self/fd/%d/socket", folder);
        return connect(fd, (const struct sockaddr *) &to, sizeof(to)) < 0 &&
               (errno == ECONNREFUSED || errno == ENOENT);
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

/* --- Reading ------------------------------------------------------------------------------------------ */

int journal_reader_field(struct journal_reader *j, const char *name, const char **ret, size_t *ret_len) {
        const void *data;
        size_t len, skip = strlen(name) + 1; /* "NAME=" */
        int r;

        r = sd_journal_get_data(j->journal, name, &data, &len);
        if (r < 0)
                return r;
        if (len < skip)
                return -EBADMSG;
        *ret = (const char *) data + skip;
        *ret_len = len - skip;
        return 0;
}

void journal_reader_invocation(struct journal_reader *j, char ret[static 33]) {
        const char *text;
        size_t len;

        if (journal_reader_field(j, "_SYSTEMD_INVOCATION_ID", &text, &len) < 0 || len != 32) {
                memcpy(ret, "-", 2);
                return;
        }
        memcpy(ret, text, len);
        ret[len] = '\0';
        if (strspn(ret, "0123456789abcdef") != len)
                memcpy(ret, "-", 2);
}

/* --- Changes ------------------------------------------------------------------------------------------- */

static void process_changes(struct journal_reader *j);

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        (void) source;
        (void) usec;
        process_changes(userdata);
        return 0;
}

static int on_change(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        (void) source;
        (void) fd;
        (void) revents;
        process_changes(userdata);
        return 0;
}

static void arm_timer(struct journal_reader *j) {
        uint64_t at = UINT64_MAX;
        int r = sd_journal_get_timeout(j->journal, &at);

        if (r < 0 || at == UINT64_MAX || j->off) {
                j->timer = sd_event_source_disable_unref(j->timer);
                return;
        }
        if (j->timer || loop_timer_new(j->event, CLOCK_MONOTONIC, 0, j->name, on_timer, j, &j->timer) == 0)
                (void) loop_timer_at(j->timer, at); /* fails only when the loop ends */
}

int journal_reader_process(struct journal_reader *j) {
        int what = sd_journal_process(j->journal);

        if (what < 0)
                (void) log_warning_errno(what, "changes of the journal cannot be followed: %m");
        return what;
}

static void process_changes(struct journal_reader *j) {
        j->changed(journal_reader_process(j), j->userdata);
        arm_timer(j);
}

bool journal_reader_watch(struct journal_reader *j, bool on) {
        if (j->off != on)
                return false;
        j->off = !on;
        /* fails without a loop */
        (void) sd_event_source_set_enabled(j->io, on ? SD_EVENT_ON : SD_EVENT_OFF);
        arm_timer(j);
        return true;
}

/* --- Life ---------------------------------------------------------------------------------------------- */

int journal_reader_open(struct journal_reader *j, const char *directory, const char *match,
                        size_t line_max) {
        int r;

        *j = (struct journal_reader){ 0 };
        /* Not SD_JOURNAL_SYSTEM: what runs of ordinary users print is in files of those users. */
        r = directory ? sd_journal_open_directory(&j->journal, directory, 0) :
                        sd_journal_open(&j->journal, SD_JOURNAL_LOCAL_ONLY);
        if (r >= 0)
                r = sd_journal_add_match(j->journal, match, 0);
        if (r >= 0)
                r = sd_journal_set_data_threshold(j->journal, line_max + 64); /* "NAME=" counts */
        if (r >= 0) /* watches from here on, before anybody seeks: nothing falls between */
                r = sd_journal_get_fd(j->journal);
        if (r < 0)
                journal_reader_close(j);
        return MIN(r, 0);
}

int journal_reader_follow(struct journal_reader *j, sd_event *e, const char *name,
                          void (*changed)(int what, void *userdata), void *userdata) {
        int r;

        j->event = sd_event_ref(e);
        j->name = name;
        j->changed = changed;
        j->userdata = userdata;
        r = sd_event_add_io(e, &j->io, sd_journal_get_fd(j->journal),
                            (uint32_t) sd_journal_get_events(j->journal), on_change, j);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(j->io, name);
        arm_timer(j);
        return 0;
}

void journal_reader_close(struct journal_reader *j) {
        j->io = sd_event_source_disable_unref(j->io);
        j->timer = sd_event_source_disable_unref(j->timer);
        sd_journal_close(j->journal);
        j->journal = NULL;
        j->event = sd_event_unref(j->event);
}
