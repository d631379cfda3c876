/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "blame.h"

#include "grow.h"
#include "paths.h"
#include "ranks.h"
#include "sentence.h"
#include "weights.h"

const char *outcome_name(enum outcome o) {
        static const char *const names[_OUTCOME_MAX] = { "named", "nobody",  "goes_on",
                                                         "works", "outside", "no_evidence" };
        return names[o];
}

struct diagnosis *diagnosis_free(struct diagnosis *d) {
        if (d) {
                evidence_clear(&d->evidence);
                paths_clear(&d->paths);
                wait_graph_clear(&d->graph);
                free(d->odd);
        }
        free(d);
        return NULL;
}

#define SAYS_WHY 0.3      /* a part of a score that is worth a sentence */
#define CHECKS_MAX 64u    /* different checks that are counted */
#define HOST_FINDINGS 16u /* of one host that are looked at */

/* What is known of all hosts before one of them is judged. */
struct overview {
        size_t ranks, members; /* members: ranks, and hosts that have none but should */
        double waiting;        /* which part of them waits for others */
        size_t held;           /* ranks that are held up by what they themselves wait for */
        bool all_stopped;
        uint64_t step; /* that most hosts are at; CAPTURE_STEP_NONE */
        size_t with_step;
        struct {
                uint32_t check; /* string */
                bool fail;
                size_t hosts, last;
        } checks[CHECKS_MAX];
        size_t n_checks;
};

static int compare_steps(const void *a, const void *b) {
        return COMPARE(*(const uint64_t *) a, *(const uint64_t *) b);
}

/* The step that most are at: the median. */
static int survey_steps(const struct evidence *e, struct overview *o) {
        _cleanup_free_ uint64_t *steps = calloc(e->n_hosts + 1, sizeof(*steps));

        if (!steps)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_hosts; i++)
                if (e->hosts[i].last && e->hosts[i].last->step != CAPTURE_STEP_NONE)
                        steps[o->with_step++] = e->hosts[i].last->step;
        qsort(steps, o->with_step, sizeof(*steps), compare_steps);
        o->step = o->with_step > 0 ? steps[o->with_step / 2] : CAPTURE_STEP_NONE;
        return 0;
}

static void count_check(struct overview *o, const struct captured_finding *f, size_t host) {
        size_t i = 0;

        while (i < o->n_checks && (o->checks[i].check != f->check || o->checks[i].fail != f->fail))
                i++;
        if (i == CHECKS_MAX)
                return;
        if (i == o->n_checks) {
                o->checks[o->n_checks].check = f->check;
                o->checks[o->n_checks].fail = f->fail;
                o->checks[o->n_checks++].last = SIZE_MAX;
        }
        o->checks[i].hosts += o->checks[i].last != host;
        o->checks[i].last = host;
}

/* Waits end there for what the rank itself does or waits for, and those of others lead there, too. */
static bool is_held(const struct diagnosis *d, uint32_t rank) {
        const struct graph_node *n = &d->graph.nodes[rank];

        return n->end >= BLAME_NAMED && !n->behind && n->share >= d->graph.most / 4;
}

static int survey_all(struct diagnosis *d, struct overview *o) {
        const struct evidence *e = &d->evidence;
        int r = wait_graph_make(&d->graph, e);

        if (r < 0)
                return r;
        *o = (struct overview){ .ranks = e->n_ranks };
        d->n_waiting = d->graph.n_waiting;
        for (uint32_t i = 0; i < e->n_ranks; i++) {
                d->n_stopped += e->ranks[i].place.kind == WAIT_STOPPED;
                o->held += is_held(d, i);
        }
        for (size_t i = 0; i < e->n_hosts; i++)
                for (size_t k = 0; e->hosts[i].last && k < MIN(e->hosts[i].last->n_findings, HOST_FINDINGS);
                     k++)
                        count_check(o, &e->hosts[i].last->findings[k], i);
        o->all_stopped = d->n_stopped > 0 && d->n_stopped == e->n_ranks;
        r = departures_survey(e, &d->left);
        o->members = MAX(o->ranks + e->n_silent + d->left.n, (size_t) 1);
        o->waiting = (double) d->n_waiting / (double) o->members;
        if (r == 0)
                r = cores_survey(e, &d->cores);
        if (r == 0)
                r = paths_survey(e, &d->paths);
        return r < 0 ? r : survey_steps(e, o);
}

/* --- Does the run go on? --------------------------------------------------------------------------- */

static bool goes_on(const struct evidence *e, enum stall_state run) {
        size_t both = 0, moved = 0;
        uint64_t steps[2] = { 0, 0 };

        if (run != RUN_UNKNOWN)
                return run == RUN_GOES_ON;
        for (size_t i = 0; i < e->n_hosts; i++) {
                const struct seen_host *h = &e->hosts[i];

                for (size_t k = 0; k < 2; k++)
                        if (h->capture[0] && h->capture[1] && h->capture[k]->step != CAPTURE_STEP_NONE)
                                steps[k] = MAX(steps[k], h->capture[k]->step);
        }
        for (size_t i = 0; i < e->n_ranks; i++) {
                both += e->ranks[i].both;
                moved += e->ranks[i].moved;
        }
        if (steps[0] > 0 && steps[1] > 0)
                return steps[1] > steps[0];
        return both > 1 && both == e->n_ranks && moved == both;
}

/*
 * A synchronous run that is held up by one of its hosts has ranks that wait for it. Where none does, and
 * most do something, all of them compile, evaluate or save: no step, but no stall, and whoever is elsewhere
 * is no culprit. Of one rank alone this says nothing.
 */
static bool run_works(struct diagnosis *d) {
        const struct evidence *e = &d->evidence;

        if (d->n_waiting + d->left.n + d->n_stopped + e->n_silent > 0 || e->n_ranks < 2)
                return false;
        d->n_active = active_ranks(e);
        return d->n_active * 2 > e->n_ranks;
}

/* What the most hosts wait for that is none of theirs: a server, a file system. */
static int survey_outside(struct diagnosis *d) {
        const struct evidence *e = &d->evidence;
        _cleanup_free_ struct {
                uint32_t hosts, last;
        } *of = calloc(e->scene->table.n_strings + 1, sizeof(*of));

        if (!of)
                return -ENOMEM;
        for (uint32_t i = 0; i < e->n_ranks; i++) {
                uint32_t what = d->graph.chains[i].outside;

                if (what == 0 || of[what].last == e->ranks[i].host + 1)
                        continue;
                of[what].last = e->ranks[i].host + 1;
                of[what].hosts++;
        }
        for (uint32_t i = 0; i < e->n_ranks; i++) {
                uint32_t what = d->graph.chains[i].outside;

                if (what == 0 || of[what].hosts <= d->n_outside)
                        continue;
                d->n_outside = of[what].hosts;
                d->outside = what;
        }
        return 0;
}

static enum outcome conclude_outcome(struct diagnosis *d) {
        const struct suspect *first = d->n_suspects > 0 ? &d->suspects[0] : NULL;
        bool named = first && first->score >= BLAME_NAMED,
             first_too = first && first->rank != STACK_NONE &&
                         d->graph.chains[first->rank].outside == d->outside;

        if (d->n_outside > 1 && (d->n_outside * 2 > d->evidence.n_hosts || (named && first_too)))
                return OUTCOME_OUTSIDE;
        if (run_works(d) && (!named || first->rank != STACK_NONE))
                return OUTCOME_WORKS;
        return named ? OUTCOME_NAMED : OUTCOME_NOBODY;
}

/* --- One host -------------------------------------------------------------------------------------- */

static void add_reason(struct suspect *s, enum stall_kind kind, double score, uint32_t rank) {
        /* what its thread waits for says more than that the others lack its data */
        bool said = kind == KIND_OWES && s->rank == rank && s->parts[s->kind] >= SAYS_WHY;

        assert(score >= 0 && score <= 1);
        if (score <= s->parts[kind])
                return;
        s->parts[kind] = score;
        if (s->parts[s->kind] <= score && !said) {
                s->kind = kind;
                s->rank = rank;
        }
}

/* The more wait for others, and the more of their waits lead here, the surer. */
static double led_here(const struct diagnosis *d, const struct overview *o, const struct graph_node *n) {
        double share = d->graph.most > 0 ? n->share / d->graph.most : 1;

        return (0.5 + 0.5 * o->waiting) * (d->n_waiting > 0 ? 0.2 + 0.8 * share : 1);
}

static void judge_rank(const struct diagnosis *d, const struct overview *o, uint32_t number,
                       struct suspect *s) {
        const struct evidence *e = &d->evidence;
        const struct rank *r = &e->ranks[number];
        const struct rank_class *most = &e->classes[0];
        const struct wait_chain *c = &d->graph.chains[number];
        const struct graph_node *n = &d->graph.nodes[number];
        double led = led_here(d, o, n);
        bool is_cut = c->end == END_PATH; /* the path is judged */
        bool stopped = d->n_stopped > 0 && !o->all_stopped; /* that explains why others do not get on */

        if (o->all_stopped)
                return;
        if (c->kind == WAIT_STOPPED && d->n_waiting == 0)
                add_reason(s, (enum stall_kind) WAIT_STOPPED, 0.8 * n->end, number);
        else if (d->n_waiting == 0) {
                if (r->alike == ALIKE_ODD && r->place.kind != KIND_UNKNOWN && most->n * 2 > o->members)
                        add_reason(s, c->kind,
                                   weight_of(WEIGHT_SINK) * (double) most->n / (double) o->members, number);
        } else if (n->end > 0 && !n->behind)
                add_reason(s, c->kind, n->end * led * (stopped && r->place.kind != WAIT_STOPPED ? 0.4 : 1),
                           number);
        if (n->behind ||
            (d->graph.debts.ranks[number].owes && !is_cut && d->graph.next[number] == STACK_NONE))
                add_reason(s, n->behind || c->end == END_RANKS ? c->kind : KIND_OWES,
                           weight_of(WEIGHT_OWES) * led, number);
        else if (n->in_circle)
                add_reason(s, KIND_OWES, weight_of(WEIGHT_MEMBER) * led, number);
        else if (n->end < BLAME_NAMED && !is_cut && d->graph.n_there > 2 &&
                 n->share * (double) d->graph.n_there > 1.5)
                add_reason(s, KIND_OWES, weight_of(WEIGHT_SINK) * n->share * led, number);
}

static void judge_device(const struct diagnosis *d, const struct seen_host *h, struct suspect *s) {
        static const enum weight by_state[_CORE_STATE_MAX] = {
                [CORE_ERROR] = WEIGHT_CORE_ERROR,    [CORE_OTHER_PROGRAM] = WEIGHT_CORE_PROGRAM,
                [CORE_BEHIND] = WEIGHT_CORE_BEHIND,  [CORE_ODD_COUNTER] = WEIGHT_CORE_COUNTER,
                [CORE_NO_INPUT] = WEIGHT_CORE_INPUT,
        };
        enum core_state state = cores_of_host(&d->cores, h, &s->core);

        if (state != CORE_LIKE_OTHERS)
                add_reason(s, KIND_CORE, weight_of(by_state[state]), STACK_NONE);
}

/* Of the two ends of a connection without an answer, that one is cut off which others miss, too. Where there
 * is one such connection, both of its ends are named: it is not known which it is. */
static void judge_path(const struct diagnosis *d, const struct overview *o, struct suspect *s) {
        static const enum weight by_verdict[_PATHS_VERDICT_MAX] = {
                [PATHS_NOTHING] = WEIGHT_PATH_NOTHING,
                [PATHS_LIKELY] = WEIGHT_PATH_LIKELY,
                [PATHS_CLEAR] = WEIGHT_PATH_CLEAR,
                [PATHS_PAIR] = WEIGHT_PATH_PAIR,
        };
        const struct path_end *end = d->paths.worst[s->host];
        bool explained = o->held + d->left.n > 0;
        double weight;

        if (!end)
                return;
        s->path = end;
        weight = weight_of(end->missing == d->paths.most && !explained ? by_verdict[d->paths.verdict]
                                                                       : WEIGHT_PATH_EXPLAINED);
        /* Where its agent does not answer either, both have one cause. The others wait for the run's own
         * packets. */
        add_reason(s, KIND_PATH, explained ? weight : MAX(weight, s->parts[KIND_SILENT]), STACK_NONE);
}

/* On how many hosts this check fails, too. What was not counted is taken for common. */
static size_t count_sharers(const struct overview *o, const struct captured_finding *f) {
        for (size_t i = 0; i < o->n_checks; i++)
                if (o->checks[i].check == f->check && o->checks[i].fail == f->fail)
                        return o->checks[i].hosts;
        return SIZE_MAX;
}

/* A check of the network or a disk explains why everyone waits; others only add to what is known. */
static void judge_findings(const struct diagnosis *d, const struct overview *o, const struct seen_host *h,
                           struct suspect *s) {
        const struct evidence *e = &d->evidence;
        bool explained = o->held + d->left.n > 0 && s->score < BLAME_NAMED;

        for (size_t i = 0; h->last && i < h->last->n_findings && i < HOST_FINDINGS; i++) {
                const struct captured_finding *f = &h->last->findings[i];
                const char *check = stack_table_text(&e->scene->table, f->check);
                bool path = startswith(check, "nic.") || startswith(check, "path.") ||
                            startswith(check, "route") || startswith(check, "tpu.");
                double score = weight_of(path ? WEIGHT_CHECK_PATH : WEIGHT_CHECK) * (f->fail ? 1 : 0.4) *
                               (explained ? 0.3 : 1);

                if (streq(check, PATH_CHECK) || streq(check, LINK_CHECK) || score <= s->parts[KIND_CHECK] ||
                    count_sharers(o, f) > MAX(e->n_hosts / 4, (size_t) 1))
                        continue;
                s->finding = f;
                add_reason(s, KIND_CHECK, score, STACK_NONE);
        }
}

static void judge_end(const struct diagnosis *d, const struct overview *o, struct suspect *s) {
        double share = d->n_waiting > 0 ? 0.5 + 0.5 * o->waiting : 0.75;
        enum weight w = departures_weight(&d->evidence, &d->left, s->host);

        add_reason(s, KIND_ENDED, weight_of(w) * (w == WEIGHT_LEFT_ALONE ? MAX(share, 0.75) : 1),
                   STACK_NONE);
}

static bool in_circle(const struct diagnosis *d, const struct seen_host *h) {
        for (uint32_t i = 0; i < h->n_ranks; i++)
                if (d->graph.nodes[h->first_rank + i].in_circle)
                        return true;
        return false;
}

/* How much that one says nothing of its ranks is worth. */
static double silence_weight(const struct diagnosis *d, const struct overview *o, uint32_t host) {
        const struct evidence *e = &d->evidence;
        bool lost = d->left.by_lost && d->left.named == host; /* others' connections to it */

        return weight_of(o->held + d->left.n > 0 && !lost ? WEIGHT_SILENT_EXPLAINED : WEIGHT_SILENT) *
               (lost ? 1 : 0.5 + 0.5 * o->waiting) * (e->n_silent * 2 > e->n_hosts ? 0.3 : 1);
}

static void judge_host(const struct diagnosis *d, const struct overview *o, struct suspect *s) {
        const struct evidence *e = &d->evidence;
        const struct seen_host *h = &e->hosts[s->host];
        double clear = 1;

        for (uint32_t i = 0; i < h->n_ranks; i++)
                judge_rank(d, o, h->first_rank + i, s);
        if (!h->last)
                add_reason(s, KIND_SILENT, silence_weight(d, o, s->host), STACK_NONE);
        else if (host_unreadable(e, h) && d->n_waiting > 0)
                add_reason(s, KIND_UNKNOWN, silence_weight(d, o, s->host), h->first_rank);
        else if (host_has_left(h, e))
                judge_end(d, o, s);
        if (h->last && h->last->step != CAPTURE_STEP_NONE && o->with_step > 2 && h->last->step < o->step &&
            !in_circle(d, h)) /* there its step has been looked at */
                add_reason(s, KIND_STEP, weight_of(o->held > 0 ? WEIGHT_STEP_EXPLAINED : WEIGHT_STEP),
                           STACK_NONE);
        judge_device(d, h, s);
        judge_path(d, o, s);
        for (size_t i = 0; i < _KIND_MAX; i++)
                clear *= 1 - s->parts[i];
        s->score = 1 - clear;
        judge_findings(d, o, h, s);
        s->score = 1 - clear * (1 - s->parts[KIND_CHECK]);
        assert(s->score >= 0 && s->score <= 1);
}

/* --- All of them ----------------------------------------------------------------------------------- */

static int compare_suspects(const void *x, const void *y) {
        const struct suspect *a = x, *b = y;

        return COMPARE(b->score, a->score) ?: COMPARE(a->host, b->host);
}

/* Keeps the BLAME_SUSPECTS_MAX greatest. */
static void keep_suspect(struct diagnosis *d, const struct suspect *s) {
        size_t at = SORTED_PLACE(d->n_suspects, i, compare_suspects(&d->suspects[i], s) < 0);

        if (at == BLAME_SUSPECTS_MAX)
                return;
        d->n_suspects = MIN(d->n_suspects + 1, (size_t) BLAME_SUSPECTS_MAX);
        memmove(&d->suspects[at + 1], &d->suspects[at], (d->n_suspects - 1 - at) * sizeof(*s));
        d->suspects[at] = *s;
}

static bool is_odd(const struct suspect *s) {
        return s->kind != KIND_CHECK && s->score >= BLAME_NAMED / 2;
}

static int judge_all(struct diagnosis *d, const struct overview *o) {
        int r;

        d->odd = calloc(d->evidence.n_hosts + 1, sizeof(*d->odd));
        r = d->odd ? survey_outside(d) : -ENOMEM;
        if (r < 0)
                return r;
        for (size_t i = 0; i < d->evidence.n_hosts; i++) {
                struct suspect s = { .host = (uint32_t) i, .rank = STACK_NONE };

                judge_host(d, o, &s);
                d->odd[i] = is_odd(&s);
                d->n_odd += d->odd[i];
                if (s.score > 0)
                        keep_suspect(d, &s);
        }
        for (size_t i = 0; i < d->n_suspects; i++) {
                struct suspect *s = &d->suspects[i];
                const struct rank *rank = s->rank != STACK_NONE ? &d->evidence.ranks[s->rank] : NULL;

                s->moved = rank && rank->moved;
                s->saves = rank && rank_saves(&d->evidence, rank);
                sentence_suspect(d, s);
        }
        return 0;
}

int diagnose(const struct scene *s, const struct diagnose_options *o, struct diagnosis **ret) {
        _cleanup_(diagnosis_freep) struct diagnosis *d = calloc(1, sizeof(*d));
        struct overview all = { 0 };
        int r;

        if (!d)
                return -ENOMEM;
        r = evidence_gather(&d->evidence, s, o->slice, o->hosts);
        if (r == 0)
                r = ranks_classify(&d->evidence);
        if (r == 0)
                r = survey_all(d, &all);
        if (r < 0)
                return r;
        if (d->evidence.n_ranks == 0 && d->left.n == 0)
                d->outcome = OUTCOME_NO_EVIDENCE;
        else if (goes_on(&d->evidence, o->run))
                d->outcome = OUTCOME_GOES_ON;
        else {
                r = judge_all(d, &all);
                if (r < 0)
                        return r;
                d->outcome = conclude_outcome(d);
        }
        sentence_summary(d);
        *ret = TAKE_PTR(d);
        return 0;
}
