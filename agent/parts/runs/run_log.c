/* SPDX-License-Identifier: Apache-2.0 */
#include "run_log.h"

#include <assert.h>

#include "clock.h"
#include "grow.h"
#include "journal.h"
#include "log.h"
#include "paths.h"
#include "journal.h"
#include "run_key.h"
#include "run_log.h"
#include "steps.h"

#define ENTRIES_A_TURN 128
#define EXPRESSION_MSEC_MAX 50

struct run_log {
        sd_event *event;
        struct journal_reader journal;
        sd_event_source *more;
        const struct run_log_handlers *handlers;
        void *userdata;
        usec_t opened_real;
        struct step_expression *expression; /* NULL: the usual forms */
        struct expected {
                char run[64], text[256];
                struct step_expression *e; /* NULL: it is none, or took too long */
        } *expected; /* of runs that have one of their own */
        size_t n_expected;
};

int run_log_name_of_unit(const char *unit, size_t len, char ret[static 64]) {
        static const char prefix[] = RUN_UNIT_PREFIX, suffix[] = ".service";
        const size_t p = sizeof(prefix) - 1, s = sizeof(suffix) - 1;
        char name[64];

        if (len <= p + s || len - p - s >= sizeof(name) || memcmp(unit, prefix, p) != 0 ||
            memcmp(unit + len - s, suffix, s) != 0)
                return -EINVAL;
        memcpy(name, unit + p, len - p - s);
        name[len - p - s] = 0;
        if (strlen(name) != len - p - s || !run_name_is_valid(name)) /* no NUL inside */
                return -EINVAL;
        memcpy(ret, name, sizeof(name));
        return 0;
}

/*
 * When the journal got the entry, on the boot clock: a batch that is read late must not look like steps
 * that took no time. It is given on the clock that stands still in suspend, of the boot that the entry is
 * of.
 */
static int entry_at(const struct run_log *l, usec_t *ret) {
        uint64_t entry, monotonic, now = 0, real = 0;

        (void) sd_event_now(l->event, CLOCK_BOOTTIME, &now);
        if (sd_event_now(l->event, CLOCK_MONOTONIC, &monotonic) >= 0 &&
            sd_journal_get_monotonic_usec(l->journal.journal, &entry, NULL) >= 0) {
                *ret = now - MIN(now, monotonic - MIN(monotonic, entry));
                return 0;
        }
        (void) sd_journal_get_realtime_usec(l->journal.journal, &real);
        if (real < l->opened_real) /* of another boot, and older than this agent */
                return -ESTALE;
        *ret = now;
        return 0;
}

static uint64_t cpu_now(void) {
        return clock_ns(CLOCK_THREAD_CPUTIME_ID) / 1000000;
}

static struct expected *find_expected(const struct run_log *l, const char *run) {
        for (size_t i = 0; i < l->n_expected; i++)
                if (streq(l->expected[i].run, run))
                        return &l->expected[i];
        return NULL;
}

/* An expression that takes too long for a line would stop everything else: it is not used again. */
static bool find_step(struct run_log *l, const char *run, const char *line, size_t len,
                      struct step_line *ret) {
        struct expected *own = find_expected(l, run);
        struct step_expression **e = own && own->e ? &own->e : &l->expression;
        uint64_t before = *e ? cpu_now() : 0;
        bool is = step_of_line(*e, line, len, ret);

        if (*e && cpu_now() - before > EXPRESSION_MSEC_MAX) {
                log_warning("the expression of step lines (%s%s) took more than %d ms for one line: it is "
                            "not used any more, steps are looked for in their usual forms (make it "
                            "simpler: no nested repetitions)",
                            own && e == &own->e ? "--step-regex of run " : "StepExpression=",
                            own && e == &own->e ? run : "", EXPRESSION_MSEC_MAX);
                *e = step_expression_free(*e);
        }
        return is;
}

void run_log_expect_of(struct run_log *l, const char *run, const char *text) {
        struct expected *own = find_expected(l, run);
        char why[96] = "out of memory";

        assert(strlen(run) < sizeof(own->run) && strlen(text) < sizeof(own->text));
        if (own ? streq(own->text, text) : !text[0])
                return;
        if (!own) {
                if (l->n_expected == RUN_LOG_RUNS_MAX)
                        return;
                if (grow_by_one(&l->expected, l->n_expected, sizeof(*l->expected)) < 0)
                        return;
                own = &l->expected[l->n_expected++];
                *own = (struct expected){ .e = NULL };
                (void) snprintf(own->run, sizeof(own->run), "%s", run);
        }
        own->e = step_expression_free(own->e);
        (void) snprintf(own->text, sizeof(own->text), "%s", text);
        if (text[0] && step_expression_new(text, why, sizeof(why), &own->e) < 0)
                log_warning("run %s: the expression of its step lines (--step-regex) is not used: %s", run,
                            why);
}

static void forget_expected(struct run_log *l) {
        for (size_t i = 0; i < l->n_expected; i++)
                (void) step_expression_free(l->expected[i].e);
        free(l->expected);
}

static void take_line(struct run_log *l, struct run_log_line *line) {
        struct step_line step;

        if (find_step(l, line->run, line->text, line->len, &step))
                line->step = &step;
        l->handlers->line(line, l->userdata);
}

static void take_entry(struct run_log *l) {
        struct run_log_line line = { .step = NULL };
        char run[64], invocation[33];
        const char *unit;
        size_t len;

        if (journal_reader_field(&l->journal, "_SYSTEMD_UNIT", &unit, &len) < 0 ||
            run_log_name_of_unit(unit, len, run) < 0)
                return;
        journal_reader_invocation(&l->journal, invocation);
        if (journal_reader_field(&l->journal, "MESSAGE", &line.text, &line.len) < 0)
                return;
        line.len = MIN(line.len, (size_t) RUN_LOG_LINE_MAX);
        line.run = run;
        line.invocation = invocation;
        if (entry_at(l, &line.at) >= 0)
                take_line(l, &line);
}

void run_log_take(struct run_log *l, const char *run, const char *text, size_t len, usec_t at) {
        struct run_log_line line = { .run = run, .invocation = "-", .text = text,
                                     .len = MIN(len, (size_t) RUN_LOG_LINE_MAX), .at = at };

        take_line(l, &line);
}

static int read_some(sd_event_source *source, void *userdata) {
        struct run_log *l = userdata;
        unsigned i;
        int r = 0;

        (void) source;
        for (i = 0; i < ENTRIES_A_TURN; i++) {
                r = sd_journal_next(l->journal.journal);
                if (r <= 0)
                        break;
                take_entry(l);
        }
        if (r < 0)
                (void) log_warning_errno(r,
                                         "the journal cannot be read on, steps of runs may be missed: %m");
        if (i > 0)
                l->handlers->read(l->userdata);
        r = sd_event_source_set_enabled(l->more, r > 0 ? SD_EVENT_ONESHOT : SD_EVENT_OFF);
        if (r < 0)
                (void) log_warning_errno(r, "the journal is read on at its next change only: %m");
        return 0;
}

bool run_log_look(struct run_log *l) {
        int enabled = SD_EVENT_OFF;

        (void) journal_reader_process(&l->journal);
        (void) read_some(l->more, l);
        return sd_event_source_get_enabled(l->more, &enabled) <= 0; /* 0: it is off */
}

static void on_changed(int what, void *userdata) {
        struct run_log *l = userdata;

        if (what != SD_JOURNAL_NOP)
                (void) read_some(l->more, l);
}

void run_log_follow(struct run_log *l, bool on) {
        if (journal_reader_watch(&l->journal, on) && on)
                (void) run_log_look(l);
}

static int go_to_start(sd_journal *j) {
        int r = sd_journal_seek_tail(j);

        if (r >= 0) /* stand on an entry: "next" is then the one behind it */
                r = sd_journal_previous_skip(j, RUN_LOG_BACK);
        if (r >= 0 && r < RUN_LOG_BACK) /* there are less, or none yet: from the head */
                r = sd_journal_seek_head(j);
        return r;
}

int run_log_new(sd_event *e, const char *directory, const struct run_log_handlers *h, void *userdata,
                struct run_log **ret) {
        _cleanup_(run_log_freep) struct run_log *l = calloc(1, sizeof(*l));
        int r;

        if (!l)
                return -ENOMEM;
        l->event = sd_event_ref(e);
        l->handlers = h;
        r = sd_event_now(e, CLOCK_REALTIME, &l->opened_real);
        if (r < 0)
                return r;
        l->userdata = userdata;
        r = journal_reader_open(&l->journal, directory, "SYSLOG_IDENTIFIER=tpu-run", RUN_LOG_LINE_MAX);
        if (r >= 0)
                r = go_to_start(l->journal.journal);
        if (r >= 0)
                r = journal_reader_follow(&l->journal, e, "journal", on_changed, l);
        if (r < 0)
                return r;
        r = sd_event_add_defer(e, &l->more, read_some, l);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(l->more, "journal-more");
        r = sd_event_source_set_enabled(l->more, SD_EVENT_ONESHOT); /* what is there already */
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

void run_log_expect(struct run_log *l, struct step_expression *e) {
        l->expression = step_expression_free(l->expression);
        l->expression = e;
}

struct run_log *run_log_free(struct run_log *l) {
        if (!l)
                return NULL;
        l->more = sd_event_source_disable_unref(l->more);
        journal_reader_close(&l->journal);
        l->expression = step_expression_free(l->expression);
        forget_expected(l);
        sd_event_unref(l->event);
        free(l);
        return NULL;
}

void run_log_prune(struct run_log *l, bool (*keep)(const char *run, void *userdata), void *userdata) {
        size_t kept = 0;

        for (size_t i = 0; i < l->n_expected; i++)
                if (keep(l->expected[i].run, userdata))
                        l->expected[kept++] = l->expected[i];
                else
                        (void) step_expression_free(l->expected[i].e);
        l->n_expected = kept;
}
