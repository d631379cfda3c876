/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis_print.h"

#include "json_text.h"
#include "ranks.h"
#include "sentence.h"
#include "tree.h"
#include "wait_words.h"

/* --- Text ------------------------------------------------------------------------------------------ */

#define SET_PARTS 12u      /* ranges of one line */
#define CHILDREN_SHOWN 16u /* of one node */
#define DEPTH_SHOWN 64u    /* branches above each other */
#define SUSPECTS_SHOWN 8u
#define HINT 0.2 /* who scores less is not worth a line */

/* --- The tree -------------------------------------------------------------------------------------- */

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

/* --- Everything ------------------------------------------------------------------------------------ */

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

/* --- JSON: chains and the graph of waits ----------------------------------------------------------- */

static json_t *step_json(const struct diagnosis *d, const struct host_capture *c,
                         const struct chain_step *step) {
        const struct stack_table *t = &d->evidence.scene->table;
        char words[WAIT_WORDS_MAX] = "";
        uint8_t kind = KIND_UNKNOWN;

        if (step->thread)
                kind = place_kind(t, c, step->thread, captured_state_of(step->process, step->thread));
        if (step->wait)
                wait_words(c, t, step->process, step->wait, words);
        return json_pack("{s:I, s:s, s:I, s:s, s:s, s:s}", "pid", (json_int_t) step->process->pid, "command",
                         stack_table_text(t, step->process->command), "tid",
                         (json_int_t) (step->thread ? step->thread->tid : 0), "name",
                         step->thread ? stack_table_text(t, step->thread->name) : "", "kind",
                         stall_kind_name(kind), "waits", words);
}

static json_t *chain_to_json(const struct diagnosis *d, uint32_t rank) {
        const struct wait_chain *c = &d->graph.chains[rank];
        json_t *list = json_array();

        for (uint32_t i = 0; i < c->n; i++)
                list = json_list_add(list,
                                     step_json(d, d->evidence.hosts[d->evidence.ranks[rank].host].last,
                                               &c->steps[i]));
        return list;
}

#define GRAPH_JSON_MAX 256u /* nodes, and debts, that are given: those with the greatest shares */

static uint32_t host_of(const struct diagnosis *d, uint32_t node) {
        size_t ranks = d->evidence.n_ranks;

        return node < ranks ? d->evidence.ranks[node].host : node - (uint32_t) ranks;
}

static json_t *name_json(const struct diagnosis *d, uint32_t node) {
        const struct seen_host *h = &d->evidence.hosts[host_of(d, node)];

        return h->who && h->who->host[0] ? json_string(h->who->host)
                                         : json_sprintf("%s %u", h->slice, h->worker);
}

/* For whom it waits by its own thread; those to whom its sockets lead stand in the debts. */
static json_t *for_json(const struct diagnosis *d, uint32_t node) {
        const struct wait_chain *c = &d->graph.chains[node];
        json_t *list = json_array();

        for (uint32_t i = 0; i < c->n_ranks; i++)
                list = json_list_add(list, name_json(d, c->ranks[i]));
        return list;
}

static const char *end_name(enum chain_end end) {
        static const char *const names[] = { "unknown", "here",   "circle", "outside",
                                             "ranks",   "others", "path" };

        return names[end];
}

static json_t *graph_node_json(const struct diagnosis *d, uint32_t node) {
        const struct graph_node *n = &d->graph.nodes[node];
        const struct wait_chain *c = node < d->evidence.n_ranks ? &d->graph.chains[node] : NULL;
        json_auto_t *v = json_pack("{s:o, s:f, s:f, s:f, s:b}", "host", name_json(d, node), "share",
                                   n->share, "end", n->end, "leaves", n->leaves, "circle", n->in_circle);

        if (v && c &&
            json_object_update_new(v, json_pack("{s:I, s:s, s:s, s:o}", "pid",
                                                (json_int_t) d->evidence.ranks[node].pid, "kind",
                                                stall_kind_name(c->kind), "ends", end_name(c->end), "for",
                                                for_json(d, node))) < 0)
                return NULL;
        return TAKE_PTR(v);
}

struct shown {
        double share;
        uint32_t node;
};

static int compare_shown(const void *x, const void *y) {
        const struct shown *a = x, *b = y;

        return COMPARE(b->share, a->share) ?: COMPARE(a->node, b->node);
}

static json_t *nodes_json(const struct diagnosis *d) {
        _cleanup_free_ struct shown *shown = calloc(d->graph.n + 1, sizeof(*shown));
        json_t *list = shown ? json_array() : NULL;
        size_t n = 0;

        for (uint32_t i = 0; list && i < d->graph.n; i++)
                if (d->graph.nodes[i].there)
                        shown[n++] = (struct shown){ d->graph.nodes[i].share, i };
        if (n > 1)
                qsort(shown, n, sizeof(*shown), compare_shown);
        for (size_t i = 0; list && i < MIN(n, (size_t) GRAPH_JSON_MAX); i++)
                list = json_list_add(list, graph_node_json(d, shown[i].node));
        return list;
}

static json_t *debts_json(const struct diagnosis *d) {
        json_t *list = json_array();

        for (size_t i = 0; list && i < MIN(d->graph.debts.n, (size_t) GRAPH_JSON_MAX); i++) {
                const struct debt_edge *e = &d->graph.debts.edges[i];

                list = json_list_add(list, json_pack("{s:o, s:o, s:f, s:I}", "from", name_json(d, e->from),
                                                     "to", name_json(d, e->to), "weight", e->weight,
                                                     "unread", (json_int_t) e->unread));
        }
        return list;
}

static json_t *graph_to_json(const struct diagnosis *d) {
        return json_pack("{s:I, s:o, s:o}", "silent_ms", (json_int_t) d->graph.debts.silent_ms, "nodes",
                         nodes_json(d), "debts", debts_json(d));
}

/* --- JSON: the rest ------------------------------------------------------------------------------------ */

#define DEPTH_MAX 256u     /* branches above each other */
#define CHILDREN_MAX 1024u /* of one node */

struct drawing {
        const struct diagnosis *d;
        const struct tree *tree;
        bool *in;
};

static json_t *set_json(const struct evidence *e, const bool *in) {
        _cleanup_free_ char *text = NULL;
        size_t size = 0;
        FILE *f = open_memstream(&text, &size);

        if (!f)
                return NULL;
        rank_set_print(f, e, in, UINT32_MAX);
        return memstream_close(f, &text) ? json_string(text) : NULL;
}

static json_t *frame_json(const struct stack_table *t, const struct stack_frame *f) {
        const char *file = stack_table_text(t, f->file), *function = stack_table_text(t, f->function);

        switch ((enum frame_kind) f->kind) {
        case FRAME_PYTHON:
                return json_pack("{s:s, s:I, s:s}", "file", file, "line", (json_int_t) f->line, "function",
                                 function);
        case FRAME_NATIVE:
                return json_pack("{s:s, s:s, s:s}", "kind", "native", "module", file, "function", function);
        case FRAME_KERNEL:
                return json_pack("{s:s, s:s}", "kind", "kernel", "function", function);
        case _FRAME_KIND_MAX:
                break;
        }
        return NULL;
}

static json_t *host_json(const struct seen_host *h) {
        json_t *worker = h->worker == CAPTURE_WORKER_NONE ? json_null() : json_integer(h->worker);

        return json_pack("{s:s, s:o, s:s, s:s}", "slice", h->slice, "worker", worker, "host",
                         h->who ? h->who->host : "", "address", h->who ? h->who->address : "");
}

static json_t *suspect_json(const struct diagnosis *d, const struct suspect *s) {
        json_t *v = host_json(&d->evidence.hosts[s->host]), *details = json_array();

        for (const char *at = s->details, *end; (end = strchr(at, '\n')); at = end + 1)
                (void) json_array_append_new(details,
                                             json_stringn(at, (size_t) (end - at))); /* checked below */
        if (!v || !details ||
            json_object_update_new(v, json_pack("{s:f, s:s, s:s, s:b, s:b, s:o}", "score", s->score,
                                                "kind", stall_kind_name(s->kind), "sentence", s->sentence,
                                                "moved", s->moved, "saves", s->saves, "details", details)) <
                    0) {
                json_decref(v);
                return NULL;
        }
        return s->rank != STACK_NONE ? json_member_add(v, "chain", chain_to_json(d, s->rank)) : v;
}

static json_t *class_json(const struct diagnosis *d, size_t number, bool *in) {
        const struct evidence *e = &d->evidence;
        const struct rank_class *c = &e->classes[number];
        const struct place *p = &c->place;
        const struct stack_table *t = &e->scene->table;

        memset(in, 0, e->n_hosts);
        for (size_t i = 0; i < e->n_ranks; i++)
                if (e->ranks[i].class == number)
                        in[e->ranks[i].host] = true;
        return json_pack("{s:s, s:s, s:o, s:I, s:b, s:o}", "kind", stall_kind_name(p->kind), "in",
                         p->word[0] ? p->word : p->what, "frame",
                         p->frame == STACK_NONE ? json_null() : frame_json(t, &t->frames[p->frame]), "ranks",
                         (json_int_t) c->n, "moved", c->moved, "hosts", set_json(e, in));
}

static json_t *node_json(struct drawing *w, const struct tree_node *n, unsigned depth) {
        _cleanup_free_ uint32_t *children = NULL;
        size_t threads = 0, hosts = tree_hosts(w->tree, n, w->in, &threads), count = 0;
        json_t *set = set_json(&w->d->evidence, w->in), *frames = json_array(), *list = json_array();

        if (tree_children(w->tree, n, &children, &count) < 0) {
                json_decref(list);
                list = NULL;
        }
        for (uint32_t i = n->from; i < n->to; i++)
                frames = json_list_add(frames, frame_json(&w->d->evidence.scene->table,
                                                          tree_frame(w->tree, n, i)));
        for (size_t i = 0; list && i < MIN(count, (size_t) CHILDREN_MAX) && depth < DEPTH_MAX; i++)
                list = json_list_add(list, node_json(w, &w->tree->nodes[children[i]], depth + 1));
        return json_pack("{s:I, s:I, s:o, s:o, s:o}", "hosts", (json_int_t) hosts, "threads",
                         (json_int_t) threads, "set", set, "frames", frames, "children", list);
}

static json_t *tree_json(const struct diagnosis *d, bool all, bool *in) {
        _cleanup_tree_ struct tree tree = TREE_NULL;
        struct drawing w = { d, &tree, in };

        if (tree_build(&tree, &d->evidence, all) < 0)
                return NULL;
        return node_json(&w, &tree.nodes[0], 0);
}

json_t *diagnosis_to_json(const struct diagnosis *d, bool all) {
        const struct evidence *e = &d->evidence;
        _cleanup_free_ bool *in = calloc(e->n_hosts + 1, sizeof(*in));
        json_t *suspects, *classes;

        if (!in)
                return NULL;
        suspects = json_array();
        classes = json_array();
        for (size_t i = 0; i < d->n_suspects; i++)
                suspects = json_list_add(suspects, suspect_json(d, &d->suspects[i]));
        for (size_t i = 0; i < MIN(e->n_classes, (size_t) CHILDREN_MAX); i++)
                classes = json_list_add(classes, class_json(d, i, in));
        return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "version", 1, "outcome",
                         outcome_name(d->outcome), "summary", d->summary, "hosts", (json_int_t) e->n_hosts,
                         "silent", (json_int_t) e->n_silent, "ranks", (json_int_t) e->n_ranks, "waiting",
                         (json_int_t) d->n_waiting, "suspects", suspects, "classes", classes, "graph",
                         graph_to_json(d), "tree", tree_json(d, all, in));
}
