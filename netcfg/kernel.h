/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The machine: what it has, and single writes to it, each verified by reading again. Sysctls go through the
 * host seam, links over rtnetlink. Only a host with the real root is ever written.
 */
#include "host.h"
#include "plan.h"

/* What cannot be read is noted in *ret, not returned. Clear with found_clear(). */
void kernel_read(const struct host *h, const struct intent *i, struct found *ret);

/*
 * Whether all writes of the plan are permitted, without doing any: 0, or -EPERM, -EACCES or -EROFS with
 * *ret_op the first that is not. For a plan is done as a whole or not at all where rights are missing.
 */
int kernel_permits(const struct host *h, const struct plan *p, const struct plan_op **ret_op);

/* Writes and reads back. -EIO: the kernel took it and has something else; -ENODEV: the NIC is gone; else
 * what the kernel answered. */
int kernel_apply(const struct host *h, const struct plan_op *op);

/* The value now: "on", "8896". subject is that of an op. -ENODEV: the NIC has no such setting any more;
 * else why it cannot be read. */
int nic_read(const struct host *h, enum op_kind k, const struct link *l, const char *subject,
             char buf[static 16]);
