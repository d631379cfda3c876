/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The figures of syncs (docs/registry.md), told to pace.h; whom it names becomes the event tpu.run.straggler
 * under that host. A collector that begins to lead begins its windows anew.
 */
#include <jansson.h>

#include "pace.h"
#include "store.h"

/* list: of registry.h's figures(); what cannot be understood of one run is not the others'. who->host is
 * set here. 1: an event was stored; 0; -ENOMEM, the store's, outside of a transaction. */
int pace_port_figures(struct pace *p, struct store *s, const struct pace_source *who, const json_t *list,
                      usec_t now);
