/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What TCP may use on this host, whatever the profile wants: the check limits.tcp of the probe "limits". */
#include "probe.h"

void limits_judge_tcp(const struct host *h, const struct probe_context *c, struct sink *s);
