/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the registry's records and the episodes. */
#include "episodes.h"
#include "registry.h"

/* A record was published: of capture/, run/ and episode/ the episodes are told. */
void episode_port_record(struct episodes *e, const struct gang *g, const char *key, const json_t *value);
/* Whether captures of this episode are wanted of this slice; one that the registry has and the episodes do
 * not know yet begins. */
bool episode_port_wants(struct episodes *e, const struct gang *g, const char *slice, const char *episode);
