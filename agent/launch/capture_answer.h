/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What became of a capture, for who asked for it. */
#include "frame.h"
#include "runs.h"

/* Answers peer; -errno of a capture that failed, with p: the answer is the caller's then. */
int capture_answer(struct frame_peer *peer, const struct job *j, const struct capture_result *r,
                   usec_t taken_real, struct problem *p);
