/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who runs together, out of a RunRequest, for the environment of the run: the registry's word as tpu-hostd
 * hands it on. Pure; what does not fit together is found here, names and addresses by environment_build().
 */
#include "environment.h"
#include "local.pb-c.h"
#include "problem.h"

struct request_world {
        struct environment_gang gang; /* texts are the request's */
        struct environment_slice *slices;
        struct environment_host *hosts;
};
void request_world_clear(struct request_world *w);
#define _cleanup_request_world_ _cleanup_(request_world_clear)

/* -EINVAL with p, -ENOMEM. Only of a world that has slices. */
int request_world_view(const Local__RunRequest *q, struct request_world *ret, struct problem *p);
/* Adds what tpu-hostd knows to what the static file says. -EINVAL with p, -ENOMEM. */
int request_world_facts(const Local__World *w, struct identity *i, struct problem *p);
