/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Temperature, energy and thermal throttling of the processors, where the machine has such sensors: a
 * virtual machine has none. They are looked for once. Only sensors that the CPU itself answers are read: the
 * others ask a device over a bus that can hang.
 */
#include "look.h"

#define SENSORS_MAX 32
struct sensor {
        enum metric_id metric;
        char id[32], name[32], path[96];
        struct source file;
};
struct sensors_state {
        struct sensor sensors[SENSORS_MAX];
        size_t n;
};
void sensors_init(struct sensors_state *s, const struct host *h);
void sensors_look(struct sensors_state *s, const struct look *l);
void sensors_close(struct sensors_state *s);
