/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Log lines and events into the systemd journal, for daemons. A room apart from base, so that one-shot
 * programs do not load libsystemd (half a millisecond of tpu-stack's three).
 */
#include <systemd/sd-event.h>
#include <systemd/sd-journal.h>

#include "base.h"
#include "events.h"
#include "host.h"
#include "log.h"

/* log_open(), and from then on lines go to the journal with their priority when standard error is the
 * journal's. */
void journal_open(const char *program);

/*
 * An event as a journal entry: its sentence, MESSAGE_ID, TPU_EVENT=NAME, and TPU_KEY=value for each field
 * that is no long text. Without a journal the sentence is printed as an ordinary line. Returns 0 or -errno.
 */
int journal_event(const struct event *e);

/*
 * Entries of the journal with one field of a value. Who owns a reader moves its journal as it likes
 * (sd_journal_next(3) and its like); changed is called for one that is followed in the loop.
 */

struct journal_reader {
        sd_journal *journal;
        sd_event *event;
        sd_event_source *io;
        sd_event_source *timer; /* without inotify sd_journal says by when to look again */
        bool off;               /* see journal_reader_watch() */
        const char *name;
        void (*changed)(int what, void *userdata);
        void *userdata;
};

/*
 * The system's journal with the files of users, in which their runs' lines are; directory: NULL, or one of
 * journal files instead. match: "FIELD=value" of the entries that are wanted. line_max: of a field, what is
 * longer is cut. The position is not set; changes count from here on. -errno: there is no journal to read.
 */
int journal_reader_open(struct journal_reader *j, const char *directory, const char *match, size_t line_max);
void journal_reader_close(struct journal_reader *j);
/* changed is called with what sd_journal_process(3) said. name: of the event sources, static. */
int journal_reader_follow(struct journal_reader *j, sd_event *e, const char *name,
                          void (*changed)(int what, void *userdata), void *userdata);
/* Follows it no more, or again: what has changed meanwhile is reported then. Whether that is a change. */
bool journal_reader_watch(struct journal_reader *j, bool on);
/* Takes changes into account that woke nobody, like new files. Returns what sd_journal_process(3) says. */
int journal_reader_process(struct journal_reader *j);

/* Nobody takes lines: the journal's socket is gone, or nobody listens to it. Without systemd: false. */
bool journal_is_away(const struct host *h);

/* What follows "NAME=" in the entry at hand; valid until the journal is moved. */
int journal_reader_field(struct journal_reader *j, const char *name, const char **ret, size_t *ret_len);
/* The invocation of the entry at hand: 32 hex digits, or "-". */
void journal_reader_invocation(struct journal_reader *j, char ret[static 33]);
