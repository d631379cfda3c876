/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Apart from its probe, for those who measure something by the memory of the host. */
#include "host.h"

/* All of it, in bytes; 0: not known. */
uint64_t memory_total(const struct host *h);
