/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the agent itself costs the host, from /proc/self through the seam: process.cpu.time and
 * process.memory.usage. Nothing where the host is a folder that holds no such files.
 */
#include "base.h"
#include "host.h"
#include "probe.h"

/* 0, or -errno when the kernel does not say. */
int cost_sample(const struct host *h, struct sink *s);

/* Pure: CPU time in clock ticks out of /proc/PID/stat's text (utime, stime: fields 14 and 15). -EBADMSG. */
int cost_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system);
