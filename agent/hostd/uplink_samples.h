/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What waits, was sent and was lost, as the samples tpu.uplink.* of docs/metrics.md: a host that falls
 * behind says so itself. Pure.
 */
#include "probe.h"
#include "uplink.h"

/* Why records are gone for good, as every report of the uplink names it. */
enum uplink_drop {
        UPLINK_DROP_MALFORMED,
        UPLINK_DROP_TOO_LARGE,
        UPLINK_DROP_UNPROCESSABLE,
        UPLINK_DROP_IN_PART,
        UPLINK_DROP_BYTE_LIMIT,
        UPLINK_DROP_DAMAGED,
        UPLINK_DROP_DISK,
        _UPLINK_DROP_MAX
};
const char *uplink_drop_name(enum uplink_drop l);
uint64_t uplink_drop_count(const struct uplink_class_stats *c, enum uplink_drop l);

/* lost: records that could not even be built. */
void uplink_samples(const struct uplink_stats *u, uint64_t lost, usec_t now_real, struct sink *s);
