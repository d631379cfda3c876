/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The registry's records in the collector's own database: one collector, which always leads; its term is 0.
 */
#include "control_store.h"
#include "store.h"

/* store is borrowed. */
int control_sqlite_new(struct store *store, struct control_store **ret);
