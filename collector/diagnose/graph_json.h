/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The graph of waits and its chains for programs; keys in docs/diagnose.md. New references, or NULL when out
 * of memory. */
#include <jansson.h>

#include "blame.h"

#define GRAPH_JSON_MAX 256u /* nodes, and debts, that are given: those with the greatest shares */

json_t *chain_to_json(const struct diagnosis *d, uint32_t rank);
json_t *graph_to_json(const struct diagnosis *d);
