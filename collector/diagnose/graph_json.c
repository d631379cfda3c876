/* SPDX-License-Identifier: Apache-2.0 */
#include "graph_json.h"

#include "json_text.h"
#include "wait_words.h"

/* --- A chain ---------------------------------------------------------------------------------------- */

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

json_t *chain_to_json(const struct diagnosis *d, uint32_t rank) {
        const struct wait_chain *c = &d->graph.chains[rank];
        json_t *list = json_array();

        for (uint32_t i = 0; i < c->n; i++)
                list = json_list_add(list, step_json(d, d->evidence.hosts[d->evidence.ranks[rank].host].last,
                                                     &c->steps[i]));
        return list;
}

/* --- The graph -------------------------------------------------------------------------------------- */

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

static json_t *node_json(const struct diagnosis *d, uint32_t node) {
        const struct graph_node *n = &d->graph.nodes[node];
        const struct wait_chain *c = node < d->evidence.n_ranks ? &d->graph.chains[node] : NULL;
        json_t *v = json_pack("{s:o, s:f, s:f, s:f, s:b}", "host", name_json(d, node), "share", n->share,
                              "end", n->end, "leaves", n->leaves, "circle", n->in_circle);

        if (v && c &&
            json_object_update_new(v, json_pack("{s:I, s:s, s:s, s:o}", "pid",
                                                (json_int_t) d->evidence.ranks[node].pid, "kind",
                                                stall_kind_name(c->kind), "ends", end_name(c->end), "for",
                                                for_json(d, node))) < 0) {
                json_decref(v);
                return NULL;
        }
        return v;
}

struct shown {
        double share;
        uint32_t node;
};

static int compare_shown(const void *x, const void *y) {
        const struct shown *a = x, *b = y;

        if (a->share != b->share)
                return a->share > b->share ? -1 : 1;
        return a->node < b->node ? -1 : a->node > b->node;
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
        for (size_t i = 0; i < MIN(n, (size_t) GRAPH_JSON_MAX); i++)
                list = json_list_add(list, node_json(d, shown[i].node));
        return list;
}

static json_t *debts_json(const struct diagnosis *d) {
        json_t *list = json_array();

        for (size_t i = 0; i < MIN(d->graph.debts.n, (size_t) GRAPH_JSON_MAX); i++) {
                const struct debt_edge *e = &d->graph.debts.edges[i];

                list = json_list_add(list, json_pack("{s:o, s:o, s:f, s:I}", "from", name_json(d, e->from),
                                                     "to", name_json(d, e->to), "weight", e->weight,
                                                     "unread", (json_int_t) e->unread));
        }
        return list;
}

json_t *graph_to_json(const struct diagnosis *d) {
        return json_pack("{s:I, s:o, s:o}", "silent_ms", (json_int_t) d->graph.debts.silent_ms, "nodes",
                         nodes_json(d), "debts", debts_json(d));
}
