/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The figures of syncs, told to pace.h; whom it names becomes the event tpu.run.straggler under that host. A collector
 * that begins to lead begins its windows anew.
 */
#include "pace.h"
#include "registry.h"

/* 1: an event was stored; 0; -ENOMEM, the store's, outside of a transaction. */
int pace_port_figure(struct pace *p, struct store *s, const struct registry_figure *f, usec_t now);
