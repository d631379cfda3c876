/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which snapshots were told already, by a key of 64 bits: the last STACK_SEEN_MAX of them, over restarts of
 * the agent. Losing it costs repeats, no more.
 *
 * File: "tpu-stack-files 1", and sixteen hexadecimal digits a line, the oldest first; written anew and
 * renamed.
 */
#include "base.h"

#define STACK_SEEN_MAX 1024

struct stack_seen {
        uint64_t keys[STACK_SEEN_MAX];
        size_t n, next; /* next: where the one goes that takes the oldest one's place */
};

bool stack_seen_has(const struct stack_seen *s, uint64_t key);
void stack_seen_add(struct stack_seen *s, uint64_t key);
/* -ENOENT: there is none; -EBADMSG: not one of ours. *s is empty then. */
int stack_seen_load(const char *path, struct stack_seen *s);
int stack_seen_save(const char *path, const struct stack_seen *s);
