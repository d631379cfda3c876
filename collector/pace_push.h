/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What agents push of their runs, told to pace.h; whom it names becomes the event tpu.run.straggler under
 * that host, inside the transaction of the push.
 */
#include "ingest.h"
#include "pace.h"
#include "store.h"

/* Whether a point of that name is wanted each time. */
bool pace_push_wants(const char *name);
/* 1: an event was stored; 0; -ENOMEM, the store's. */
int pace_push(struct pace *p, struct store *s, const struct pace_source *who, const struct ingest_point *i,
              usec_t at, usec_t now);
