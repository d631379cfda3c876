/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What people order, for verbs that mind it or pass it on. */
#include "clock.h"
#include "options.h"
#include "problem.h"

/* -EACCES with problem when this host is cordoned or draining; 0 when not, or nobody answers. */
int order_refuses_run(const char *root, struct problem *problem);

/* "2h", "30min", "3d" from now, or the time itself, as a time; nothing when given is NULL. -EINVAL after
 * saying what is wrong. */
int order_until(const struct options *o, const char *given, char buf[static CLOCK_TEXT_MAX]);

/* Asks who sits at the terminal, on standard error, for a line. -ENOTTY: nobody does; -EIO: no line came;
 * -E2BIG: a longer one, which is read to its end. */
int order_ask(const char *prompt, char *ret, size_t size);
/* Asks for a yes. -EPERM: there was none, or no terminal to ask on; it was said then. */
int order_ask_yes(const char *program, const char *prompt);
