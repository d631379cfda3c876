/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What libtpu says of this host's chips, asked on its local ports in the tick: samples tpu.* of
 * docs/metrics.md, the event tpu.runtime.error, a reading for who judges runs, and the cores' state for
 * captures.
 */
#include "agent.h"
#include "libtpu_client.h"

int agent_libtpu_start(struct bus *b);
void agent_libtpu_stop(struct bus *b);
/* Identity or settings may be other ones now: other ports. */
void agent_libtpu_reload(struct bus *b);
/* In the tick. */
void agent_libtpu_tick(struct bus *b);
/* The last round's; never NULL. at is 0 while no process of this host holds the TPU runtime. */
const struct libtpu_reading *agent_libtpu_reading(const struct bus *b);
/*
 * Asks every process what its cores do; only when a run is suspected to stall, or a person asks. done is
 * called once, after at most 2 s, with what is valid inside of it only: maybe no cores, and why. -ENODEV: no
 * port is to be asked; -EBUSY: it is being asked already; -ENOMEM: done is then not called.
 */
int agent_libtpu_status(struct bus *b, void (*done)(const struct libtpu_status *s, void *userdata),
                        void *userdata);
void agent_libtpu_cancel_status(struct bus *b);
