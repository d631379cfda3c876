/* SPDX-License-Identifier: Apache-2.0 */
#include "journal.h"
#include "log.h"
#include "run_lines.h"

#include <assert.h>
#include <fcntl.h>

#include "journal.h"
#include "json_fields.h"
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"
#include "run_key.h"
#include "run_log.h"
#include "state_file.h"

struct run_lines {
        sd_event *event;
        struct journal_reader reader;
        sd_journal *journal; /* its */
        sd_event_source *timer;
        const struct run_lines_handlers *handlers;
        void *userdata;
        char *path;
        struct run_lines_state durable, state; /* state: with the batch that is being written */
        uint64_t waiting;  /* the record that is to be durable; 0: none */
        bool news;         /* there may be more to read */
        bool here;         /* the entry that the journal stands on was not read yet */
        bool save_failed;
        usec_t last;       /* boot clock: when the last batch was handed on */
        double tokens;
        usec_t filled;     /* boot clock: when tokens were counted */
        uint64_t dropped;
};

/* --- The state ----------------------------------------------------------------------------------------- */

static const struct state_format format = {
        .what = "run-lines", .version = 1, .max = 64 * 1024, .options = { .mode = 0600, .lazy = true }
};

struct run_lines_part *run_lines_part(struct run_lines_state *s, const char *run, const char *invocation) {
        struct run_lines_part *p = NULL, *oldest = &s->parts[0];

        assert(s->n <= RUN_LINES_PARTS_MAX);
        for (size_t i = 0; i < s->n && !p; i++) {
                if (streq(s->parts[i].invocation, invocation) && streq(s->parts[i].run, run))
                        p = &s->parts[i];
                if (s->parts[i].used < oldest->used)
                        oldest = &s->parts[i];
        }
        if (!p) {
                p = s->n < RUN_LINES_PARTS_MAX ? &s->parts[s->n++] : oldest;
                *p = (struct run_lines_part) { 0 };
                (void) snprintf(p->run, sizeof(p->run), "%s", run);
                (void) snprintf(p->invocation, sizeof(p->invocation), "%s", invocation);
        }
        p->used = ++s->clock;
        return p;
}

#define FIELD(...) JSON_FIELD(struct run_lines_part, __VA_ARGS__)
static const struct json_field fields[] = {
        FIELD(WORD, "run", run),
        FIELD(WORD, "invocation", invocation),
        FIELD(NUMBER, "number", number),
};

static int take_parts(const json_t *list, struct run_lines_state *s) {
        const json_t *v;
        size_t i;

        if (!json_is_array(list) || json_array_size(list) > RUN_LINES_PARTS_MAX)
                return -EBADMSG;
        json_array_foreach (list, i, v) {
                struct run_lines_part p = { 0 };

                if (json_fields_take(v, fields, ELEMENTSOF(fields), &p) < 0 || !run_name_is_valid(p.run))
                        return -EBADMSG;
                run_lines_part(s, p.run, p.invocation)->number = p.number;
        }
        return 0;
}

int run_lines_load(const char *path, struct run_lines_state *s) {
        json_t *o;
        int r;

        *s = (struct run_lines_state) { 0 };
        r = state_file_load_json(AT_FDCWD, path, &format, &o);
        if (r < 0)
                return r;
        r = take_parts(json_object_get(o, "parts"), s);
        (void) snprintf(s->cursor, sizeof(s->cursor), "%s", json_text_of(o, "cursor"));
        json_decref(o);
        if (r == 0 && !s->cursor[0])
                r = -EBADMSG;
        if (r < 0)
                *s = (struct run_lines_state) { 0 };
        return r;
}

int run_lines_save(const char *path, const struct run_lines_state *s) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < s->n; i++)
                list = json_list_add(list, json_fields_pack(fields, ELEMENTSOF(fields), &s->parts[i]));
        if (!list)
                return -ENOMEM;
        return state_file_write_json(AT_FDCWD, path, &format,
                                     json_pack("{s:s, s:o}", "cursor", s->cursor, "parts", list));
}

static usec_t boot_now(const struct run_lines *l) {
        usec_t now = 0;

        (void) sd_event_now(l->event, CLOCK_BOOTTIME, &now);
        return now;
}

/* --- One entry ----------------------------------------------------------------------------------------- */

static void copy_text(char ret[static RUN_LINE_MAX + sizeof(RUN_LINE_CUT)], const char *text, size_t len) {
        bool cut = len > RUN_LINE_MAX;

        if (cut) /* in front of a character of several bytes, not inside */
                for (len = RUN_LINE_MAX; len > RUN_LINE_MAX - 4 && ((uint8_t) text[len] & 0xc0) == 0x80;)
                        len--;
        for (size_t i = 0; i < len; i++)
                ret[i] = text[i] ? text[i] : '?';
        memcpy(ret + len, cut ? RUN_LINE_CUT : "", cut ? sizeof(RUN_LINE_CUT) : 1);
}

/* 1: may go out; 0: it is one too many, and too old to wait; -EAGAIN: it has to wait. */
static int pace_lines(struct run_lines *l, usec_t time_real) {
        usec_t now = boot_now(l), real = 0;

        l->tokens = MIN(l->tokens + (double) (now - l->filled) * RUN_LINES_RATE / USEC_PER_SEC,
                        (double) RUN_LINES_BURST);
        l->filled = now;
        if (l->tokens >= 1)
                return 1;
        (void) sd_event_now(l->event, CLOCK_REALTIME, &real);
        return real > time_real && real - time_real > RUN_LINES_BEHIND ? 0 : -EAGAIN;
}

/* 0: it is done with; -EAGAIN, -E2BIG: it has to come again, later or in the next batch. */
static int take_entry(struct run_lines *l) {
        char run[64], invocation[33], text[RUN_LINE_MAX + sizeof(RUN_LINE_CUT)];
        const char *unit, *message, *priority;
        struct run_lines_part *part;
        uint64_t real = 0;
        size_t len, n;
        int r;

        if (journal_reader_field(&l->reader, "_SYSTEMD_UNIT", &unit, &n) < 0 ||
            run_log_name_of_unit(unit, n, run) < 0)
                return 0;
        (void) sd_journal_get_realtime_usec(l->journal, &real); /* 0 then: not known */
        journal_reader_invocation(&l->reader, invocation);
        r = pace_lines(l, real);
        if (r < 0)
                return r;
        part = run_lines_part(&l->state, run, invocation);
        part->number++;
        if (r == 0) {
                l->dropped++;
                return 0;
        }
        const struct run_line line = {
                .run = run,
                .invocation = invocation,
                .number = part->number,
                .time_real = real,
                .priority = journal_reader_field(&l->reader, "PRIORITY", &priority, &n) >= 0 && n == 1 &&
                                            *priority >= '0' && *priority <= '7' ?
                                    *priority - '0' : 6,
                .text = text,
        };
        if (journal_reader_field(&l->reader, "MESSAGE", &message, &len) < 0)
                len = 0;
        copy_text(text, len > 0 ? message : "", len);
        r = l->handlers->add(&line, l->userdata);
        if (r < 0)
                part->number--;
        else
                l->tokens--;
        return r;
}

/* --- A batch ------------------------------------------------------------------------------------------- */

static void schedule_batch(struct run_lines *l, usec_t at) {
        usec_t now = boot_now(l);

        (void) loop_timer_in(l->timer, at - MIN(at, now)); /* fails only when the loop ends */
}

/* The entry that was read last becomes the state's. */
static int take_cursor(struct run_lines *l, char ret[static RUN_LINES_CURSOR_MAX]) {
        char *cursor;
        int r;

        r = sd_journal_get_cursor(l->journal, &cursor);
        if (r < 0)
                return r;
        r = strlen(cursor) < RUN_LINES_CURSOR_MAX ? 0 : -E2BIG;
        if (r == 0)
                memcpy(ret, cursor, strlen(cursor) + 1);
        free(cursor);
        return r;
}

/* To the entry behind the state's. Sets l->here when the journal stands on it. */
static int go_back(struct run_lines *l) {
        int r;

        l->here = false;
        if (streq(l->state.cursor, RUN_LINES_HEAD))
                return sd_journal_seek_head(l->journal);
        r = sd_journal_seek_cursor(l->journal, l->state.cursor);
        if (r >= 0)
                r = sd_journal_next(l->journal);
        if (r <= 0) /* nothing there, or nothing any more: what comes is new */
                return r;
        r = sd_journal_test_cursor(l->journal, l->state.cursor);
        if (r != 0)
                return r < 0 ? r : 0;
        l->here = true;
        for (size_t i = 0; i < l->state.n; i++) /* the journal has dropped some; how many, nobody knows */
                l->state.parts[i].number++;
        log_warning("the journal has dropped lines of runs before they were sent "
                    "(journald.conf: SystemMaxUse=)");
        return 0;
}

static void forget_batch(struct run_lines *l, int error) {
        int r;

        (void) log_warning_errno(error, "lines of runs cannot be kept for the collector now, "
                                        "they are read again: %m");
        l->state = l->durable;
        r = go_back(l);
        if (r < 0)
                (void) log_warning_errno(r, "the journal cannot be read on, lines of runs are missed: %m");
        l->news = true;
        schedule_batch(l, boot_now(l) + RUN_LINES_AGAIN);
}

static void save_durable(struct run_lines *l) {
        int r = run_lines_save(l->path, &l->durable);

        if (r < 0 && !l->save_failed)
                (void) log_warning_errno(r, "%s: %m (after a restart some lines of runs are sent again)",
                                         l->path);
        l->save_failed = r < 0;
}

/* Entries into the batch. 1: there are more; 0: the journal's end. *ret_n: lines. */
static int fill_batch(struct run_lines *l, size_t *ret_n) {
        bool moved = false;
        int r = 1;

        *ret_n = 0;
        for (unsigned i = 0; i < RUN_LINES_AT_ONCE; i++) {
                uint64_t dropped = l->dropped;

                r = l->here ? 1 : sd_journal_next(l->journal);
                if (r <= 0)
                        break;
                l->here = true;
                r = take_entry(l);
                if (r < 0)
                        break;
                l->here = false;
                moved = true;
                *ret_n += l->dropped == dropped;
        }
        if (r != -E2BIG && r != -EAGAIN && r < 0)
                return r;
        if (l->here && moved) { /* the state is behind the entry before this one */
                if (sd_journal_previous(l->journal) > 0 && take_cursor(l, l->state.cursor) >= 0)
                        return sd_journal_next(l->journal) < 0 ? -EIO : r;
                return -EIO;
        }
        if (moved && take_cursor(l, l->state.cursor) < 0)
                return -EIO;
        return r;
}

static void batch_done(struct run_lines *l) {
        l->durable = l->state;
        l->waiting = 0;
        save_durable(l);
        /*
         * Once more in any case, until nothing is found: a change is reported before all of it can be
         * read.
         */
        schedule_batch(l, l->last + RUN_LINES_PAUSE);
}

static int on_batch(sd_event_source *source, uint64_t usec, void *userdata) {
        struct run_lines *l = userdata;
        size_t n;
        int r;

        (void) source;
        (void) usec;
        if (l->waiting > 0)
                return 0;
        r = fill_batch(l, &n);
        l->news = r != 0;
        l->last = boot_now(l) - (r == 1 || r == -E2BIG ? RUN_LINES_PAUSE : 0); /* a full one: on at once */
        if (r < 0 && r != -EAGAIN && r != -E2BIG) {
                l->handlers->drop(l->userdata);
                forget_batch(l, r);
                return 0;
        }
        r = l->handlers->submit(&l->waiting, l->userdata);
        if (r == -ENODATA) { /* nothing of runs, or dropped */
                l->waiting = 0;
                if (!streq(l->state.cursor, l->durable.cursor))
                        batch_done(l);
                else if (l->news)
                        schedule_batch(l, l->last + RUN_LINES_PAUSE);
        } else if (r < 0) {
                l->waiting = 0;
                forget_batch(l, r);
        }
        return 0;
}

void run_lines_durable(struct run_lines *l, uint64_t seq) {
        if (l->waiting > 0 && seq >= l->waiting)
                batch_done(l);
}

/* --- The journal --------------------------------------------------------------------------------------- */

void run_lines_look(struct run_lines *l) {
        int enabled = SD_EVENT_OFF;

        (void) journal_reader_process(&l->reader);
        if (l->news)
                return;
        l->news = true;
        (void) sd_event_source_get_enabled(l->timer, &enabled);
        if (l->waiting == 0 && enabled == SD_EVENT_OFF)
                schedule_batch(l, l->last + RUN_LINES_PAUSE);
}

/* The first start of all: from now on. */
static int begin_at_end(struct run_lines *l) {
        int r;

        r = sd_journal_seek_tail(l->journal);
        if (r >= 0)
                r = sd_journal_previous(l->journal);
        if (r > 0)
                return take_cursor(l, l->state.cursor);
        if (r == 0) {
                memcpy(l->state.cursor, RUN_LINES_HEAD, sizeof(RUN_LINES_HEAD));
                r = sd_journal_seek_head(l->journal);
        }
        return r;
}

static int open_journal(struct run_lines *l, const char *directory) {
        int r;

        r = journal_reader_open(&l->reader, directory, "SYSLOG_IDENTIFIER=tpu-run", RUN_LINE_MAX);
        if (r < 0)
                return r;
        l->journal = l->reader.journal;
        r = run_lines_load(l->path, &l->state);
        if (r == -EBADMSG)
                log_warning("%s is damaged: lines of runs are sent from now on", l->path);
        r = r < 0 ? begin_at_end(l) : go_back(l);
        if (r >= 0) {
                l->durable = l->state;
                save_durable(l);
        }
        return r;
}

static int add_timer(struct run_lines *l) {
        int r = loop_timer_new(l->event, CLOCK_MONOTONIC, 5 * USEC_PER_MSEC, "run-lines", on_batch, l,
                               &l->timer);

        if (r >= 0)
                r = loop_timer_in(l->timer, 0);
        if (r < 0)
                return r;
        (void) sd_event_source_set_priority(l->timer, SD_EVENT_PRIORITY_NORMAL + 10);
        return 0;
}

int run_lines_new(sd_event *e, const char *directory, const char *state, const struct run_lines_handlers *h,
                  void *userdata, struct run_lines **ret) {
        _cleanup_(run_lines_freep) struct run_lines *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->event = sd_event_ref(e);
        l->handlers = h;
        l->userdata = userdata;
        l->news = true;
        l->tokens = RUN_LINES_BURST;
        l->filled = boot_now(l);
        l->path = strdup(state);
        if (!l->path)
                return -ENOMEM;
        r = open_journal(l, directory);
        if (r >= 0)
                r = add_timer(l);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct run_lines *run_lines_free(struct run_lines *l) {
        if (!l)
                return NULL;
        l->timer = sd_event_source_disable_unref(l->timer);
        journal_reader_close(&l->reader);
        sd_event_unref(l->event);
        free(l->path);
        free(l);
        return NULL;
}
