/* SPDX-License-Identifier: Apache-2.0 */
#include "said_debts.h"

#include "fnv.h"
#include "grow.h"
#include "json_text.h"

#define PEERS_MAX 64u /* of one host: as many as it says */
#define AGE_MAX (60 * USEC_PER_SEC)

struct first_words {
        struct run_said *runs[FIRST_WORD_RUNS_MAX];
        size_t n;
};

/* --- Runs and hosts -------------------------------------------------------------------------------- */

int first_words_new(struct first_words **ret) {
        *ret = calloc(1, sizeof(**ret));
        return *ret ? 0 : -ENOMEM;
}

static void clear_run(struct run_said *r) {
        for (size_t i = 0; i < r->n; i++) {
                free(r->speakers[i]->debts);
                free(r->speakers[i]);
        }
        free(r->speakers);
        r->speakers = NULL;
        r->n = r->size = 0;
}

static void forget_run(struct first_words *w, size_t i) {
        clear_run(w->runs[i]);
        free(w->runs[i]);
        w->runs[i] = w->runs[--w->n];
}

void first_words_forget(struct first_words *w) {
        while (w->n > 0)
                forget_run(w, w->n - 1);
}

struct first_words *first_words_free(struct first_words *w) {
        if (w)
                first_words_forget(w);
        free(w);
        return NULL;
}

static struct run_said *find_run(const struct first_words *w, const char *name) {
        for (size_t i = 0; i < w->n; i++)
                if (streq(w->runs[i]->name, name))
                        return w->runs[i];
        return NULL;
}

static uint64_t number_of(const struct first_word_source *who) {
        return fnv_text(fnv_text(FNV_BEGIN, who->slice ? who->slice : ""), who->host);
}

static size_t runs_begun_by(const struct first_words *w, uint64_t host, usec_t now) {
        size_t n = 0;

        for (size_t i = 0; i < w->n; i++)
                n += w->runs[i]->first == host && w->runs[i]->heard + FIRST_WORD_KEPT >= now;
        return n;
}

/* 0 and *ret NULL: there are most already, of all or of this host. */
static int get_run(struct first_words *w, const struct first_word_source *who, const char *name, usec_t now,
                   struct run_said **ret) {
        struct run_said *r = find_run(w, name);

        *ret = r;
        if (r)
                return 0;
        for (size_t i = w->n; w->n == FIRST_WORD_RUNS_MAX && i > 0; i--)
                if (w->runs[i - 1]->heard + FIRST_WORD_KEPT < now)
                        forget_run(w, i - 1);
        if (w->n == FIRST_WORD_RUNS_MAX || strlen(name) >= FIRST_WORD_NAME_MAX ||
            runs_begun_by(w, number_of(who), now) >= FIRST_WORD_RUNS_OF_HOST)
                return 0;
        r = calloc(1, sizeof(*r));
        if (!r)
                return -ENOMEM;
        (void) snprintf(r->name, sizeof(r->name), "%s", name);
        r->first = number_of(who);
        r->due = USEC_INFINITY;
        *ret = w->runs[w->n++] = r;
        return 0;
}

static struct speaker *get_speaker(struct run_said *r, const struct first_word_source *who) {
        size_t at = speaker_place(r, who);
        _cleanup_free_ struct speaker *s = NULL;

        if (at < r->n && speaker_is(r->speakers[at], who))
                return r->speakers[at];
        if (r->n == DEBTS_HOSTS_MAX)
                return NULL;
        s = calloc(1, sizeof(*s));
        if (!s || grow_at(&r->speakers, &r->size, &r->n, at, sizeof(struct speaker *)) < 0)
                return NULL;
        (void) snprintf(s->host, sizeof(s->host), "%s", who->host);
        (void) snprintf(s->slice, sizeof(s->slice), "%s", who->slice ? who->slice : "");
        return r->speakers[at] = TAKE_PTR(s);
}

/* --- What a host says ------------------------------------------------------------------------------ */

static int64_t msec_of(const json_t *v, const char *key) {
        return MIN(json_known_of(v, key), INT32_MAX);
}

static bool parse_debt(const json_t *v, struct said_debt *ret) {
        struct said_debt x = { .debt = { .peer = DEBTS_OUTSIDE,
                                         .sent = msec_of(v, "sent"),
                                         .received = msec_of(v, "received"),
                                         .unread = json_number_of(v, "unread"),
                                         .unsent = json_number_of(v, "unsent") } };

        if (peer_address_parse(json_text_of(v, "local"), &x.local) < 0 ||
            peer_address_parse(json_text_of(v, "peer"), &x.peer) < 0 ||
            debt_turn_parse(json_text_of(v, "turn"), &x.debt.turn) < 0)
                return false;
        *ret = x;
        return true;
}

static int take_peers(struct speaker *s, const json_t *list) {
        size_t size = MIN(json_array_size(list), (size_t) PEERS_MAX), n = 0;
        struct said_debt *debts = calloc(size + 1, sizeof(*debts));

        if (!debts)
                return -ENOMEM;
        for (size_t i = 0; i < size; i++)
                n += parse_debt(json_array_get(list, i), &debts[n]);
        free(s->debts);
        s->debts = debts;
        s->n = n;
        return 0;
}

static void count_hosts(const struct run_said *r, usec_t now, size_t *ret_known, size_t *ret_said) {
        *ret_known = *ret_said = 0;
        for (size_t i = 0; i < r->n; i++) {
                const struct speaker *s = r->speakers[i];

                *ret_known += s->heard + FIRST_WORD_KEPT > now;
                *ret_said += speaker_counts(r, s);
        }
}

static int take_debts(struct run_said *r, struct speaker *s, const json_t *debts, usec_t now) {
        usec_t at = json_number_of(debts, "at"), silent = json_number_of(debts, "silent") * USEC_PER_MSEC,
               since = at - MIN(at, silent);
        size_t known, said;
        int k;

        if (at == 0 || at == s->at || at + AGE_MAX < now || at > now + AGE_MAX || silent > at)
                return 0; /* known, or of another time */
        k = take_peers(s, json_object_get(debts, "peers"));
        if (k < 0)
                return k;
        s->at = at;
        s->since = since;
        if (!said_is_of_stall(r, since)) {
                if (r->since > since)
                        return 0; /* of an earlier one */
                r->since = since;
                r->step = MIN(json_number_of(debts, "step") * USEC_PER_MSEC, 3600 * USEC_PER_SEC);
                r->word = (struct first_word){ .at = 0 };
                r->due = USEC_INFINITY;
                r->judged = 0;
        }
        count_hosts(r, now, &known, &said);
        if (said >= known) /* all say it again and again while the stall lasts */
                r->due = MIN(r->due, r->judged > 0 ? MAX(now, r->judged + FIRST_WORD_WAIT) : now);
        else if (2 * said > known && r->due == USEC_INFINITY)
                r->due = now + FIRST_WORD_WAIT;
        return 0;
}

/* Nothing of what was said before holds. */
static void begin_anew(struct run_said *r, uint64_t generation) {
        clear_run(r);
        r->generation = generation;
        r->since = 0;
        r->word = (struct first_word){ .at = 0 };
        r->due = USEC_INFINITY;
}

int first_words_take(struct first_words *w, const struct first_word_source *who, const json_t *figure,
                     usec_t now) {
        const char *name = json_text_of(figure, "run");
        uint64_t generation = json_number_of(figure, "generation");
        const json_t *debts = json_object_get(figure, "debts");
        struct speaker *s;
        struct run_said *r;
        int k;

        if (!*name || !*who->host || strlen(who->host) >= FIRST_WORD_NAME_MAX ||
            (who->slice && strlen(who->slice) >= FIRST_WORD_NAME_MAX))
                return 0;
        k = get_run(w, who, name, now, &r);
        if (!r)
                return k;
        if (r->heard + FIRST_WORD_KEPT < now) { /* else who speaks of a run ahead mutes it for ever */
                r->first = number_of(who);
                begin_anew(r, 0);
        }
        if (generation < r->generation)
                return 0;
        if (generation > r->generation) /* another start */
                begin_anew(r, generation);
        s = get_speaker(r, who);
        if (!s)
                return r->n == DEBTS_HOSTS_MAX ? 0 : -ENOMEM;
        r->heard = s->heard = now;
        s->worker = who->worker;
        return debts ? take_debts(r, s, debts, now) : 0;
}

usec_t first_words_due(const struct first_words *w) {
        usec_t due = USEC_INFINITY;

        for (size_t i = 0; i < w->n; i++)
                due = MIN(due, w->runs[i]->due);
        return due;
}

const char *first_words_due_run(const struct first_words *w, usec_t now) {
        for (size_t i = 0; i < w->n; i++)
                if (w->runs[i]->due <= now)
                        return w->runs[i]->name;
        return NULL;
}

/* --- Judging --------------------------------------------------------------------------------------- */

int first_words_judge(struct first_words *w, const char *run, const json_t *slices, usec_t now,
                      struct first_word *ret) {
        struct run_said *r = find_run(w, run);
        size_t known, said;
        struct first_word word;
        int k;

        if (!r || r->since == 0)
                return 0;
        r->due = USEC_INFINITY;
        r->judged = now;
        count_hosts(r, now, &known, &said);
        k = said_judge(r, slices, known, &word);
        if (k < 0)
                return k;
        if (r->word.at > 0 &&
            (word.says < r->word.says || (word.says == r->word.says && streq(word.host, r->word.host))))
                return 0;
        if (word.says == DEBTS_NOBODY && word.said < word.hosts) /* more may follow */
                return 0;
        word.at = now;
        r->word = *ret = word;
        return 1;
}

const struct first_word *first_words_of(const struct first_words *w, const char *run, uint64_t generation) {
        const struct run_said *r = find_run(w, run);

        return r && r->word.at > 0 && r->generation == generation ? &r->word : NULL;
}
