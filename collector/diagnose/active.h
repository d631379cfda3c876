/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Ranks that do something: a thread in the training's own code runs or sleeps, or stood elsewhere before. */
#include "evidence.h"

size_t active_ranks(const struct evidence *e);
