/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Single writes of NIC settings, each verified by reading again, and single values. */
#include "host.h"
#include "plan.h"

/* kernel_apply() of such an op. */
int nic_apply(const struct host *h, const struct op *op);
/* The value of one setting: "on", "65536". subject is that of an op. -ENODEV: the NIC is gone, or has no
 * such setting any more; else why it cannot be read. */
int nic_read(const struct host *h, enum nic_setting_kind k, const struct link *l, const char *subject,
             char buf[static 16]);
