/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The device behind a data-centre NIC: driver, speed and queues by sysfs, and how many NICs there should be.
 */
#include "probe.h"

/*
 * nic.driver, nic.speed and nic.queues, as far as there is a device (a veth has none) and it says so: told
 * for comparison between hosts, judged by nobody, since no source wants a value.
 */
void nic_look_at_device(const struct host *h, const char *nic, struct sink *s);

/* nic.count: found (at least 1) against the machine type. */
void nic_check_count(const struct host *h, size_t found, const struct probe_context *c, struct sink *s);
