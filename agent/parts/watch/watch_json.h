/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What was seen of one run for a while, as docs/api.md has it: from two looks at its control group, and from
 * the figures of BPF programs that watched meanwhile. Pure. The figures come from the kernel: numbers are
 * believed, texts scrubbed.
 */
#include <jansson.h>
#include <linux/types.h>

#include "io_figures.h"
#include "run_look.h"
#include "sched_figures.h"

/* New references; NULL: out of memory. What is not known is null. */
json_t *watch_json_cpu(const struct run_look *from, const struct run_look *to);
json_t *watch_json_storage(const struct run_look *from, const struct run_look *to);
json_t *watch_json_sched(const struct sched_figures *f);
json_t *watch_json_io(const struct io_figures *f);

/* One sentence for people on call, of so many seconds; empty: nothing stands out. Returns buf. */
#define WATCH_SENTENCE_MAX 160u /* as struct finding has room */
/* f: NULL: no programs watched. */
const char *watch_sentence_sched(const struct sched_figures *f, const struct run_standing *standing,
                                 double seconds, char buf[static WATCH_SENTENCE_MAX]);
/* It waited for a CPU half of the time and longer than it had one, all of its threads together. */
bool watch_is_starved(const struct sched_figures *f, const struct run_look *from, const struct run_look *to);
const char *watch_sentence_io(const struct io_figures *f, double seconds,
                              char buf[static WATCH_SENTENCE_MAX]);

/* Which NUMA node each of n CPUs belongs to, by node[CPU]; 0 where nothing is known. Source:
 * /sys/devices/system/node/nodeN/cpulist (Linux, Documentation/ABI/stable/sysfs-devices-node). */
void cpu_nodes(const struct host *h, uint8_t *node, size_t n);
/* Pure: "0-3,8" marks these. False: it is no such list; what stood before the fault is marked. */
bool cpu_list_mark(const char *text, uint8_t mark, uint8_t *node, size_t n);
