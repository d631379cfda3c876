/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What loading and writing share. */
#include "keep.h"

#define KEEP_WRITTEN "ctl/written"
#define KEEP_LEADER "ctl/leader"

/* One more key to be written, or deleted (text NULL); text is taken over. */
int keep_add(struct keep *k, const char *key, char *text);
