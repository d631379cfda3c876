/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which NUMA node each CPU belongs to: apart from the part that asks, because unit tests call it. Source:
 * /sys/devices/system/node/nodeN/cpulist (Linux, Documentation/ABI/stable/sysfs-devices-node).
 */
#include "host.h"

/* node[CPU] for each of n CPUs; 0 where nothing is known. */
void cpu_nodes(const struct host *h, uint8_t *node, size_t n);
/* Pure: "0-3,8" marks these. False: it is no such list; what stood before the fault is marked. */
bool cpu_list_mark(const char *text, uint8_t mark, uint8_t *node, size_t n);
