/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Questions to our daemons, blocking, for command lines and probe workers. Apart from what the answers are
 * (daemon_states.h, device_owners.h): probes take these, and only who asks links the local frames.
 */
#include "daemon_states.h"
#include "device_owners.h"
#include "host.h"

/*
 * What systemd knows of our daemons (D-Bus, its lines in the journal), what the kernel knows of their
 * processes, and whether each answers within DAEMON_ANSWER_TIME, all of them together: it blocks for little
 * more. One that systemd does not call active is not asked, for the question alone would start it.
 */
void ask_daemons(const struct host *h, struct daemon_states *ret);
/* Asks tpu-launchd who has the TPU devices open. Fills *ret in any case; its error says why it holds
 * nothing. Takes at most 2 s. */
void ask_owners(const struct host *h, struct device_owners *ret);
