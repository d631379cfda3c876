/* SPDX-License-Identifier: Apache-2.0 */
#include "tail.h"

#include "cause.h"
#include "checkpoint.h"
#include "child.h"
#include "io.h"
#include "journal.h"
#include "kept_run.h"
#include "steps.h"

#define TAIL_ROUNDS 5 /* others write to the journal, too */

struct tail {
        struct child *child;
        char unit[96], id[RUN_ID_MAX];
        usec_t started_real, preempted_real;
        bool failed;
        tail_done_t done;
        void *userdata;
};

void tail_init(struct tail_result *t) {
        *t = (struct tail_result){ .sign = -1, .checkpoint_step = -1 };
}

/* A sign before a completed step is not why the run ended: it went on after that. */
bool tail_line(struct tail_result *t, const char *line, size_t len) {
        struct step_line step;
        int sign;

        len = MIN(len, (size_t) TAIL_LINE_MAX);
        if (step_of_line(NULL, line, len, &step)) {
                t->step_known = true;
                t->last_step = step.step;
                return false;
        }
        sign = log_sign_find(line, len);
        if (sign >= 0 && (t->sign < 0 || sign < t->sign))
                t->sign = sign;
        /* The earliest one: what was lost after it may be because of it. */
        (void) log_lost_peer(line, len, sign, t->lost_peer);
        return true;
}

bool tail_checkpoint(struct tail_result *t, const char *line, size_t len) {
        struct checkpoint_line c;

        if (!checkpoint_line_parse(line, MIN(len, (size_t) TAIL_LINE_MAX), &c) || c.sign != CHECKPOINT_WHOLE)
                return true;
        t->checkpoint = true;
        t->checkpoint_step = c.step;
        return false;
}

/* --- In the child -------------------------------------------------------------------------------------- */

enum whose {
        OURS,
        BEFORE_OURS, /* by a line that shows nothing */
        ANOTHER, /* start's: what is before it is of no use either */
};

/* journald adds the unit's fields for as long as systemd has the unit: the last lines of a run may come too
 * late for them. */
static enum whose whose_line(struct journal_reader *j, const struct tail *t) {
        const char *id;
        uint64_t real;
        size_t len;

        if (journal_reader_field(j, "TPU_RUN_ID", &id, &len) >= 0)
                return len == strlen(t->id) && memcmp(id, t->id, len) == 0 ? OURS : ANOTHER;
        return sd_journal_get_realtime_usec(j->journal, &real) >= 0 && real >= t->started_real
                       ? OURS
                       : BEFORE_OURS;
}

static bool is_after(struct journal_reader *j, usec_t real) {
        uint64_t at;

        return sd_journal_get_realtime_usec(j->journal, &at) >= 0 && at >= real;
}

static int read_last_lines(struct journal_reader *j, const struct tail *t, struct tail_result *found) {
        bool step = true, checkpoint = t->preempted_real > 0; /* still looked for */
        int r;

        tail_init(found);
        r = sd_journal_seek_tail(j->journal);
        for (unsigned i = 0; r >= 0 && i < TAIL_LINES && (step || checkpoint); i++) {
                enum whose whose;
                const char *line;
                size_t len;

                r = sd_journal_previous(j->journal);
                if (r <= 0)
                        break;
                whose = whose_line(j, t);
                if (whose == ANOTHER)
                        break;
                if (whose != OURS || journal_reader_field(j, "MESSAGE", &line, &len) < 0)
                        continue;
                checkpoint =
                        checkpoint && is_after(j, t->preempted_real) && tail_checkpoint(found, line, len);
                step = step && tail_line(found, line, len);
        }
        return r < 0 ? r : 0;
}

static int look_into_journal(const struct tail *t, struct tail_result *found) {
        struct journal_reader j;
        char match[128];
        int r;

        /* journald's own word, which nobody outside of the unit can write */
        (void) snprintf(match, sizeof(match), "_SYSTEMD_UNIT=%s", t->unit);
        r = journal_reader_open(&j, NULL, match, TAIL_LINE_MAX);
        if (r < 0)
                return r;
        r = read_last_lines(&j, t, found);
        for (unsigned i = 0; i < TAIL_ROUNDS && r >= 0 && t->failed && found->sign < 0; i++)
                if (sd_journal_wait(j.journal, TAIL_WAIT / TAIL_ROUNDS) > SD_JOURNAL_NOP)
                        r = read_last_lines(&j, t, found);
        journal_reader_close(&j);
        return r;
}

static int run(int fd, const void *data) {
        struct tail_result found;
        int r = look_into_journal(data, &found);

        return r < 0 ? r : io_write_all(fd, &found, sizeof(found));
}

/* --- In the parent ------------------------------------------------------------------------------------- */

static void on_done(int result, const char *answer, size_t len, void *userdata) {
        struct tail *t = userdata;
        struct tail_result found;

        tail_init(&found);
        if (result == 0 && len == sizeof(found))
                memcpy(&found, answer, len);
        t->done(&found, result == 0 && len != sizeof(found) ? -EBADMSG : result, t->userdata);
}

int tail_new(sd_event *e, const struct tail_of *of, tail_done_t done, void *userdata, struct tail **ret) {
        struct tail *t = calloc(1, sizeof(*t));
        struct child_work work = { .name = "run-tail",
                                   .timeout = TAIL_TIMEOUT,
                                   .run = run,
                                   .data = t,
                                   .done = on_done,
                                   .userdata = t };
        char unit[RUN_UNIT_MAX];
        int r;

        if (!t)
                return -ENOMEM;
        (void) snprintf(t->unit, sizeof(t->unit), "%s", run_unit(of->name, unit));
        (void) snprintf(t->id, sizeof(t->id), "%s", of->id);
        t->started_real = of->started_real;
        t->preempted_real = of->preempted_real;
        t->failed = of->failed;
        t->done = done;
        t->userdata = userdata;
        r = child_start(e, &work, &t->child);
        if (r < 0) {
                free(t);
                return r;
        }
        *ret = t;
        return 0;
}

struct tail *tail_free(struct tail *t) {
        if (!t)
                return NULL;
        t->child = child_free(t->child);
        free(t);
        return NULL;
}
