/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Between the registry's records and the episodes. */
#include "episodes.h"
#include "registry.h"

/* A record was published: of capture/ and run/ the episodes are told. */
void episode_port_record(struct episodes *e, const struct gang *g, const char *key, const json_t *value);
