/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The part that asks libtpu about this host's chips on its local ports, in the tick: samples tpu.* of
 * docs/metrics.md, the event tpu.runtime.error, a reading for the part that judges runs, the state of the
 * cores for captures, and GET /v1/chips.
 */
#include "libtpu_client.h"
#include "part.h"

extern const struct part libtpu_part;

/* Of the last round; never NULL. at is 0 while no process of this host holds the TPU runtime. */
const struct libtpu_reading *libtpu_reading(const struct bus *b);
/*
 * Asks every process what its cores do; only when a run is suspected to stall, or a person asks. done is
 * called once, after at most 2 s; its argument is valid inside of it only, and may hold no cores, and why.
 * -ENODEV: no port is to be asked; -EBUSY: it is being asked already; -ENOMEM: done is then not called.
 */
int libtpu_ask_status(const struct bus *b, void (*done)(const struct libtpu_status *s, void *userdata),
                      void *userdata);
void libtpu_cancel_status(const struct bus *b);
