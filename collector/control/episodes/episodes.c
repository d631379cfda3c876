/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "episodes.h"

#include "child.h"
#include "episode.h"
#include "episode_record.h"
#include "episode_report.h"
#include "json_text.h"
#include "log.h"
#include "loop_timer.h"

#define BETWEEN_LOOKS (5 * USEC_PER_SEC)
#define OLD           (600 * USEC_PER_SEC) /* at a start: what is older is diagnosed with what there is */

struct episodes {
        struct episodes_options o;
        struct episode *first;   /* the newest */
        struct episode *looking; /* its report is being made */
        struct child *child;
        sd_event_source *timer;
        int64_t last; /* capture that was heard of */
        struct episode_records records;
};

static usec_t boot_now(const struct episodes *e) {
        return clock_boot(e->o.clock);
}

static void arm_timer(struct episodes *e) {
        usec_t next = USEC_INFINITY;
        int r;

        for (struct episode *x = e->first; x; x = x->next)
                next = MIN(next, x->due);
        r = loop_timer_at(e->timer, e->looking ? USEC_INFINITY : next);
        if (r < 0)
                (void) log_warning_errno(r, "episodes: timer: %m");
}

/* --- The store ------------------------------------------------------------------------------------- */

static int end_write(struct episodes *e, int r, const char *what) {
        char why[STORE_WHY_MAX];

        r = store_finish(e->o.store, r, why);
        if (r >= 0)
                return 0;
        log_error("episodes: %s is not stored: %s", what, why);
        e->o.failed(r, e->o.userdata);
        return r;
}

/* --- Which there are ------------------------------------------------------------------------------- */

/* All who were asked have answered all captures. */
static bool is_whole(const struct episode *x) {
        return x->hosts > 0 && x->got[x->rounds - 1] >= x->hosts && x->got[0] >= x->hosts;
}

static void schedule_diagnosis(struct episodes *e, struct episode *x) {
        usec_t now = boot_now(e);

        if (x->looks >= EPISODES_LOOKS_MAX || x == e->looking || x->got[0] + x->got[1] <= x->seen)
                return; /* nothing new; the end of patience stands where it was */
        if (is_whole(x))
                x->due = now;
        else if (x->looks > 0)
                x->due = MIN(x->due, now + BETWEEN_LOOKS);
        else if (x->hosts == 0)
                x->due = now + e->o.patience / 2;
}

/* --- Begun ----------------------------------------------------------------------------------------- */

static void begin_stored(struct episodes *e, struct episode *x, const char *by, const char *why,
                         const char *expected, const char *const *slices, size_t n) {
        const struct store_episode s = { .episode = x->id,
                                         .run = x->run,
                                         .generation = x->generation,
                                         .at = x->at,
                                         .suspected = x->suspected,
                                         .by = by,
                                         .why = why,
                                         .hosts = x->hosts,
                                         .expected = expected };
        int r = store_begin(e->o.store);

        if (r >= 0)
                r = store_begin_episode(e->o.store, &s, slices, n);
        r = end_write(e, r, "a new episode");
        x->begun = r == 0;
        if (r == 0)
                episode_records_keep(&e->records, x->id, x->slice);
}

static bool is_known(struct episodes *e, const char *id) {
        int64_t generation;

        return episode_find(e->first, id) || episode_is_stored(e->o.store, id, NULL, &generation);
}

void episodes_asked(struct episodes *e, const char *slice, const json_t *record, const json_t *slices) {
        const char *id = json_text_of(record, "episode"), *names[EPISODE_SLICES_MAX];
        json_t *expected, *v;
        usec_t at = json_number_of(record, "at"),
               second = json_number_of(record, "second");
        _cleanup_free_ char *text = NULL;
        struct episode *x;
        size_t i, n = 0;

        if (!*id || strlen(id) >= sizeof(x->id) ||
            is_known(e, id)) /* the other slices of the same */
                return;
        x = episode_add(&e->first, id, e->looking);
        expected = x && slices ? asked_hosts(slices) : NULL;
        if (!x)
                return;
        json_array_foreach (slices, i, v)
                if (n < EPISODE_SLICES_MAX)
                        names[n++] = json_text_of(v, "slice");
        if (n == 0)
                names[n++] = slice;
        text = expected ? json_dumps(expected, JSON_COMPACT) : NULL;
        (void) snprintf(x->run, sizeof(x->run), "%.63s", json_text_of(record, "run"));
        (void) snprintf(x->slice, sizeof(x->slice), "%.63s", slice);
        x->generation = json_integer_value(json_object_get(record, "generation"));
        x->suspected = json_is_true(json_object_get(record, "suspected"));
        x->rounds = second > 0 ? 2 : 1;
        x->at = at;
        x->expected = asked_names(expected);
        x->hosts = x->expected ? json_object_size(x->expected) : json_number_of(record, "hosts");
        x->due = boot_now(e) + MIN(second, EPISODES_SECOND_MAX) + e->o.patience;
        json_decref(expected);
        begin_stored(e, x, json_text_of(record, "by"), json_text_of(record, "why"), text, names, n);
        arm_timer(e);
}

static int on_known(const struct store_episode *s, void *userdata) {
        struct episodes *e = userdata;
        struct episode *x = episode_find(e->first, s->episode)
                                    ? NULL
                                    : episode_add(&e->first, s->episode, e->looking);
        json_auto_t *expected = s->expected ? json_loads(s->expected, 0, NULL) : NULL;

        if (x) {
                (void) snprintf(x->run, sizeof(x->run), "%.63s", s->run);
                if (s->slices) /* the first of them */
                        (void) snprintf(x->slice, sizeof(x->slice), "%.*s", (int) strcspn(s->slices, " "),
                                        s->slices);
                x->generation = s->generation;
                x->suspected = s->suspected;
                x->begun = true;
                x->confirmed = s->recovered > 0 ? 0 : s->confirmed;
                x->hosts = s->hosts;
                x->at = s->at;
                x->expected = asked_names(expected);
                x->looks = s->outcome ? 1 : 0;
                x->due = s->outcome
                                 ? USEC_INFINITY
                                 : boot_now(e) + (s->at + OLD > clock_real(e->o.clock) ? e->o.patience : 0);
        }
        return 0;
}

bool episodes_wants(struct episodes *e, const char *id, const char *slice, const char *host,
                    int64_t *ret_generation) {
        const struct episode *x = episode_find(e->first, id);

        if (!x || (!x->expected && x->begun && !streq(x->slice, slice)))
                return episode_is_stored(e->o.store, id, slice, ret_generation);
        if (x->expected ? !json_object_get(x->expected, host) : !streq(x->slice, slice))
                return false;
        *ret_generation = x->generation;
        return true;
}

/* One that nobody asked for here: the host took it for itself. */
static struct episode *begin_unasked(struct episodes *e, const struct store_capture *c) {
        const struct store_episode_filter known = { .episode = c->episode, .limit = 1 };
        struct episode *x = NULL;

        if (store_list_episodes(e->o.store, &known, on_known, e) < 0)
                return NULL;
        x = episode_find(e->first, c->episode); /* from before a restart: a host is late */
        if (!x)
                x = episode_add(&e->first, c->episode, e->looking);
        if (!x || x->begun)
                return x;
        (void) snprintf(x->run, sizeof(x->run), "%s", c->run);
        (void) snprintf(x->slice, sizeof(x->slice), "%s", c->slice);
        x->generation = c->generation;
        x->rounds = c->rounds;
        x->hosts = c->hosts;
        x->at = c->taken;
        x->due = boot_now(e) + e->o.patience;
        return x;
}

/* --- Captures -------------------------------------------------------------------------------------- */

static void note_host(json_t **hosts, const char *host) {
        if (!*hosts)
                *hosts = json_object();
        if (*hosts)
                (void) json_object_set_new(*hosts, host,
                                           json_true()); /* out of memory: it is not believed */
}

static int on_capture(const struct store_capture *c, void *userdata) {
        struct episodes *e = userdata;
        struct episode *x = episode_find(e->first, c->episode);

        if (!x)
                x = begin_unasked(e, c);
        if (!x)
                return -ENOMEM;
        if (x->expected && !json_object_get(x->expected, c->host))
                return 0; /* it was not asked */
        x->got[MIN(c->round, x->rounds - 1)]++;
        if (streq(c->suspicion, "announced"))
                note_host(&x->pausing, c->host);
        else
                x->suspected = x->suspected || (!x->expected && *c->suspicion);
        if (streq(c->suspicion, "work"))
                note_host(&x->working, c->host);
        x->stalls = x->stalls || streq(c->suspicion, "stall");
        schedule_diagnosis(e, x);
        return 0;
}

static void begin_unbegun(struct episodes *e) {
        for (struct episode *x = e->first; x; x = x->next) {
                const char *slice = x->slice;

                if (!x->begun)
                        begin_stored(e, x, "its hosts", "", NULL, &slice, 1);
        }
}

void episodes_news(struct episodes *e) {
        int64_t last;
        int r;

        do {
                last = e->last;
                r = store_news_captures(e->o.store, e->last, &e->last, on_capture, e);
        } while (r == 0 && e->last > last);
        if (r < 0)
                (void) log_error_errno(r, "episodes: captures cannot be read: %m");
        begin_unbegun(e);
        arm_timer(e);
}

/* --- The verdict ----------------------------------------------------------------------------------- */

/* The report with what the sockets alone had said. */
static int add_first_word(const struct episodes *e, const struct episode *x, const struct verdict_text *v,
                          const json_t *report, char **ret) {
        char words[FIRST_WORD_SAYS_MAX];
        const struct first_word *w;
        json_auto_t *copy = NULL;

        episode_compare_words(&e->o, x, v, words, &w);
        if (!w)
                return 0;
        copy = json_copy((json_t *) (uintptr_t) report);
        copy = json_member_add(copy, "first_word",
                               json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "host", w->host, "slice",
                                         w->slice, "text", w->text, "worker", (json_int_t) w->worker, "at",
                                         (json_int_t) w->at, "verdict", words));
        *ret = copy ? json_dumps(copy, JSON_COMPACT) : NULL;
        return *ret ? 0 : -ENOMEM;
}

static void keep_verdict(struct episodes *e, struct episode *x, const json_t *report, const char *text) {
        _cleanup_free_ char *with_word = NULL;
        const struct episode *before = episode_confirmed_before(e->first, x);
        usec_t now = clock_real(e->o.clock), confirmed = x->confirmed;
        enum verdict_says says;
        struct verdict_text v;
        int r;

        if (verdict_read(report, &v) < 0) {
                log_error("episode %s: its diagnosis cannot be read", x->id);
                return;
        }
        says = episode_judge(e->first, x, &v);
        (void) add_first_word(e, x, &v, report, &with_word); /* out of memory: the report is as it was */
        if (says == VERDICT_CONFIRMS && confirmed == 0)
                x->confirmed = before ? before->confirmed : now;
        if (confirmed > 0 || before)
                says = VERDICT_SAYS_NOTHING; /* more than was said */
        r = store_begin(e->o.store);
        if (r >= 0)
                r = store_set_verdict(e->o.store, &(struct store_episode){ .episode = x->id,
                                                                           .outcome = v.outcome,
                                                                           .summary = v.summary,
                                                                           .report = with_word ? with_word
                                                                                               : text,
                                                                           .diagnosed = now,
                                                                           .confirmed = x->confirmed });
        if (r >= 0 &&
            (says == VERDICT_CONFIRMS || (says == VERDICT_PROGRESSES && !x->excused))) /* once each */
                r = episode_report_verdict(&e->o, x, &v, says == VERDICT_CONFIRMS);
        if (end_write(e, r, "a verdict") < 0) {
                x->confirmed = confirmed;
                x->due = boot_now(e) + BETWEEN_LOOKS;
                return;
        }
        x->excused = x->excused || says == VERDICT_PROGRESSES;
        episode_records_keep(&e->records, x->id, x->slice);
        log_info("episode %s of run %s: %s", x->id, x->run, v.summary);
        if (says != VERDICT_SAYS_NOTHING)
                e->o.events(e->o.userdata);
}

static void on_report(int result, const char *text, size_t len, void *userdata) {
        struct episodes *e = userdata;
        struct episode *x = e->looking;
        json_auto_t *report = result == 0 ? json_loadb(text, len, JSON_REJECT_DUPLICATES, NULL) : NULL;

        e->looking = NULL;
        if (report)
                keep_verdict(e, x, report, text);
        else
                log_error("episode %s: it could not be diagnosed: %s", x->id,
                          result < 0 ? strerror(-result) : "no JSON");
        e->child = child_free(e->child);
        schedule_diagnosis(e, x);
        arm_timer(e);
}

static void start_report(struct episodes *e, struct episode *x) {
        const char *const argv[] = { e->o.program, "--diagnose", x->id, "--database", e->o.database, NULL };
        const struct spawn_options program = {
                .path = e->o.program, .argv = argv, .environment = environ, .error = -1
        };
        const struct child_work work = { .name = "episode-report",
                                         .timeout = EPISODES_REPORT_TIME,
                                         .program = &program,
                                         .max = 2 * REPORT_MAX,
                                         .done = on_report,
                                         .userdata = e };
        int r;

        assert(!e->looking); /* one report at a time */
        x->due = USEC_INFINITY;
        x->looks++;
        x->seen = x->got[0] + x->got[1];
        r = child_start(e->o.event, &work, &e->child);
        if (r < 0)
                (void) log_error_errno(r, "episode %s: it cannot be diagnosed: %m", x->id);
        else
                e->looking = x;
}

static int on_timer(sd_event_source *source, uint64_t at, void *userdata) {
        struct episodes *e = userdata;
        usec_t now = boot_now(e);

        (void) source, (void) at;
        for (struct episode *x = e->first; x && !e->looking; x = x->next)
                if (x->due <= now)
                        start_report(e, x);
        arm_timer(e);
        return 0;
}

/* --- Over ------------------------------------------------------------------------------------------ */

/* reports: the end of a stall with several episodes is reported once. */
static void end_stall(struct episodes *e, struct episode *x, bool reports) {
        usec_t now = clock_real(e->o.clock);
        int r = store_begin(e->o.store);

        if (r >= 0)
                r = store_set_recovered(e->o.store, x->id, now);
        if (r >= 0 && reports)
                r = episode_report_recovered(&e->o, x);
        if (end_write(e, r, "that a run recovered") < 0)
                return;
        episode_records_keep(&e->records, x->id, x->slice);
        e->o.events(e->o.userdata);
}

void episodes_run(struct episodes *e, const json_t *run) {
        const char *name = json_text_of(run, "name");
        json_int_t generation = json_integer_value(json_object_get(run, "generation")),
                   stalled = json_integer_value(json_object_get(json_object_get(run, "planner"), "stalled"));
        bool runs = streq(json_text_of(run, "state"), "running");

        for (struct episode *x = e->first; x; x = x->next) {
                if (x->confirmed == 0 || !streq(x->run, name) || x->generation > generation ||
                    (x->generation == generation && runs && stalled > 0))
                        continue;
                x->looks = EPISODES_LOOKS_MAX;
                if (x->generation == generation && runs) /* the oldest of a stall says since when */
                        end_stall(e, x, !episode_has_older(x));
                x->confirmed = 0; /* that is over, by recovery or by its end */
        }
}

/* --- Life ------------------------------------------------------------------------------------------ */

/* A stall that is not over: its end is still to be reported. */
static int on_confirmed(const struct store_episode *s, void *userdata) {
        return s->confirmed > 0 && s->recovered == 0 ? on_known(s, userdata) : 0;
}

/* One that this program does not know, or not as far; or that it forgot when it lost the lead. */
static int take_over(struct episodes *e, const char *id, bool judged) {
        const struct store_episode_filter f = { .episode = id, .limit = 1 };
        int r = store_list_episodes(e->o.store, &f, judged ? on_confirmed : on_known, e);
        struct episode *x = episode_find(e->first, id);

        if (x && !judged)
                x->due = boot_now(e) + 2 * e->o.patience; /* its hosts have yet to come */
        if (x)
                log_info("episode %s is taken over%s", id,
                         judged ? "" : ": its hosts send their captures again");
        arm_timer(e);
        return r;
}

void episodes_kept(struct episodes *e, const char *id, const json_t *record, const json_t *slices) {
        int r = store_begin(e->o.store), taken = 0;

        if (r >= 0)
                r = taken = episode_records_take(&e->records, id, record, slices);
        r = end_write(e, r, "an episode of another collector");
        if (r == 0 && record && (taken > 0 || !episode_find(e->first, id)))
                r = take_over(e, id, *json_text_of(record, "outcome"));
        if (r < 0)
                (void) log_error_errno(r, "episode %s is not gone on with: %m", id);
}

void episodes_lost(struct episodes *e) {
        e->child = child_free(e->child);
        e->looking = NULL;
        episode_list_clear(&e->first);
        arm_timer(e);
}

int episodes_new(const struct episodes_options *o, struct episodes **ret) {
        const struct store_episode_filter open = { .open = true, .limit = EPISODES_OPEN_MAX / 2 },
                                          last = { .limit = EPISODES_OPEN_MAX / 2, .brief = true };
        _cleanup_(episodes_freep) struct episodes *e = calloc(1, sizeof(*e));
        int r;

        if (!e)
                return -ENOMEM;
        e->o = *o;
        r = episode_records_init(&e->records, &e->o);
        if (r < 0)
                return r;
        r = loop_timer_new(o->event, CLOCK_BOOTTIME, USEC_PER_MSEC, "episodes", on_timer, e, &e->timer);
        if (r >= 0)
                r = store_list_episodes(o->store, &open, on_known, e);
        if (r >= 0)
                r = store_list_episodes(o->store, &last, on_confirmed, e);
        if (r >= 0)
                r = store_last_capture(o->store, &e->last);
        if (r < 0)
                return r;
        arm_timer(e);
        *ret = TAKE_PTR(e);
        return 0;
}

struct episodes *episodes_free(struct episodes *e) {
        if (!e)
                return NULL;
        e->child = child_free(e->child);
        e->timer = sd_event_source_disable_unref(e->timer);
        episode_list_clear(&e->first);
        episode_records_clear(&e->records);
        free(e);
        return NULL;
}
