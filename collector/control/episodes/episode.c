/* SPDX-License-Identifier: Apache-2.0 */
#include "episode.h"

#include "episodes.h"
#include "json_text.h"
#include "log.h"

#define WORD_KEPT (600 * USEC_PER_SEC)

/* --- The list -------------------------------------------------------------------------------------- */

struct episode *episode_find(struct episode *first, const char *id) {
        for (struct episode *x = first; x; x = x->next)
                if (streq(x->id, id))
                        return x;
        return NULL;
}

static void episode_free(struct episode *x) {
        json_decref(x->expected);
        json_decref(x->pausing);
        json_decref(x->working);
        free(x);
}

/* Those beyond the limit, of all or of those that hosts began; one that is looked at stays. */
static void keep_newest(struct episode **at, size_t limit, bool own, const struct episode *looking) {
        size_t n = 0;

        while (*at) {
                struct episode *x = *at;

                n += !own || episode_is_own(x->id);
                if (n <= limit || x == looking || (own && !episode_is_own(x->id))) {
                        at = &x->next;
                        continue;
                }
                *at = x->next;
                episode_free(x);
        }
}

static void make_room(struct episode **first, const struct episode *looking) {
        keep_newest(first, EPISODES_OPEN_MAX / 2 - 1, true, looking);
        keep_newest(first, EPISODES_OPEN_MAX - 1, false, looking);
}

struct episode *episode_add(struct episode **first, const char *id, const struct episode *looking) {
        struct episode *x = calloc(1, sizeof(*x));

        if (!x)
                return NULL;
        make_room(first, looking);
        *x = (struct episode){ .next = *first, .due = USEC_INFINITY, .rounds = 2, .generation = -1 };
        (void) snprintf(x->id, sizeof(x->id), "%s", id);
        *first = x;
        return x;
}

void episode_list_clear(struct episode **first) {
        while (*first) {
                struct episode *x = *first;

                *first = x->next;
                episode_free(x);
        }
}

/* --- The verdict ----------------------------------------------------------------------------------- */

int verdict_read(const json_t *report, struct verdict_text *ret) {
        const json_t *first = json_array_get(json_object_get(report, "suspects"), 0);
        struct verdict_text v = { .outcome = json_text_of(report, "outcome"),
                                  .summary = json_text_of(report, "summary"),
                                  .slice = "",
                                  .host = "",
                                  .sentence = "",
                                  .worker = -1 };

        if (!*v.outcome)
                return -EBADMSG;
        if (first && streq(v.outcome, "named")) {
                v.slice = json_text_of(first, "slice");
                v.host = json_text_of(first, "host");
                v.sentence = json_text_of(first, "sentence");
                v.worker = json_known_of(first, "worker");
                v.moved = json_is_true(json_object_get(first, "moved"));
                v.saves = json_is_true(json_object_get(first, "saves"));
        }
        *ret = v;
        return 0;
}

enum verdict_says verdict_judge(const struct verdict_text *v, const struct verdict_case *c) {
        bool named = streq(v->outcome, "named"), outside = streq(v->outcome, "outside");

        if (!c->suspected || (named && c->pauses))
                return VERDICT_SAYS_NOTHING;
        if (named && v->saves && (v->moved || c->works) && c->excused < VERDICT_EXCUSES)
                return VERDICT_PROGRESSES;
        return named || outside || (c->stalls && streq(v->outcome, "nobody")) ? VERDICT_CONFIRMS
                                                                              : VERDICT_SAYS_NOTHING;
}

enum verdict_says episode_judge(const struct episode *list, const struct episode *x,
                                const struct verdict_text *v) {
        struct verdict_case c = { .suspected = x->suspected,
                                  .stalls = x->stalls,
                                  .pauses = json_object_get(x->pausing, v->host),
                                  .works = json_object_get(x->working, v->host) };

        for (const struct episode *y = list; y; y = y->next)
                c.excused += episode_is_of_stall(x, y) && y->excused && y->at + EPISODES_STALL_TIME > x->at;
        return verdict_judge(v, &c);
}

const struct episode *episode_confirmed_before(const struct episode *list, const struct episode *x) {
        for (const struct episode *y = list; y; y = y->next)
                if (y->confirmed > 0 && episode_is_of_stall(x, y))
                        return y;
        return NULL;
}

bool episode_has_older(const struct episode *x) {
        return episode_confirmed_before(x->next, x);
}

/* --- Events ---------------------------------------------------------------------------------------- */

static int store_and_log(const struct episodes_options *o, const struct event *e, const char *host,
                         const char *slice, int64_t worker) {
        char sentence[EVENT_SENTENCE_MAX];
        int r;

        (void) log_full(severity_priority(e->severity), 0, "%s", event_sentence(e, sentence));
        r = store_own_event(o->store, e, host, slice, worker, clock_real(o->clock));
        return MIN(r, 0);
}

/* A word of another stall of the same run is none. */
static const struct first_word *word_of(const struct episodes_options *o, const struct episode *x) {
        const struct first_word *w = o->first_word && x->suspected && x->generation >= 0
                                             ? o->first_word(x->run, (uint64_t) x->generation, o->userdata)
                                             : NULL;

        return w && w->since < x->at && w->at + WORD_KEPT > x->at ? w : NULL;
}

void episode_compare_words(const struct episodes_options *o, const struct episode *x,
                           const struct verdict_text *v, char buf[static FIRST_WORD_SAYS_MAX],
                           const struct first_word **ret) {
        const struct first_word *w = word_of(o, x);
        usec_t now = clock_real(o->clock);

        *ret = w;
        buf[0] = '\0';
        if (!w)
                return;
        if (!w->host[0])
                (void) snprintf(buf, FIRST_WORD_SAYS_MAX, "its sockets alone had named nobody");
        else if (!*v->host)
                (void) snprintf(buf, FIRST_WORD_SAYS_MAX,
                                "its sockets alone had named %s, which the captures do not show", w->host);
        else if (streq(w->host, v->host) && streq(w->slice, v->slice))
                (void) snprintf(buf, FIRST_WORD_SAYS_MAX,
                                "its sockets alone had named the same %.0f s before",
                                (double) (now - MIN(now, w->at)) / USEC_PER_SEC);
        else
                (void) snprintf(buf, FIRST_WORD_SAYS_MAX,
                                "its sockets alone had named %s, which the captures correct", w->host);
}

int episode_report_verdict(const struct episodes_options *o, const struct episode *x,
                           const struct verdict_text *v, bool confirmed) {
        const enum event_id id = confirmed ? EVENT_STALL_CONFIRMED : EVENT_STALL_UNCONFIRMED;
        const char *slice = *v->slice ? v->slice : x->slice;
        char words[FIRST_WORD_SAYS_MAX];
        const struct first_word *word;

        episode_compare_words(o, x, v, words, &word);
        return store_and_log(o,
                    EVENT_LIKE(STALL_CONFIRMED, id, event_def(id)->severity, .run = x->run,
                               .generation = x->generation, .episode = x->id, .outcome = v->outcome,
                               .slice = slice, .host = v->host,
                               .sentence = *v->sentence ? v->sentence : v->summary, .at = (int64_t) x->at,
                               .first_word = words[0] ? words : NULL),
                    v->host, slice, v->worker);
}

int episode_report_recovered(const struct episodes_options *o, const struct episode *x) {
        usec_t now = clock_real(o->clock);

        return store_and_log(o,
                    EVENT_OF(RUN_RECOVERED, .run = x->run, .generation = x->generation, .how = "step",
                             .kind = "stall", .last_step = EVENT_ABSENT,
                             .lasted_msec = (int64_t) ((now - MIN(now, x->at)) / USEC_PER_MSEC),
                             .episode = x->id),
                    "", x->slice, -1);
}
