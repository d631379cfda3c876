/* SPDX-License-Identifier: Apache-2.0 */
#include "diagnosis_print.h"
#include "rank_set.h"
#include "tree.h"

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

/* A list out of what each() makes; NULL when something is missing. */
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
                                                "reason", reason_name(s->reason), "sentence", s->sentence,
                                                "moved", s->moved, "saves", s->saves, "details", details)) < 0) {
                json_decref(v);
                return NULL;
        }
        return v;
}

static json_t *class_json(const struct diagnosis *d, size_t number, bool *in) {
        const struct evidence *e = &d->evidence;
        const struct rank_class *c = &e->classes[number];
        const struct stack_table *t = &e->scene->table;

        memset(in, 0, e->n_hosts);
        for (size_t i = 0; i < e->n_ranks; i++)
                if (e->ranks[i].class == number)
                        in[e->ranks[i].host] = true;
        return json_pack("{s:s, s:s, s:o, s:I, s:b, s:o}", "standing", standing_name(c->standing), "in",
                         c->what, "frame",
                         c->frame == STACK_NONE ? json_null() : frame_json(t, &t->frames[c->frame]), "ranks",
                         (json_int_t) c->n, "moved", c->moved, "hosts", set_json(e, in));
}

static json_t *node_json(struct drawing *w, const struct tree_node *n, unsigned depth) {
        _cleanup_free_ uint32_t *children = NULL;
        size_t threads = 0, hosts = tree_hosts(w->tree, n, w->in, &threads), count = 0;
        json_t *set = set_json(&w->d->evidence, w->in), *frames = json_array(), *list = json_array();
        int r = tree_children(w->tree, n, &children, &count);

        for (uint32_t i = n->from; i < n->to && r == 0; i++)
                r = json_array_append_new(
                        frames, frame_json(&w->d->evidence.scene->table, tree_frame(w->tree, n, i)));
        for (size_t i = 0; i < MIN(count, (size_t) CHILDREN_MAX) && r == 0 && depth < DEPTH_MAX; i++)
                r = json_array_append_new(list, node_json(w, &w->tree->nodes[children[i]], depth + 1));
        if (r < 0) {
                json_decref(set);
                json_decref(frames);
                json_decref(list);
                return NULL;
        }
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
        json_t *suspects = json_array(), *classes = json_array();
        int r = in && suspects && classes ? 0 : -ENOMEM;

        for (size_t i = 0; i < d->n_suspects && r == 0; i++)
                r = json_array_append_new(suspects, suspect_json(d, &d->suspects[i]));
        for (size_t i = 0; i < MIN(e->n_classes, (size_t) CHILDREN_MAX) && r == 0; i++)
                r = json_array_append_new(classes, class_json(d, i, in));
        if (r < 0) {
                json_decref(suspects);
                json_decref(classes);
                return NULL;
        }
        return json_pack("{s:i, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o, s:o}", "version", 1, "outcome",
                         outcome_name(d->outcome), "summary", d->summary, "hosts", (json_int_t) e->n_hosts,
                         "silent", (json_int_t) e->n_silent, "ranks", (json_int_t) e->n_ranks, "waiting",
                         (json_int_t) d->n_waiting, "suspects", suspects, "classes", classes, "tree",
                         tree_json(d, all, in));
}
