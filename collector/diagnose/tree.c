/* SPDX-License-Identifier: Apache-2.0 */
#include "tree.h"

#include "grow.h"

void tree_clear(struct tree *t) {
        free(t->stacks);
        free(t->offsets);
        free(t->hosts);
        free(t->nodes);
        *t = TREE_NULL;
}

/* --- Whose stack is whose -------------------------------------------------------------------------- */

typedef void (*thread_seen_t)(struct tree *t, uint32_t *at, uint32_t stack, uint32_t host);

static void count_thread(struct tree *t, uint32_t *at, uint32_t stack, uint32_t host) {
        (void) host;
        at[stack]++;
        t->n_threads++;
}

static void place_thread(struct tree *t, uint32_t *at, uint32_t stack, uint32_t host) {
        t->hosts[at[stack]++] = host;
}

static void each_thread(struct tree *t, uint32_t *at, bool all, thread_seen_t seen) {
        const struct evidence *e = t->evidence;

        for (size_t i = 0; i < e->n_hosts && all; i++)
                for (size_t k = 0; e->hosts[i].last && k < e->hosts[i].last->n_threads; k++)
                        if (e->hosts[i].last->threads[k].stack != STACK_NONE)
                                seen(t, at, e->hosts[i].last->threads[k].stack, (uint32_t) i);
        for (size_t i = 0; i < e->n_ranks && !all; i++) {
                const struct captured_thread *thread =
                        e->ranks[i].thread[1] ? e->ranks[i].thread[1] : e->ranks[i].thread[0];

                if (thread && thread->stack != STACK_NONE)
                        seen(t, at, thread->stack, e->ranks[i].host);
        }
}

struct sort_key {
        const uint32_t *frames;
        uint32_t n, stack;
};

static int compare_stacks(const void *x, const void *y) {
        const struct sort_key *a = x, *b = y;

        for (uint32_t i = 0; i < a->n && i < b->n; i++)
                if (a->frames[i] != b->frames[i])
                        return COMPARE(a->frames[i], b->frames[i]);
        return COMPARE(a->n, b->n);
}

/* The stacks that somebody has, in the order of their frames; at[] says how many threads have each. */
static int sort_stacks(struct tree *t, const uint32_t *at) {
        const struct stack_table *table = &t->evidence->scene->table;
        _cleanup_free_ struct sort_key *keys = NULL;
        size_t n = 0;

        for (size_t i = 0; i < table->n_stacks; i++)
                n += at[i] > 0;
        keys = calloc(n + 1, sizeof(*keys));
        t->stacks = calloc(n + 1, sizeof(*t->stacks));
        if (!keys || !t->stacks)
                return -ENOMEM;
        for (size_t i = 0; i < table->n_stacks; i++)
                if (at[i] > 0)
                        keys[t->n_stacks++] = (struct sort_key){ stack_table_frames(table, (uint32_t) i),
                                                                 table->stacks[i].n, (uint32_t) i };
        qsort(keys, n, sizeof(*keys), compare_stacks);
        for (size_t i = 0; i < n; i++)
                t->stacks[i] = keys[i].stack;
        return 0;
}

static int gather_stacks(struct tree *t, bool all) {
        size_t n = t->evidence->scene->table.n_stacks;
        _cleanup_free_ uint32_t *at = calloc(n + 1, sizeof(*at));
        uint32_t sum = 0;
        int r;

        if (!at)
                return -ENOMEM;
        each_thread(t, at, all, count_thread);
        r = sort_stacks(t, at);
        if (r < 0)
                return r;
        t->offsets = calloc(t->n_stacks + 1, sizeof(*t->offsets));
        t->hosts = calloc(t->n_threads + 1, sizeof(*t->hosts));
        if (!t->offsets || !t->hosts)
                return -ENOMEM;
        for (size_t i = 0; i < t->n_stacks; i++) {
                t->offsets[i] = sum;
                sum += at[t->stacks[i]];
                at[t->stacks[i]] = t->offsets[i];
        }
        t->offsets[t->n_stacks] = sum;
        each_thread(t, at, all, place_thread);
        return 0;
}

/* --- The tree -------------------------------------------------------------------------------------- */

static uint32_t length_of(const struct tree *t, uint32_t i) {
        return t->evidence->scene->table.stacks[t->stacks[i]].n;
}

static const uint32_t *frames_of(const struct tree *t, uint32_t i) {
        return stack_table_frames(&t->evidence->scene->table, t->stacks[i]);
}

/* How many frames the first and the last of a sorted range have in common: all between have them, too. */
static uint32_t common_frames(const struct tree *t, uint32_t lo, uint32_t hi, uint32_t from) {
        const uint32_t *a = frames_of(t, lo), *b = frames_of(t, hi - 1);
        uint32_t n = MIN(length_of(t, lo), length_of(t, hi - 1));

        while (from < n && a[from] == b[from])
                from++;
        return from;
}

static int add_node(struct tree *t, uint32_t from, uint32_t lo, uint32_t hi) {
        int r = grow(&t->nodes, &t->nodes_size, t->n_nodes + 1, sizeof(*t->nodes));

        if (r < 0)
                return r;
        t->nodes[t->n_nodes++] = (struct tree_node){
                .from = from,
                .to = common_frames(t, lo, hi, from),
                .lo = lo,
                .hi = hi,
                .child = TREE_NONE,
                .next = TREE_NONE,
        };
        return 0;
}

/* Splits a node where its stacks part. The children of one node lie one behind the other. */
static int split_node(struct tree *t, size_t node) {
        struct tree_node n = t->nodes[node];
        uint32_t lo = n.lo, last = TREE_NONE;

        while (lo < n.hi && length_of(t, lo) == n.to)
                lo++; /* a stack that ends here */
        while (lo < n.hi) {
                uint32_t hi = lo + 1, frame = frames_of(t, lo)[n.to], child = (uint32_t) t->n_nodes;
                int r;

                while (hi < n.hi && frames_of(t, hi)[n.to] == frame)
                        hi++;
                r = add_node(t, n.to, lo, hi);
                if (r < 0)
                        return r;
                if (last == TREE_NONE)
                        t->nodes[node].child = child;
                else
                        t->nodes[last].next = child;
                last = child;
                lo = hi;
        }
        return 0;
}

int tree_build(struct tree *t, const struct evidence *e, bool all) {
        int r;

        *t = (struct tree){ .evidence = e };
        r = gather_stacks(t, all);
        if (r < 0)
                return r;
        r = grow(&t->nodes, &t->nodes_size, 1, sizeof(*t->nodes));
        if (r < 0)
                return r;
        t->nodes[t->n_nodes++] =
                (struct tree_node){ .hi = (uint32_t) t->n_stacks, .child = TREE_NONE, .next = TREE_NONE };
        for (size_t i = 0; i < t->n_nodes && r == 0; i++)
                if (t->nodes[i].hi > t->nodes[i].lo)
                        r = split_node(t, i);
        return r;
}

/* --- Looking at it --------------------------------------------------------------------------------- */

size_t tree_hosts(const struct tree *t, const struct tree_node *n, bool *in, size_t *ret_threads) {
        size_t found = 0;

        memset(in, 0, t->evidence->n_hosts);
        for (uint32_t i = t->offsets[n->lo]; i < t->offsets[n->hi]; i++) {
                found += !in[t->hosts[i]];
                in[t->hosts[i]] = true;
        }
        *ret_threads = t->offsets[n->hi] - t->offsets[n->lo];
        return found;
}

const struct stack_frame *tree_frame(const struct tree *t, const struct tree_node *n, uint32_t i) {
        return &t->evidence->scene->table.frames[frames_of(t, n->lo)[i]];
}

struct child_key {
        const struct tree *t;
        uint32_t node;
        size_t hosts, threads;
};

static int compare_children(const void *x, const void *y) {
        const struct child_key *a = x, *b = y;
        const struct stack_table *table = &a->t->evidence->scene->table;
        const struct tree_node *m = &a->t->nodes[a->node], *n = &b->t->nodes[b->node];
        const struct stack_frame *f = tree_frame(a->t, m, m->from), *g = tree_frame(b->t, n, n->from);

        return COMPARE(b->hosts, a->hosts) ?:
               COMPARE(b->threads, a->threads) ?:
               strcmp(stack_table_text(table, f->file), stack_table_text(table, g->file)) ?:
               strcmp(stack_table_text(table, f->function), stack_table_text(table, g->function)) ?:
               COMPARE(f->line, g->line) ?: COMPARE(f->kind, g->kind);
}

int tree_children(const struct tree *t, const struct tree_node *n, uint32_t **ret, size_t *ret_n) {
        _cleanup_free_ bool *in = calloc(t->evidence->n_hosts + 1, sizeof(*in));
        _cleanup_free_ struct child_key *keys = NULL;
        size_t count = 0, k = 0;
        uint32_t *children;

        for (uint32_t c = n->child; c != TREE_NONE; c = t->nodes[c].next)
                count++;
        keys = calloc(count + 1, sizeof(*keys));
        children = calloc(count + 1, sizeof(*children));
        if (!in || !keys || !children) {
                free(children);
                return -ENOMEM;
        }
        for (uint32_t c = n->child; c != TREE_NONE; c = t->nodes[c].next, k++) {
                keys[k] = (struct child_key){ .t = t, .node = c };
                keys[k].hosts = tree_hosts(t, &t->nodes[c], in, &keys[k].threads);
        }
        qsort(keys, count, sizeof(*keys), compare_children);
        for (k = 0; k < count; k++)
                children[k] = keys[k].node;
        *ret = children;
        *ret_n = count;
        return 0;
}
