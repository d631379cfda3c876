/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The journal of what runs print, followed in the loop: entries of the identifier tpu-run. Who owns a reader
 * moves its journal as it likes (sd_journal_next(3) and its like) and is told of each change.
 */
#include <systemd/sd-event.h>
#include <systemd/sd-journal.h>

#include "base.h"

struct run_journal {
        sd_journal *journal;
        sd_event *event;
        sd_event_source *io;
        sd_event_source *timer; /* without inotify sd_journal says by when to look again */
        const char *name;
        void (*changed)(int what, void *userdata);
        void *userdata;
};

/*
 * directory: NULL for the system's journal, else a directory of journal files. line_max: of a field, what is
 * longer is cut. The position is not set, and changed(), of what sd_journal_process(3) said, is not called
 * before run_journal_follow(). name: of the event sources, static. -errno: there is no journal to read.
 */
int run_journal_open(struct run_journal *j, sd_event *e, const char *directory, size_t line_max,
                     const char *name);
int run_journal_follow(struct run_journal *j, void (*changed)(int what, void *userdata), void *userdata);
void run_journal_close(struct run_journal *j);

/* What follows "NAME=" in the entry at hand; valid until the journal is moved. */
int run_journal_field(struct run_journal *j, const char *name, const char **ret, size_t *ret_len);
/* The invocation of the entry at hand: 32 hex digits, or "-". */
void run_journal_invocation(struct run_journal *j, char ret[static 33]);
