/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the TPU runtime says of this host's chips, in short: for who judges whether a run goes on. Pure. Duty
 * cycle alone is no evidence: libtpu averages it, and a chip that spins in a hung program reads busy.
 */
#include <math.h>

#include "libtpu_metrics.h"

struct libtpu_reading {
        usec_t at;           /* boot clock; 0: nothing holds the TPU runtime, or it does not answer */
        unsigned processes;  /* that answered in this round */
        double duty_cycle;   /* 0…1, of the chip at work least; NAN: not told */
        double idle_seconds; /* of the chip idle longest; NAN: not told */
        int64_t queued;      /* programs waiting for cores, all together; -1: not told */
        bool error;          /* libtpu itself says that slices hang or failed */
        char error_type[LIBTPU_TEXT_MAX]; /* "HANG_DETECTED" */
        int64_t run_id,
                launch_id; /* of the last status (libtpu_status.h): the least of its cores; -1: none */
};
#define LIBTPU_READING_NULL                                                                                 \
        ((struct libtpu_reading){                                                                           \
                .duty_cycle = NAN, .idle_seconds = NAN, .queued = -1, .run_id = -1, .launch_id = -1 })

void libtpu_reading_take(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p);
