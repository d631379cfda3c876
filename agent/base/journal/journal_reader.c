/* SPDX-License-Identifier: Apache-2.0 */
#include "journal_reader.h"
#include "log.h"

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
        if (!j->timer) {
                if (sd_event_add_time(j->event, &j->timer, CLOCK_MONOTONIC, at, 0, on_timer, j) >= 0)
                        (void) sd_event_source_set_description(j->timer, j->name);
        } else if (sd_event_source_set_time(j->timer, at) >= 0)
                (void) sd_event_source_set_enabled(j->timer, SD_EVENT_ONESHOT);
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
        (void) sd_event_source_set_enabled(j->io, on ? SD_EVENT_ON : SD_EVENT_OFF); /* fails without a loop only */
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
