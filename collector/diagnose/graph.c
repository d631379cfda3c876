/* SPDX-License-Identifier: Apache-2.0 */
#include "graph.h"

#include "grow.h"
#include "weights.h"

#define ROUNDS_MAX 64u
#define RESTS 1e-9 /* a share that small stays where it is */

void wait_graph_clear(struct wait_graph *g) {
        debts_clear(&g->debts);
        free(g->chains);
        free(g->nodes);
        free(g->next);
        *g = WAIT_GRAPH_NULL;
}

/* --- What each is by itself --------------------------------------------------------------------------- */

/* A kind that says nothing of who is waited for. */
static bool is_vague(uint8_t kind) {
        return kind == WAIT_LOCK || kind == WAIT_GIL || kind == WAIT_EVENTFD || kind == WAIT_SOCKET ||
               kind == KIND_CALL || kind == WAIT_UNKNOWN;
}

/* It runs where most run, and no wait is known of it: it computes, or it looks for the others' data again
 * and again. */
static bool may_spin(const struct wait_chain *c, enum alike alike) {
        return alike == ALIKE_MOST && c->kind == KIND_CPU && c->n == 1 && c->stuck;
}

static double end_of_rank(const struct wait_chain *c, enum alike alike) {
        if (c->end == END_RANKS || c->end == END_OTHERS || c->end == END_PATH)
                return 0;
        if (may_spin(c, alike))
                return weight_of(WEIGHT_SPINS);
        if (c->end != END_UNKNOWN)
                return c->weight;
        if (alike == ALIKE_NEAR && !c->odd)
                return weight_of(WEIGHT_NEAR);
        return alike == ALIKE_UNSURE && !c->odd && is_vague(c->kind) ? c->weight / 2 : c->weight;
}

/* What it passes on to nobody in particular. */
static double likeness_of(const struct wait_chain *c, enum alike alike) {
        if (c->end == END_PATH)
                return 0;
        if (c->end == END_OTHERS)
                return weight_of(WEIGHT_LIKE_MOST);
        if (may_spin(c, alike) ||
            (c->end == END_UNKNOWN && is_vague(c->kind) && alike != ALIKE_ODD && !c->odd))
                return weight_of(WEIGHT_LIKE_MOST) / 2;
        return 0;
}

/* Where i's edges begin in the debts. */
static size_t first_edge(const struct debts *d, uint32_t i) {
        return SORTED_PLACE(d->n, k, d->edges[k].from < i);
}

/* A thread that runs or sleeps a little may look for the others' data again and again. Where the sockets say
 * that others owe it and that it owes nobody, it does; but not one that runs where no other does. */
static bool looks_again(const struct wait_chain *c, enum alike alike, bool owed, bool owes) {
        return c->end == END_HERE && c->n == 1 && owed && !owes &&
               (c->kind == WAIT_TIMER || (c->kind == KIND_CPU && alike != ALIKE_ODD));
}

/* It looks again and again where most do, and one of its connections does not carry: it is the path. */
static void cut_who_spins(const struct wait_graph *g, struct wait_chain *c, uint32_t i, enum alike alike) {
        if (may_spin(c, alike) && c->end == END_HERE && g->debts.ranks[i].cut)
                c->end = END_PATH;
}

/* It is held up by itself, where no other rank stands: then who waits as most do, and has received last,
 * serves the others and waits for this one, too. */
static bool ends_alone(const struct wait_chain *c, enum alike alike) {
        return (c->end == END_HERE || c->end == END_CIRCLE || c->end == END_OUTSIDE || c->odd) &&
               alike == ALIKE_ODD && c->weight >= weight_of(WEIGHT_SINK);
}

static void weigh_node(struct wait_graph *g, const struct evidence *e, uint32_t i, bool owes,
                       bool explained) {
        const struct wait_chain *c = &g->chains[i];
        struct graph_node *n = &g->nodes[i];
        size_t first = first_edge(&g->debts, i);
        bool owed = first < g->debts.n && g->debts.edges[first].from == i,
             works = c->end != END_PATH && may_spin(c, e->ranks[i].alike) && owes &&
                     !owed; /* it does not wait for the others */
        double stays = works ? 1 : 1 - likeness_of(c, e->ranks[i].alike);

        n->there = true;
        n->end = works                        ? c->weight
                 : looks_again(c, e->ranks[i].alike, owed, owes) ? weight_of(WEIGHT_LOOKS)
                                              : end_of_rank(c, e->ranks[i].alike);
        if (c->end == END_RANKS)
                stays *= 1 - (c->certain ? weight_of(WEIGHT_BLOCKED) : weight_of(WEIGHT_POLLS));
        for (size_t k = first; k < g->debts.n && g->debts.edges[k].from == i; k++)
                stays *= 1 - g->debts.edges[k].weight;
        n->leaves = c->end == END_PATH ? 0 : (1 - n->end) * (1 - stays);
        if (c->end == END_RANKS && c->certain)
                g->next[i] = c->ranks[0];
        else if (g->debts.ranks[i].owes && !(explained && c->end == END_OTHERS))
                n->leaves *= 1 - weight_of(WEIGHT_OWES);
}

/* --- Waits for one alone ------------------------------------------------------------------------------ */

static int break_circle(struct wait_graph *g, const struct evidence *e, uint32_t first) {
        uint32_t behind = STACK_NONE, i = first, least = first;
        int r = circle_behind(e, &g->debts, g->next, first, &behind);

        if (r < 0)
                return r;
        for (uint32_t k = g->next[first]; k != first; k = g->next[k])
                least = MIN(least, k);
        if (r != CIRCLE_NOBODY) {
                struct graph_node *n = &g->nodes[behind];

                n->behind = (enum circle_by) r;
                g->next[behind] = STACK_NONE;
                n->root = behind;
                n->end = weight_of(WEIGHT_OWES);
                n->leaves = 0;
                return 0;
        }
        do {
                struct graph_node *n = &g->nodes[i];

                n->in_circle = true;
                n->root = least;
                n->leaves = 0;
                i = g->next[i];
        } while (i != first);
        return 0;
}

/* Follows i to its root, and notes it in all that it passes. visited: 0 not yet, else in which walk. */
static int find_root(struct wait_graph *g, const struct evidence *e, uint32_t i, uint32_t *visited) {
        uint32_t at = i, root;

        while (g->nodes[at].root == STACK_NONE && g->next[at] != STACK_NONE) {
                if (visited[at] == i + 1) {
                        int r = break_circle(g, e, at);

                        if (r < 0)
                                return r;
                        while (g->nodes[at].root == STACK_NONE) /* up to who ends it */
                                at = g->next[at];
                        break;
                }
                visited[at] = i + 1;
                at = g->next[at];
        }
        root = g->nodes[at].root == STACK_NONE ? at : g->nodes[at].root;
        for (at = i; g->nodes[at].root == STACK_NONE; at = g->next[at]) {
                g->nodes[at].root = root;
                if (g->next[at] == STACK_NONE)
                        break;
        }
        return 0;
}

/* --- Shares ------------------------------------------------------------------------------------------- */

struct flow {
        struct wait_graph *g;
        const struct evidence *e;
        double *now, *then; /* shares that still move, by node */
        double *least;      /* how much each draws of what goes to nobody in particular */
        double all;         /* the sum of these */
};

/* Who waits for others draws next to nothing, beside one who does not. */
static void weigh_sinks(struct flow *f) {
        for (size_t i = 0; i < f->g->n; i++) {
                const struct graph_node *n = &f->g->nodes[i];
                double stays = 1 - n->leaves;

                if (!n->there || n->root != i)
                        continue;
                f->least[i] = i < f->e->n_ranks ? stays * stays * stays : 0.3;
                f->all += f->least[i];
        }
}

static void pass_to(struct flow *f, uint32_t node, double amount) {
        f->then[f->g->nodes[node].root] += amount;
}

/* Of a share that leaves, to each by the weight of the edge to it. Returns what goes to nobody in
 * particular. */
static double pass_on(struct flow *f, uint32_t i, double amount) {
        const struct wait_graph *g = f->g;
        const struct wait_chain *c = i < f->e->n_ranks ? &g->chains[i] : NULL;
        size_t first = first_edge(&g->debts, i), k;
        double polls = c && c->end == END_RANKS ? weight_of(WEIGHT_POLLS) : 0,
               like = c ? likeness_of(c, f->e->ranks[i].alike) : 0, sum = polls + like, draws = 0;

        for (k = first; k < g->debts.n && g->debts.edges[k].from == i; k++)
                sum += g->debts.edges[k].weight;
        if (sum <= 0)
                return amount;
        for (k = first; k < g->debts.n && g->debts.edges[k].from == i; k++)
                pass_to(f, g->debts.edges[k].to, amount * g->debts.edges[k].weight / sum);
        for (uint32_t n = 0; c && polls > 0 && n < c->n_ranks; n++)
                draws += f->least[g->nodes[c->ranks[n]].root] + RESTS;
        for (uint32_t n = 0; c && polls > 0 && n < c->n_ranks; n++)
                pass_to(f, c->ranks[n],
                        amount * polls / sum * (f->least[g->nodes[c->ranks[n]].root] + RESTS) / draws);
        return amount * like / sum;
}

static double one_round(struct flow *f) {
        double rest = 0, moved = 0;

        memset(f->then, 0, f->g->n * sizeof(*f->then));
        for (uint32_t i = 0; i < f->g->n; i++) {
                struct graph_node *n = &f->g->nodes[i];

                if (f->now[i] <= 0)
                        continue;
                n->share += f->now[i] * (1 - n->leaves);
                if (n->leaves > 0)
                        rest += pass_on(f, i, f->now[i] * n->leaves);
        }
        for (size_t i = 0; i < f->g->n && rest > 0 && f->all > 0; i++)
                f->then[i] += rest * f->least[i] / f->all;
        for (size_t i = 0; i < f->g->n; i++)
                moved += f->then[i];
        memcpy(f->now, f->then, f->g->n * sizeof(*f->now));
        return moved;
}

/* The share of a circle is each member's. */
static void settle(struct wait_graph *g) {
        for (size_t i = 0; i < g->n; i++)
                if (g->nodes[i].in_circle && g->nodes[i].root != i)
                        g->nodes[i].share = g->nodes[g->nodes[i].root].share;
        for (size_t i = 0; i < g->n; i++) {
                g->nodes[i].share /= (double) MAX(g->n_there, (size_t) 1);
                g->most = MAX(g->most, g->nodes[i].share);
        }
}

static int spread_shares(struct wait_graph *g, const struct evidence *e) {
        _cleanup_free_ double *now = calloc(g->n + 1, sizeof(*now)), *then = calloc(g->n + 1, sizeof(*then)),
                              *least = calloc(g->n + 1, sizeof(*least));
        struct flow f = { g, e, now, then, least, 0 };
        double moves = (double) g->n_there;

        if (!now || !then || !least)
                return -ENOMEM;
        weigh_sinks(&f);
        for (size_t i = 0; i < g->n; i++)
                if (g->nodes[i].there)
                        now[g->nodes[i].root] += 1;
        for (unsigned k = 0; k < ROUNDS_MAX && moves > RESTS * (double) g->n_there; k++)
                moves = one_round(&f);
        for (size_t i = 0; i < g->n; i++)
                g->nodes[i].share += now[i];
        settle(g);
        return 0;
}

int wait_graph_make(struct wait_graph *g, const struct evidence *e) {
        _cleanup_free_ uint32_t *visited = NULL;
        _cleanup_free_ bool *owes = NULL;
        bool explained = false;
        int r = debts_survey(e, &g->debts);

        if (r < 0)
                return r;
        g->n = e->n_ranks + e->n_hosts;
        g->chains = calloc(e->n_ranks + 1, sizeof(*g->chains));
        g->nodes = calloc(g->n + 1, sizeof(*g->nodes));
        g->next = calloc(g->n + 1, sizeof(*g->next));
        visited = calloc(g->n + 1, sizeof(*visited));
        owes = calloc(g->n + 1, sizeof(*owes));
        if (!g->chains || !g->nodes || !g->next || !visited || !owes)
                return -ENOMEM;
        for (size_t i = 0; i < g->debts.n; i++)
                owes[g->debts.edges[i].to] = true;
        for (uint32_t i = 0; i < g->n; i++) {
                g->next[i] = g->nodes[i].root = STACK_NONE;
                g->nodes[i].there = i >= e->n_ranks && e->hosts[i - e->n_ranks].n_ranks == 0;
        }
        for (uint32_t i = 0; i < e->n_ranks; i++) {
                chain_follow(e, i, &g->chains[i]);
                if (g->chains[i].end == END_RANKS && !g->chains[i].certain && g->debts.ranks[i].owes &&
                    !g->debts.cut)
                        chain_look_within(e, i, &g->chains[i]);
                cut_who_spins(g, &g->chains[i], i, e->ranks[i].alike);
                explained |= ends_alone(&g->chains[i], e->ranks[i].alike);
        }
        for (uint32_t i = 0; i < e->n_ranks; i++)
                weigh_node(g, e, i, owes[i], explained);
        for (uint32_t i = 0; i < g->n && r == 0; i++)
                if (g->nodes[i].root == STACK_NONE)
                        r = find_root(g, e, i, visited);
        if (r < 0)
                return r;
        for (uint32_t i = 0; i < g->n; i++) {
                struct graph_node *n = &g->nodes[i];

                n->waits = i < e->n_ranks && (g->next[i] != STACK_NONE || n->in_circle || n->leaves >= 0.5 ||
                                              g->chains[i].end == END_PATH);
                g->n_there += n->there;
                g->n_waiting += n->waits;
        }
        return spread_shares(g, e);
}
