/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What waits, was sent and was lost, as the samples tpu.uplink.* of docs/metrics.md: a host that falls
 * behind says so itself. Pure.
 */
#include "probe.h"
#include "uplink.h"

/* Why records are gone for good, as all reports of the uplink say: enum spool_loss, and last the disk. */
#define UPLINK_DROPS (_SPOOL_LOSS_MAX + 1)
const char *uplink_drop_name(unsigned why);
uint64_t uplink_drop_count(const struct uplink_class_stats *c, unsigned why);

/* lost: records that could not even be built. */
void uplink_samples(const struct uplink_stats *u, uint64_t lost, usec_t now_real, struct sink *s);
