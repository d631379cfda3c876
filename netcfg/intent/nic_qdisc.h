/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Whether what a NIC sends is held back on this host itself: check nic.qdisc, the same for probes and paths.
 * Pure. */
#include "finding.h"
#include "links.h"
#include "qdiscs.h"

/* False: the kernel tells of none for this NIC. */
bool nic_qdisc_judge(const struct qdisc_table *t, const struct link *nic, struct finding *ret);
