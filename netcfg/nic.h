/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Single writes to NICs (the MTU and the settings of nic_setting.h), each verified by reading again, and
 * single values. */
#include "host.h"
#include "plan.h"

/* kernel_apply() of such an op. */
int nic_apply(const struct host *h, const struct op *op);
/* The value now: "on", "8896". subject is that of an op. -ENODEV: the NIC has no such setting any more;
 * else why it cannot be read. */
int nic_read(const struct host *h, enum op_kind k, const struct link *l, const char *subject,
             char buf[static 16]);
