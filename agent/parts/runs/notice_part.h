/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that warns of what the metadata server says is ahead of this host (BUS_NOTICE): the events of
 * preemption and maintenance, and the runs of this host, each by the signal that its own spec names,
 * through tpu-launchd (event tpu.run.notified).
 */
#include "part.h"

extern const struct part notice_part;

/* "preemption", "maintenance", or empty: the gravest that is ahead; the word of a member's record. */
const char *notice_ahead(const struct bus *b);
