/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * For command lines and probe workers: what systemd knows of our daemons (D-Bus, its lines in the journal),
 * what the kernel knows of their processes, and whether each answers within DAEMON_ANSWER_TIME, all of them
 * together. One that systemd does not call active is not asked, for the question alone would start it.
 */
#include "daemon_states.h"
#include "host.h"

/* Blocks for a little more than DAEMON_ANSWER_TIME at most. */
void ask_daemons(const struct host *h, struct daemon_states *ret);
