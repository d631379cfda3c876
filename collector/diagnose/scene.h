/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All captures of one round of one episode, with one table of frames for all, and their hosts in an order
 * that does not depend on how the captures came: by slice, worker, name.
 */
#include "host_capture.h"

#define SCENE_HOSTS_MAX 32768u
#define SCENE_CAPTURES_MAX (3 * SCENE_HOSTS_MAX) /* two of each, and that it was asked */

struct scene {
        struct stack_table table;
        struct host_capture *captures; /* numbers of the table */
        size_t n_captures, captures_size;
};
#define SCENE_NULL ((struct scene){ 0 })
void scene_clear(struct scene *s);
#define _cleanup_scene_ _cleanup_(scene_clear)

/* Takes c, whose numbers are of the scene's table, and which is empty afterwards, also on failure. In what
 * order captures are added makes no difference to a diagnosis. -E2BIG, -ENOMEM. */
int scene_add(struct scene *s, struct host_capture *c);

struct seen_host {
        const struct host_capture *capture[2]; /* the last one of each; NULL */
        const struct host_capture *last;       /* NULL: silent */
        const struct host_capture *who;        /* names it: last, or that it was asked; NULL: only missed */
        char slice[CAPTURE_NAME_MAX];
        uint32_t worker;
        uint32_t first_rank, n_ranks; /* of the evidence */
        size_t first_process;         /* of `last`, in the evidence's process_roles */
};
struct seen_hosts {
        const struct scene *scene;
        struct seen_host *items;
        size_t n, size, n_silent;
};
#define SEEN_HOSTS_NULL ((struct seen_hosts){ 0 })
void seen_hosts_clear(struct seen_hosts *h);

/* slice: only hosts of that one; NULL: all. hosts: how many the slice has, so that workers below it who are
 * missing are silent; 0: not known. The scene is borrowed. -ENOMEM, -E2BIG. */
int seen_hosts_gather(struct seen_hosts *h, const struct scene *s, const char *slice, uint32_t hosts);
