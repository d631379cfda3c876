/* SPDX-License-Identifier: Apache-2.0 */
#include "lines.h"

#include "child.h"
#include "clock.h"
#include "frame.h"
#include "io.h"
#include "journal.h"
#include "kept_run.h"
#include "texts.h"

#define REPLY_MAX (LINES_PAGE + 4096)

struct lines {
        sd_event *event;
        struct child *child;
        char unit[RUN_UNIT_MAX], *after, *directory;
        uid_t uid;
        uint32_t last;
        usec_t wait;
        lines_done_t done;
        void *userdata;
};

/* --- In the child -------------------------------------------------------------------------------------- */

struct page {
        struct journal_reader journal;
        const struct lines *of;
        char *text, *next; /* next: the place of the entry that was looked at last */
        size_t len;
        bool more;
};

/* systemd's field says whose run it is, and sudo in it changes nothing. A process may write the same field
 * beside it: then all of them count. The last lines of a run may come too late for that field: of them the
 * journal knows whose process it was. */
static bool is_wanted(struct page *p) {
        sd_journal *j = p->journal.journal;
        char run[32], process[32];
        const size_t own = strlen(RUN_UID_FIELD "=");
        const void *field;
        size_t len;
        bool found = false;

        if (p->of->uid == LINES_OF_ALL)
                return true;
        (void) snprintf(run, sizeof(run), RUN_UID_FIELD "=%u", (unsigned) p->of->uid);
        SD_JOURNAL_FOREACH_DATA(j, field, len) {
                if (len < own || memcmp(field, run, own) != 0)
                        continue;
                if (len != strlen(run) || memcmp(field, run, len) != 0)
                        return false;
                found = true;
        }
        (void) snprintf(process, sizeof(process), "_UID=%u", (unsigned) p->of->uid);
        return found || (sd_journal_get_data(j, "_UID", &field, &len) >= 0 && len == strlen(process) &&
                         memcmp(field, process, len) == 0);
}

/* Before the first entry that is wanted. */
static int seek(struct page *p) {
        sd_journal *j = p->journal.journal;
        int r;

        if (p->of->after[0])
                return sd_journal_seek_cursor(j, p->of->after);
        if (p->of->last == 0)
                return sd_journal_seek_head(j);
        r = sd_journal_seek_tail(j);
        for (uint32_t n = 0; r >= 0 && n < p->of->last;) {
                r = sd_journal_previous(j);
                if (r == 0)
                        return sd_journal_seek_head(j);
                n += r > 0 && is_wanted(p);
        }
        return r < 0 ? r : sd_journal_previous(j) == 0 ? sd_journal_seek_head(j) : 0;
}

/* 1: the page is full. */
static int take_line(struct page *p) {
        const char *line;
        size_t len;

        if (!is_wanted(p) || journal_reader_field(&p->journal, "MESSAGE", &line, &len) < 0)
                return 0;
        len = MIN(len, (size_t) LINES_LINE_MAX);
        if (p->len + len + 1 > LINES_PAGE)
                return 1;
        memcpy(p->text + p->len, line, len);
        p->text[p->len + len] = '\n';
        p->len += len + 1;
        return 0;
}

/* All that is there, up to a page. The entry of the place was in the page before; it may have gone. */
static int take_lines(struct page *p) {
        sd_journal *j = p->journal.journal;
        int r = 0;

        while (!p->more && (r = sd_journal_next(j)) > 0) {
                char *place;

                if (!p->next && p->of->after[0] && sd_journal_test_cursor(j, p->of->after) > 0)
                        continue;
                if (take_line(p) == 1) {
                        p->more = true;
                        break;
                }
                r = sd_journal_get_cursor(j, &place);
                if (r < 0)
                        break;
                free(p->next);
                p->next = place;
        }
        return r < 0 ? r : 0;
}

static int wait_for_lines(struct page *p) {
        usec_t now = clock_boot(&clock_system), end = now + p->of->wait;
        int r = 0;

        for (; r >= 0 && p->len == 0 && now < end; now = clock_boot(&clock_system)) {
                r = sd_journal_wait(p->journal.journal, end - now);
                if (r > SD_JOURNAL_NOP)
                        r = take_lines(p);
        }
        if (r < 0 || p->len == 0 || p->of->wait <= LINES_GATHER)
                return r;
        (void) usleep(LINES_GATHER);
        r = sd_journal_process(p->journal.journal);
        return r < 0 ? r : take_lines(p);
}

static int read_page(struct page *p) {
        char match[RUN_UNIT_MAX + 32];
        int r;

        /* the journal's own word, which nobody outside of the unit can write */
        (void) snprintf(match, sizeof(match), "_SYSTEMD_UNIT=%s", p->of->unit);
        r = journal_reader_open(&p->journal, p->of->directory, match, LINES_LINE_MAX);
        if (r < 0)
                return r;
        r = seek(p);
        if (r >= 0)
                r = take_lines(p);
        if (r >= 0)
                r = wait_for_lines(p);
        journal_reader_close(&p->journal);
        return MIN(r, 0);
}

static int run(int fd, const void *data) {
        Local__LinesReply reply = LOCAL__LINES_REPLY__INIT;
        struct page p = { .of = data, .text = malloc(LINES_PAGE) };
        uint8_t *packed;
        int r = p.text ? read_page(&p) : -ENOMEM;

        if (r < 0)
                return r;
        reply.text.data = (uint8_t *) p.text;
        reply.text.len = p.len;
        reply.next = p.next ? p.next : p.of->after;
        reply.more = p.more;
        packed = malloc(local__lines_reply__get_packed_size(&reply));
        return packed ? io_write_all(fd, packed, local__lines_reply__pack(&reply, packed)) : -ENOMEM;
}

/* --- In the parent ------------------------------------------------------------------------------------- */

static void on_done(int result, const char *answer, size_t len, void *userdata) {
        struct lines *l = userdata;
        Local__LinesReply *reply = NULL;

        if (result == 0)
                reply = local__lines_reply__unpack(NULL, len, (const uint8_t *) answer);
        l->done(reply, result < 0 ? result : reply ? 0 : -EBADMSG, l->userdata);
        if (reply)
                local__lines_reply__free_unpacked(reply, NULL);
}

static int start_reading(struct lines *l) {
        const struct child_work work = { .name = "run-lines",
                                         .timeout = l->wait + LINES_TIMEOUT,
                                         .max = REPLY_MAX,
                                         .run = run,
                                         .data = l,
                                         .done = on_done,
                                         .userdata = l };

        return child_start(l->event, &work, &l->child);
}

int lines_new(sd_event *e, const struct lines_of *of, lines_done_t done, void *userdata,
              struct lines **ret) {
        _cleanup_(lines_freep) struct lines *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->event = sd_event_ref(e);
        (void) run_unit(of->name, l->unit);
        l->after = strdup(of->after);
        if (!of->host->real_root && asprintf(&l->directory, "%s/var/log/journal", of->host->root) < 0)
                l->directory = NULL;
        if (!l->after || (!of->host->real_root && !l->directory))
                return -ENOMEM;
        l->uid = of->uid;
        l->last = MIN(of->last, (uint32_t) LINES_LAST_MAX);
        l->wait = MIN(of->wait, LINES_WAIT_MAX);
        l->done = done;
        l->userdata = userdata;
        r = start_reading(l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

int lines_hurry(struct lines *l) {
        if (l->wait <= LINES_GATHER)
                return 0;
        l->child = child_free(l->child);
        l->wait = LINES_GATHER; /* journald may take its last lines after the run itself is gone */
        return start_reading(l);
}

struct lines *lines_free(struct lines *l) {
        if (!l)
                return NULL;
        l->child = child_free(l->child);
        l->event = sd_event_unref(l->event);
        free(l->after);
        free(l->directory);
        free(l);
        return NULL;
}
