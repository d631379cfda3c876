/* SPDX-License-Identifier: Apache-2.0 */
#include "evidence.h"

#include "grow.h"

struct key {
        const struct evidence *e;
        uint32_t rank;
};

static const struct stack_frame *frame_of(const struct stack_table *t, uint32_t frame) {
        static const struct stack_frame none = { 0 };

        return frame == STACK_NONE ? &none : &t->frames[frame];
}

static int compare(uint64_t a, uint64_t b) {
        return a < b ? -1 : a > b;
}

/* A line counts only of what stands still. */
static uint32_t line_of(const struct stack_table *t, enum standing standing, uint32_t frame, bool moved) {
        return standing == STANDING_RUNS || moved ? 0 : frame_of(t, frame)->line;
}

static int compare_places(const struct stack_table *t, const struct rank *a, const struct rank *b) {
        const struct stack_frame *f = frame_of(t, a->place.frame), *g = frame_of(t, b->place.frame);
        int r = compare(a->place.standing, b->place.standing);

        if (r == 0)
                r = strcmp(a->place.what, b->place.what);
        if (r == 0 && f->file != g->file)
                r = strcmp(stack_table_text(t, f->file), stack_table_text(t, g->file));
        if (r == 0 && f->function != g->function)
                r = strcmp(stack_table_text(t, f->function), stack_table_text(t, g->function));
        if (r == 0)
                r = compare(line_of(t, a->place.standing, a->place.frame, a->moved),
                            line_of(t, b->place.standing, b->place.frame, b->moved));
        return r;
}

static int compare_keys(const void *x, const void *y) {
        const struct key *a = x, *b = y;
        int r = compare_places(&a->e->scene->table, &a->e->ranks[a->rank], &b->e->ranks[b->rank]);

        return r == 0 ? compare(a->rank, b->rank) : r;
}

/* Greatest first; between equals the order of the places, which the first rank of each has. */
static int compare_classes(const void *x, const void *y) {
        const struct rank_class *a = x, *b = y;

        return a->n != b->n ? compare(b->n, a->n) : compare(a->example, b->example);
}

static int add_class(struct evidence *e, uint32_t rank) {
        const struct rank *from = &e->ranks[rank];
        int r = grow(&e->classes, &e->classes_size, e->n_classes + 1, sizeof(*e->classes));

        if (r < 0)
                return r;
        e->classes[e->n_classes++] = (struct rank_class){
                .standing = from->place.standing,
                .what = from->place.what,
                .frame = from->place.frame,
                .own = from->place.own,
                .example = rank,
        };
        return 0;
}

/* Ranks of one class lie together in keys, and the class's example is the first of them. */
static void number_ranks(struct evidence *e, const struct key *keys) {
        for (size_t k = 0; k < e->n_classes; k++)
                e->ranks[e->classes[k].example].class = (uint32_t) k;
        for (size_t i = 1; i < e->n_ranks; i++) {
                struct rank *rank = &e->ranks[keys[i].rank], *before = &e->ranks[keys[i - 1].rank];

                if (compare_places(&e->scene->table, before, rank) == 0)
                        rank->class = before->class;
        }
}

int evidence_classify(struct evidence *e) {
        _cleanup_free_ struct key *keys = calloc(e->n_ranks + 1, sizeof(*keys));
        int r = 0;

        if (!keys)
                return -ENOMEM;
        for (size_t i = 0; i < e->n_ranks; i++)
                keys[i] = (struct key){ e, (uint32_t) i };
        qsort(keys, e->n_ranks, sizeof(*keys), compare_keys);
        e->n_classes = 0;
        for (size_t i = 0; i < e->n_ranks && r == 0; i++) {
                const struct rank *rank = &e->ranks[keys[i].rank];

                if (i == 0 || compare_places(&e->scene->table, &e->ranks[keys[i - 1].rank], rank) != 0)
                        r = add_class(e, keys[i].rank);
                if (r < 0)
                        return r;
                e->classes[e->n_classes - 1].n++;
                e->classes[e->n_classes - 1].moved |= rank->moved;
        }
        if (e->n_classes > 1)
                qsort(e->classes, e->n_classes, sizeof(*e->classes), compare_classes);
        number_ranks(e, keys);
        return 0;
}
