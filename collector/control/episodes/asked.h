/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Who is asked for stacks. Inside this room only; pure. */
#include <jansson.h>

#include "base.h"

/*
 * slices: of a run's record, each {"slice","hosts":[{"worker","host","address"}]}. Returns a list of
 * {"slice","worker","host","address"}, as it is kept; NULL: out of memory.
 */
json_t *asked_hosts(const json_t *slices);
/* host -> true of such a list; NULL: there is none, whoever answers counts. */
json_t *asked_names(const json_t *hosts);
