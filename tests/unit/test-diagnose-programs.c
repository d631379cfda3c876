/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that pass messages are run until nothing moves any more, and what the kernel would show then is
 * judged. Nobody here thinks in waits: a rank has a list of things to do in each step, a connection has
 * bytes, and one rank is struck at some moment of some step. Who waits for whom comes out of that.
 *
 * Shapes: a star with a keeper, a ring, a tree, all to all, a pipeline, a master with a queue of tasks.
 */
#include "wait-scene.h"

#define RANKS_MAX 12u
#define DOINGS_MAX 64u
#define STEPS_MAX 40u
#define SENDS_MAX (STEPS_MAX * DOINGS_MAX)
#define RUNS 300u /* of each shape and strike */
#define CAPTURED_AFTER 20000u /* milliseconds */

static uint32_t roll(uint64_t *state, uint32_t below) {
        *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t) (*state >> 33) % below;
}

/* --- Programs --------------------------------------------------------------------------------------- */

enum verb {
        COMPUTES,  /* for so many milliseconds */
        SENDS,     /* so many bytes, to a peer */
        TAKES,     /* likewise, from a peer */
        TAKES_ANY, /* from whoever gave some first, and answers that one */
};
struct doing {
        enum verb verb;
        uint32_t peer, amount, line;
};
struct program {
        struct doing list[DOINGS_MAX];
        size_t n;
        const char *role;
};
/* One direction of a connection: what was given, and when. */
struct pipe_of {
        uint64_t given, taken;
        struct {
                uint64_t upto;
                uint32_t when;
        } sends[SENDS_MAX];
        size_t n_sends;
        uint32_t taken_when;
        bool used, lost; /* lost: what is given from now on does not come */
        uint64_t lost_at;
};
struct machine {
        struct program program;
        size_t at;
        uint32_t clock, step;
        bool struck, full; /* full: the peer takes no more */
        uint32_t jitter;
};
enum strike {
        BY_ITSELF, /* it does not get on, in one of many ways */
        BY_MESSAGE, /* it takes what nobody gives */
        BY_PATH,    /* what it sends to one peer is lost */
};
static struct run {
        struct machine of[RANKS_MAX];
        struct pipe_of pipes[RANKS_MAX][RANKS_MAX]; /* from, to */
        uint32_t n, window, culprit, peer, amount, strike_step; /* amount: that it takes and should not */
        size_t strike_at;
        enum strike strike;
        uint64_t seed;
} run;

static void does(uint32_t rank, enum verb verb, uint32_t peer, uint32_t amount) {
        struct program *p = &run.of[rank].program;

        ASSERT_TRUE(p->n < DOINGS_MAX);
        p->list[p->n] = (struct doing){ verb, peer, amount, (uint32_t) (10 + p->n) };
        p->n++;
}

static void star(void) {
        uint32_t size = 20000 + roll(&run.seed, 60000), thinks = 50 + roll(&run.seed, 400);

        run.of[0].program.role = "keeper";
        does(0, COMPUTES, 0, 20);
        for (uint32_t i = 1; i < run.n; i++) {
                does(0, TAKES, i, 8);
                does(0, SENDS, i, size);
                does(i, COMPUTES, 0, thinks);
                does(i, SENDS, 0, 8);
                does(i, TAKES, 0, size);
                does(i, COMPUTES, 0, thinks / 2);
                does(i, SENDS, 0, size);
        }
        for (uint32_t i = 1; i < run.n; i++)
                does(0, TAKES, i, size);
}

static void ring(void) {
        uint32_t thinks = 50 + roll(&run.seed, 400);

        for (uint32_t i = 0; i < run.n; i++) {
                does(i, COMPUTES, 0, thinks);
                for (uint32_t k = 0; k + 1 < run.n; k++) {
                        does(i, SENDS, (i + 1) % run.n, 30000);
                        does(i, TAKES, (i + run.n - 1) % run.n, 30000);
                }
        }
}

static void tree(void) {
        uint32_t thinks = 50 + roll(&run.seed, 400);

        for (uint32_t i = 0; i < run.n; i++) {
                does(i, COMPUTES, 0, thinks);
                for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < run.n; k++)
                        does(i, TAKES, k, 5000);
                if (i > 0) {
                        does(i, SENDS, (i - 1) / 2, 5000);
                        does(i, TAKES, (i - 1) / 2, 5000);
                }
                for (uint32_t k = 2 * i + 1; k <= 2 * i + 2 && k < run.n; k++)
                        does(i, SENDS, k, 5000);
        }
}

static void all_to_all(void) {
        uint32_t thinks = 50 + roll(&run.seed, 400);

        for (uint32_t i = 0; i < run.n; i++) {
                does(i, COMPUTES, 0, thinks);
                for (uint32_t k = 1; k < run.n; k++)
                        does(i, SENDS, (i + k) % run.n, 4000);
                for (uint32_t k = 1; k < run.n; k++)
                        does(i, TAKES, (i + run.n - k) % run.n, 4000);
        }
}

/* Forwards through all stages and back again, some batches a step. */
static void pipeline(void) {
        uint32_t thinks = 50 + roll(&run.seed, 200), batches = 1 + roll(&run.seed, 3);

        for (uint32_t i = 0; i < run.n; i++)
                for (uint32_t way = 0; way < 2 * batches; way++) {
                        uint32_t from = way % 2 ? i + 1 : i - 1, to = way % 2 ? i - 1 : i + 1;

                        if (from < run.n) /* below the first: the greatest number */
                                does(i, TAKES, from, 9000);
                        does(i, COMPUTES, 0, thinks);
                        if (to < run.n)
                                does(i, SENDS, to, 9000);
                }
}

/* The first gives a task to whoever asks, until all of a step's are given out; then it has all results. */
static void queue(void) {
        uint32_t thinks = 50 + roll(&run.seed, 200), tasks = 2;

        run.of[0].program.role = "master";
        does(0, COMPUTES, 0, 10);
        for (uint32_t k = 0; k < tasks * (run.n - 1); k++)
                does(0, TAKES_ANY, 700, 100); /* takes 100, gives 700 */
        for (uint32_t i = 1; i < run.n; i++) {
                does(0, TAKES, i, 500);
                for (uint32_t k = 0; k < tasks; k++) {
                        does(i, SENDS, 0, 100);
                        does(i, TAKES, 0, 700);
                        does(i, COMPUTES, 0, thinks);
                }
                does(i, SENDS, 0, 500);
        }
}

/* --- Running them ------------------------------------------------------------------------------------ */

static void give(uint32_t from, uint32_t to, uint32_t amount) {
        struct pipe_of *p = &run.pipes[from][to];

        p->used = true;
        p->given += amount;
        ASSERT_TRUE(p->n_sends < SENDS_MAX);
        p->sends[p->n_sends].upto = p->given;
        p->sends[p->n_sends++].when = run.of[from].clock;
}

static uint64_t arrived(const struct pipe_of *p) {
        return p->lost ? p->lost_at : p->given;
}

/* When the byte before `upto` came. */
static uint32_t when_came(const struct pipe_of *p, uint64_t upto) {
        for (size_t i = 0; i < p->n_sends; i++)
                if (p->sends[i].upto >= upto)
                        return p->sends[i].when;
        return 0;
}

static bool take(uint32_t to, uint32_t from, uint32_t amount) {
        struct pipe_of *p = &run.pipes[from][to];
        struct machine *m = &run.of[to];

        p->used = true;
        if (arrived(p) < p->taken + amount)
                return false;
        m->clock = MAX(m->clock, when_came(p, p->taken + amount));
        p->taken += amount;
        p->taken_when = m->clock;
        return true;
}

static bool take_any(uint32_t to, const struct doing *d) {
        uint32_t first = STACK_NONE, when = UINT32_MAX;

        for (uint32_t i = 0; i < run.n; i++) {
                const struct pipe_of *p = &run.pipes[i][to];

                if (i == to || arrived(p) < p->taken + d->amount ||
                    when_came(p, p->taken + d->amount) >= when)
                        continue;
                first = i;
                when = when_came(p, p->taken + d->amount);
        }
        if (first == STACK_NONE)
                return false;
        (void) take(to, first, d->amount);
        give(to, first, d->peer); /* of the answer: how much */
        return true;
}

static bool hand(uint32_t from, const struct doing *d) {
        struct pipe_of *p = &run.pipes[from][d->peer];
        struct machine *m = &run.of[from];

        m->full = p->given - p->taken > run.window;
        if (m->full)
                return false;
        if (p->given + d->amount - p->taken > run.window)
                m->clock = MAX(m->clock, p->taken_when);
        give(from, d->peer, d->amount);
        return true;
}

static bool strike_now(uint32_t rank) {
        struct machine *m = &run.of[rank];
        struct pipe_of *out = &run.pipes[rank][run.peer];

        if (rank != run.culprit || m->step != run.strike_step || m->at != run.strike_at)
                return false;
        if (run.strike == BY_PATH && !out->lost) {
                out->lost = true;
                out->lost_at = out->given;
        }
        m->struck |= run.strike != BY_PATH;
        return run.strike == BY_ITSELF;
}

/* False: it cannot. */
static bool go_on(uint32_t rank) {
        struct machine *m = &run.of[rank];
        const struct doing *d = &m->program.list[m->at];

        if (m->step >= STEPS_MAX - 1 || strike_now(rank))
                return false;
        if (m->struck) { /* what it takes once and should not: then it goes on */
                if (!take(rank, run.peer, run.amount))
                        return false;
                m->struck = false;
                run.strike_step++; /* in every step from now on */
        }
        switch (d->verb) {
        case COMPUTES:
                m->clock += d->amount + d->amount * roll(&run.seed, m->jitter + 1) / 100;
                break;
        case SENDS:
                if (!hand(rank, d))
                        return false;
                break;
        case TAKES:
                if (!take(rank, d->peer, d->amount))
                        return false;
                break;
        case TAKES_ANY:
                if (!take_any(rank, d))
                        return false;
                break;
        }
        m->clock++;
        m->at = (m->at + 1) % m->program.n;
        m->step += m->at == 0;
        return true;
}

/* The one with the oldest clock first, so that whoever comes first is served first. */
static void run_on(void) {
        bool moved;

        do {
                bool tried[RANKS_MAX] = { false };

                moved = false;
                for (uint32_t k = 0; k < run.n && !moved; k++) {
                        uint32_t next = STACK_NONE;

                        for (uint32_t i = 0; i < run.n; i++)
                                if (!tried[i] &&
                                    (next == STACK_NONE || run.of[i].clock < run.of[next].clock))
                                        next = i;
                        tried[next] = true;
                        moved = go_on(next);
                }
        } while (moved);
}

/* --- What is seen of it ------------------------------------------------------------------------------ */

static uint32_t age(uint32_t end, const struct pipe_of *p, uint64_t upto) {
        return upto == 0 ? SOCKET_MS_NONE : end + CAPTURED_AFTER - when_came(p, upto);
}

static uint32_t capped(uint64_t n) {
        return (uint32_t) MIN(n, (uint64_t) run.window);
}

static void see_links(struct world *w, uint32_t end, struct world_link *links[RANKS_MAX][RANKS_MAX]) {
        for (uint32_t a = 0; a < run.n; a++)
                for (uint32_t b = a + 1; b < run.n; b++) {
                        const struct pipe_of *out = &run.pipes[a][b], *in = &run.pipes[b][a];
                        struct world_link *l;

                        if (!out->used && !in->used)
                                continue;
                        l = links[a][b] = links[b][a] = world_link(w, a, b);
                        l->a_sent = age(end, out, out->given);
                        l->b_sent = age(end, in, in->given);
                        l->a_received = age(end, in, arrived(in));
                        l->b_received = age(end, out, arrived(out));
                        l->a_unread = capped(arrived(in) - in->taken);
                        l->b_unread = capped(arrived(out) - out->taken);
                        l->a_unsent = (uint32_t) (arrived(out) - out->taken) - l->b_unread;
                        l->b_unsent = (uint32_t) (arrived(in) - in->taken) - l->a_unread;
                        l->a_bytes = 1 + arrived(in);
                        l->b_bytes = 1 + arrived(out);
                        if (out->lost && out->given > out->lost_at) {
                                l->a_unacknowledged = l->a_retransmits = 6;
                                l->a_sent = 3000;
                        }
                        if (in->lost && in->given > in->lost_at) {
                                l->b_unacknowledged = l->b_retransmits = 6;
                                l->b_sent = 3000;
                        }
                }
}

static void see_culprit(struct world *w, uint32_t rank, struct world_thread *t) {
        static const uint8_t kinds[] = { WAIT_FILE,  WAIT_TIMER,     WAIT_FILE_LOCK, WAIT_DEVICE,
                                         WAIT_CHILD, WAIT_THROTTLED, WAIT_PAGE,      WAIT_FROZEN };
        uint32_t k = roll(&run.seed, ELEMENTSOF(kinds) + 4);
        struct captured_wait *wait;

        t->stack = "program.py:5 step | data.py:77 draw";
        if (k < ELEMENTSOF(kinds))
                (void) world_wait(t, kinds[k]);
        else if (k == ELEMENTSOF(kinds))
                t->state = 'R';
        else if (k == ELEMENTSOF(kinds) + 1)
                w->hosts[rank].processes[0].state = t->state = 'T';
        else if (k == ELEMENTSOF(kinds) + 2) { /* a lock, whose holder reads a file */
                wait = world_wait(t, WAIT_LOCK);
                wait->holder_pid = world_pid(rank);
                wait->holder_tid = 2000;
                (void) world_wait(world_thread(w, rank, world_pid(rank), 2000, "writer", "cache.py:3 put"),
                                  WAIT_FILE);
        } else { /* two locks in two orders */
                struct world_thread *other = world_thread(w, rank, world_pid(rank), 2000, "other",
                                                          "ledger.py:9 add");

                for (int i = 0; i < 2; i++) {
                        wait = world_wait(i ? other : t, WAIT_LOCK);
                        wait->holder_pid = world_pid(rank);
                        wait->holder_tid = i ? world_pid(rank) : 2000;
                        wait->number = 8 + (uint64_t) i;
                }
        }
}

static void see_blocked(struct world *w, uint32_t rank, struct world_thread *t, bool plain, uint32_t how,
                        struct world_link *links[RANKS_MAX][RANKS_MAX]) {
        const struct machine *m = &run.of[rank];
        const struct doing *d = &m->program.list[m->at];
        enum verb verb = m->struck ? TAKES : d->verb;
        uint32_t peer = m->struck ? run.peer : d->peer, form = verb == TAKES_ANY ? 1 : how;
        static char stacks[RANKS_MAX][128];

        (void) snprintf(stacks[rank], sizeof(stacks[rank]),
                        "program.py:5 step | program.py:%" PRIu32 " %s | wire.py:7 %s",
                        m->struck ? 99 : d->line, m->program.role, verb == SENDS ? "put" : "take");
        t->stack = plain ? "loop.py:40 swap" : stacks[rank];
        if (form == 1 && verb != SENDS)
                for (uint32_t i = 0; i < run.n; i++) { /* it watches all of its connections */
                        if (links[rank][i] && (verb == TAKES_ANY || i == peer))
                                world_recv(w, rank, t, links[rank][i])->any = verb == TAKES_ANY;
                }
        else if (form == 2) { /* a thread of its own does that */
                struct captured_wait *lock = world_wait(t, WAIT_LOCK);

                lock->holder_pid = world_pid(rank);
                lock->holder_tid = 3000 + rank;
                world_recv(w, rank,
                           world_thread(w, rank, world_pid(rank), 3000 + rank, "wire", "wire.py:7 take"),
                           links[rank][peer])->writes = verb == SENDS;
        } else
                world_recv(w, rank, t, links[rank][peer])->writes = verb == SENDS;
}

static void see(struct world *w) {
        static struct world_link *links[RANKS_MAX][RANKS_MAX];
        bool plain = roll(&run.seed, 3) == 0, steps = roll(&run.seed, 2);
        uint32_t end = 0, form = roll(&run.seed, 5);

        memset(links, 0, sizeof(links));
        world_init(w, run.n);
        for (uint32_t i = 0; i < run.n; i++)
                end = MAX(end, run.of[i].clock);
        see_links(w, end, links);
        for (uint32_t i = 0; i < run.n; i++) {
                if (steps)
                        w->hosts[i].step = run.of[i].step;
                if (run.of[i].struck && run.strike == BY_ITSELF)
                        see_culprit(w, i, world_main(w, i));
                else
                        see_blocked(w, i, world_main(w, i), plain, form, links);
        }
}

/* --- Runs ------------------------------------------------------------------------------------------- */

static const struct {
        const char *name;
        void (*make)(void);
} shapes[] = {
        { "star", star },         { "ring", ring },         { "tree", tree },
        { "all to all", all_to_all }, { "pipeline", pipeline }, { "queue", queue },
};

/* A peer that the culprit takes from (BY_MESSAGE) or sends to (BY_PATH). */
static bool choose_peer(void) {
        const struct program *p = &run.of[run.culprit].program;
        enum verb verb = run.strike == BY_PATH ? SENDS : TAKES;

        for (size_t k = roll(&run.seed, (uint32_t) p->n), i = 0; i < p->n; i++)
                if (p->list[(k + i) % p->n].verb == verb) {
                        run.peer = p->list[(k + i) % p->n].peer;
                        run.amount = roll(&run.seed, 2) ? 8 : p->list[(k + i) % p->n].amount;
                        return true;
                }
        return false;
}

/* False: this strike is none here, or the run goes on with it. */
static bool make(size_t shape, enum strike strike, uint64_t seed) {
        memset(&run, 0, sizeof(run));
        run.seed = seed;
        run.n = 3 + roll(&run.seed, RANKS_MAX - 3);
        run.window = roll(&run.seed, 2) ? 64000 : 1000000;
        for (uint32_t i = 0; i < run.n; i++)
                run.of[i].program.role = "worker";
        shapes[shape].make();
        run.culprit = roll(&run.seed, run.n);
        run.strike = strike;
        run.strike_step = 3 + roll(&run.seed, 6);
        run.strike_at = roll(&run.seed, (uint32_t) run.of[run.culprit].program.n);
        for (uint32_t i = 0; i < run.n; i++)
                run.of[i].jitter = 1 + roll(&run.seed, 10);
        if (strike != BY_ITSELF && !choose_peer())
                return false;
        run_on();
        for (uint32_t i = 0; i < run.n; i++)
                if (run.of[i].step >= STEPS_MAX - 1)
                        return false;
        return true;
}

struct tally {
        unsigned right, nobody, wrong;
};

/* Of a path, either end is right. sure: whoever is struck has to be named. */
static void judge(size_t shape, uint64_t seed, bool sure, struct tally *t) {
        static struct world w;
        _cleanup_scene_ struct scene scene = SCENE_NULL;
        struct diagnosis *d;
        bool named, right;

        see(&w);
        d = world_diagnose(&w, &scene);
        named = d->outcome == OUTCOME_NAMED;
        right = named && (d->suspects[0].host == run.culprit ||
                          (run.strike == BY_PATH && d->suspects[0].host == run.peer));
        t->right += right;
        t->wrong += named && !right;
        t->nobody += !named;
        if (sure && !right)
                test_fail(__FILE__, __LINE__,
                          "%s, seed %" PRIu64 ": rank %u of %u struck in step %u at %zu: %s: %s",
                          shapes[shape].name, seed, run.culprit, run.n, run.strike_step, run.strike_at,
                          outcome_name(d->outcome), d->summary);
        (void) diagnosis_free(d);
}

static void try_all(enum strike strike, const char *name, bool sure) {
        uint64_t first = test_seed();
        struct tally all = { 0, 0, 0 };

        for (size_t shape = 0; shape < ELEMENTSOF(shapes); shape++) {
                struct tally t = { 0, 0, 0 };

                for (unsigned k = 0; k < RUNS; k++) {
                        uint64_t seed = first + 1000003 * (uint64_t) k + shape;

                        if (make(shape, strike, seed))
                                judge(shape, seed, sure, &t);
                }
                printf("%s, %s: right %u, nobody %u, wrong %u\n", name, shapes[shape].name, t.right,
                       t.nobody, t.wrong);
                ASSERT_TRUE(t.right * 3 >= t.right + t.nobody + t.wrong);
                ASSERT_TRUE(t.wrong * 10 <= t.right + t.nobody + t.wrong);
                all.right += t.right;
                all.nobody += t.nobody;
                all.wrong += t.wrong;
        }
        ASSERT_TRUE(all.right * 10 >= 7 * (all.right + all.nobody + all.wrong)); /* measured: 8 of 10 */
        ASSERT_TRUE(all.wrong * 100 <= 3 * (all.right + all.nobody + all.wrong)); /* measured: 1.6 of 100 */
}

static void test_one_does_not_get_on(void) {
        try_all(BY_ITSELF, "does not get on", true);
}

static void test_a_path_is_lost(void) {
        try_all(BY_PATH, "path", true);
}

/* Two wait for each other, and the others for them. What passed before says who is behind; not always. */
static void test_takes_what_nobody_gives(void) {
        try_all(BY_MESSAGE, "takes what nobody gives", false);
}

TEST_MAIN(test_one_does_not_get_on, test_a_path_is_lost, test_takes_what_nobody_gives)
