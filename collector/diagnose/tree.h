/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All stacks of the ranks as one prefix tree: a node is a piece of stack that some threads have in common,
 * with the hosts that have it. Stacks are kept sorted, so that a node is a range of them; whose they are is
 * asked when it is shown.
 */
#include "evidence.h"

#define TREE_NONE UINT32_MAX

struct tree_node {
        uint32_t from, to;    /* frames [from, to) of its stacks, outermost is 0 */
        uint32_t lo, hi;      /* its stacks: tree.stacks[lo … hi) */
        uint32_t child, next; /* TREE_NONE */
};

struct tree {
        const struct evidence *evidence;
        uint32_t *stacks;  /* different ones, sorted by their frames */
        uint32_t *offsets; /* of each, in hosts: n_stacks + 1 */
        uint32_t *hosts;   /* one for every thread */
        size_t n_stacks, n_threads;
        struct tree_node *nodes; /* node 0 is the root, with no frame */
        size_t n_nodes, nodes_size;
};
#define TREE_NULL ((struct tree){ 0 })
void tree_clear(struct tree *t);
#define _cleanup_tree_ _cleanup_(tree_clear)

/* all: every thread of the last captures; else only those that are evidence. The evidence is borrowed.
 * -ENOMEM. */
int tree_build(struct tree *t, const struct evidence *e, bool all);

/* The hosts of a node in in[], one for each host of the evidence. Returns how many; ret_threads: of how many
 * threads. */
size_t tree_hosts(const struct tree *t, const struct tree_node *n, bool *in, size_t *ret_threads);
/* Its children, most hosts first, then by name. *ret is the caller's to free. -ENOMEM. */
int tree_children(const struct tree *t, const struct tree_node *n, uint32_t **ret, size_t *ret_n);
/* Frame i of the node's stacks. */
const struct stack_frame *tree_frame(const struct tree *t, const struct tree_node *n, uint32_t i);
