/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * All captures of one round of one episode, with one table of frames for all. In what order captures are
 * added makes no difference to a diagnosis.
 */
#include "host_capture.h"

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
