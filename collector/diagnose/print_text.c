/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis_print.h"
#include "rank_set.h"
#include "sentence.h"
#include "tree.h"

#define SET_PARTS 12u      /* ranges of one line */
#define CHILDREN_SHOWN 16u /* of one node */
#define DEPTH_SHOWN 64u    /* branches above each other */
#define SUSPECTS_SHOWN 8u
#define HINT 0.2 /* who scores less is not worth a line */

/* --- The tree ------------------------------------------------------------------------------------------ */

struct picture {
        FILE *file;
        const struct tree *tree;
        bool *in;
        char indent[4 * DEPTH_SHOWN + 1];
};

static void put_frame(struct picture *p, const struct stack_frame *f) {
        const struct stack_table *t = &p->tree->evidence->scene->table;
        const char *file = stack_table_text(t, f->file), *function = stack_table_text(t, f->function);

        switch ((enum frame_kind) f->kind) {
        case FRAME_PYTHON:
                fprintf(p->file, f->line > 0 ? "%s (%s:%" PRIu32 ")" : "%s (%s)", function, file, f->line);
                break;
        case FRAME_NATIVE:
                fprintf(p->file, "%s [%s]", function, file);
                break;
        case FRAME_KERNEL:
                fprintf(p->file, "%s [kernel]", function);
                break;
        case _FRAME_KIND_MAX:
                break;
        }
}

static int put_children(struct picture *p, const struct tree_node *n, unsigned depth);

/* One line for who has it and its first frame, and one for each further frame. */
static int put_node(struct picture *p, const struct tree_node *n, unsigned depth, bool last) {
        size_t threads, hosts = tree_hosts(p->tree, n, p->in, &threads), len = strlen(p->indent);

        fprintf(p->file, "%s%s %zu ", p->indent, last ? "└" : "├", hosts);
        rank_set_print(p->file, p->tree->evidence, p->in, SET_PARTS);
        if (threads != hosts)
                fprintf(p->file, " %zu threads", threads);
        (void) snprintf(p->indent + len, sizeof(p->indent) - len, "%s", last ? "  " : "│ ");
        for (uint32_t i = n->from; i < n->to; i++) {
                fprintf(p->file, "%s%s", i == n->from ? "  " : "\n", i == n->from ? "" : p->indent);
                fputs(i == n->from ? "" : "    ", p->file);
                put_frame(p, tree_frame(p->tree, n, i));
        }
        fputc('\n', p->file);
        if (put_children(p, n, depth) < 0)
                return -ENOMEM;
        p->indent[len] = 0;
        return 0;
}

static int put_children(struct picture *p, const struct tree_node *n, unsigned depth) {
        _cleanup_free_ uint32_t *children = NULL;
        size_t count;
        int r;

        if (n->child == TREE_NONE)
                return 0;
        if (depth == DEPTH_SHOWN) {
                fprintf(p->file, "%s└ …\n", p->indent);
                return 0;
        }
        r = tree_children(p->tree, n, &children, &count);
        for (size_t i = 0; i < count && i < CHILDREN_SHOWN && r == 0; i++)
                r = put_node(p, &p->tree->nodes[children[i]], depth + 1, i + 1 == count);
        if (count > CHILDREN_SHOWN && r == 0)
                fprintf(p->file, "%s└ … and %zu more\n", p->indent, count - CHILDREN_SHOWN);
        return r;
}

static int put_tree(FILE *f, const struct diagnosis *d, bool all) {
        _cleanup_free_ bool *in = calloc(d->evidence.n_hosts + 1, sizeof(*in));
        _cleanup_tree_ struct tree tree = TREE_NULL;
        struct picture p = { .file = f, .tree = &tree, .in = in };
        int r = in ? tree_build(&tree, &d->evidence, all) : -ENOMEM;

        if (r < 0 || tree.n_stacks == 0)
                return r;
        fprintf(f, "\n%s, outermost frame first: hosts, which, frame\n",
                all                          ? "all threads"
                : d->evidence.thread_name[0] ? d->evidence.thread_name
                                             : "main threads");
        return put_children(&p, &tree.nodes[0], 0);
}

/* --- Everything ---------------------------------------------------------------------------------------- */

static void put_details(FILE *f, const char *details) {
        for (const char *end; (end = strchr(details, '\n')); details = end + 1)
                fprintf(f, "  %.*s\n", (int) (end - details), details);
}

static void put_suspects(FILE *f, const struct diagnosis *d) {
        size_t shown = 0;

        if (d->outcome == OUTCOME_NAMED)
                put_details(f, d->suspects[0].details);
        for (size_t i = d->outcome == OUTCOME_NAMED; i < d->n_suspects && shown < SUSPECTS_SHOWN; i++) {
                if (d->suspects[i].score < HINT)
                        break;
                if (shown++ == 0)
                        fprintf(f, "\n%s\n",
                                d->outcome == OUTCOME_NAMED ? "others, by score:" : "hints, by score:");
                fprintf(f, "%.2f  %s\n", d->suspects[i].score, d->suspects[i].sentence);
                put_details(f, d->suspects[i].details);
        }
        if (d->n_odd > BLAME_SUSPECTS_MAX)
                fprintf(f, "… and %zu more\n", d->n_odd - BLAME_SUSPECTS_MAX);
}

static int put_silent(FILE *f, const struct diagnosis *d) {
        _cleanup_free_ bool *in = calloc(d->evidence.n_hosts + 1, sizeof(*in));

        if (!in)
                return -ENOMEM;
        if (d->evidence.n_silent == 0)
                return 0;
        for (size_t i = 0; i < d->evidence.n_hosts; i++)
                in[i] = !d->evidence.hosts[i].last;
        fprintf(f, "\nno answer from %zu of %zu hosts: ", d->evidence.n_silent, d->evidence.n_hosts);
        rank_set_print(f, &d->evidence, in, SET_PARTS);
        fputc('\n', f);
        return 0;
}

int diagnosis_print_text(FILE *f, const struct diagnosis *d, bool all) {
        int r;

        if (d->outcome == OUTCOME_NAMED)
                fprintf(f, "%s (score %.2f)\n", d->summary, d->suspects[0].score);
        else
                fprintf(f, "%s\n", d->summary);
        put_suspects(f, d);
        r = put_silent(f, d);
        if (r == 0)
                r = put_tree(f, d, all);
        if (r == 0 && (fflush(f) == EOF || ferror(f)))
                return -EIO;
        return r;
}
