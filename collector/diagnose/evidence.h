/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Hosts and ranks of a scene, in an order that does not depend on how the captures came: by slice, worker,
 * name. A rank is a process that makes steps: one whose rank is known, or any that does not only serve
 * another one. Which thread of it is evidence: the main thread; where most ranks' main threads only wait for
 * another thread of theirs, the thread of that name which most ranks have, and which waits in a collective
 * on at least one.
 */
#include "host_capture.h"
#include "waits.h"

/*
 * All captures of one round of one episode, with one table of frames for all. In what order captures are
 * added makes no difference to a diagnosis.
 */
#define SCENE_HOSTS_MAX    32768u
#define SCENE_CAPTURES_MAX (3 * SCENE_HOSTS_MAX) /* two of each, and that it was asked */

struct scene {
        struct stack_table table;
        struct host_capture *captures; /* numbers of the table */
        size_t n_captures, captures_size;
};
#define SCENE_NULL ((struct scene){ 0 })
void scene_clear(struct scene *s);
#define _cleanup_scene_ _cleanup_(scene_clear)

/* Takes c, whose numbers are of the scene's table, and which is empty afterwards, also on failure. -E2BIG,
 * -ENOMEM. */
int scene_add(struct scene *s, struct host_capture *c);

#define RANK_NAME_MAX 32u

struct rank {
        uint32_t host;                             /* of the evidence */
        uint32_t pid, number;                      /* CAPTURE_RANK_NONE */
        const struct captured_process *process[2]; /* of the two captures; NULL */
        const struct captured_thread *thread[2];   /* that is evidence; NULL */
        struct place place;                        /* in the last capture that shows it */
        bool both;                                 /* both captures show it */
        bool moved;                                /* both, and its frames or its state differ */
        uint32_t class;
};

struct seen_host {
        const struct host_capture *capture[2]; /* the last one of each; NULL */
        const struct host_capture *last;       /* NULL: silent */
        const struct host_capture *who;        /* names it: last, or that it was asked; NULL: only missed */
        char slice[CAPTURE_NAME_MAX];
        uint32_t worker;
        uint32_t first_rank, n_ranks;
        uint32_t row; /* in the order of hosts */
};

/* Ranks that stand at the same place. Greatest first. */
struct rank_class {
        enum standing standing;
        const char *what;
        uint32_t frame; /* STACK_NONE */
        bool own, moved;
        uint32_t n;
        uint32_t example; /* a rank */
};

struct evidence {
        const struct scene *scene;
        struct seen_host *hosts;
        struct rank *ranks;
        struct rank_class *classes;
        size_t n_hosts, n_ranks, n_classes, hosts_size, ranks_size, classes_size;
        size_t n_silent;
        char thread_name[RANK_NAME_MAX]; /* of the threads that are evidence; "": the main threads */
};
#define EVIDENCE_NULL ((struct evidence){ 0 })
void evidence_clear(struct evidence *e);

/* slice: only hosts of that one; NULL: all. hosts: how many the slice has, so that workers below it who are
 * missing are silent; 0: not known. The scene is borrowed. -ENOMEM, -E2BIG. */
int evidence_gather(struct evidence *e, const struct scene *s, const char *slice, uint32_t hosts);
