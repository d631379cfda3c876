/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What libtpu reported last of each chip of this host, for people (GET /v1/chips). Pure. A chip is what a
 * process calls one: its number counts the process's own chips.
 */
#include <jansson.h>

#include "libtpu_metrics.h"

#define CHIP_ROWS_MAX 64 /* of all processes; more are left out */
#define CHIP_NAME_MAX 16

enum chip_value { CHIP_HBM_USED, CHIP_HBM_TOTAL, CHIP_DUTY_CYCLE, CHIP_IDLE, _CHIP_VALUE_MAX };

struct chip_row {
        unsigned port; /* its process, by its place in the list of ports */
        char chip[CHIP_NAME_MAX];
        double values[_CHIP_VALUE_MAX]; /* bytes, bytes, 0 to 1, seconds; NAN: not reported */
};
struct chip_table {
        size_t n;
        struct chip_row rows[CHIP_ROWS_MAX];
};

/* One point; metrics that say nothing of a chip's state are passed over. */
void chip_table_take(struct chip_table *t, unsigned port, enum libtpu_metric id,
                     const struct libtpu_point *p);
/* The process is gone, or its answer void. */
void chip_table_forget(struct chip_table *t, unsigned port);
/* [{process, port, chip, hbm_used_bytes, hbm_total_bytes, duty_cycle, idle_seconds}], by process and chip;
 * null: not reported. ports: the numbers of the ports. A new reference; NULL: out of memory. */
json_t *chip_table_to_json(const struct chip_table *t, const uint16_t *ports);
