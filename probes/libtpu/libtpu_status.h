/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each core of the TPU is doing, as libtpu's GetTpuRuntimeStatus says: asked only when a stall is
 * suspected. Pure; bounds and errors as libtpu_metrics.h.
 */
#include "host_capture.h"
#include "libtpu_metrics.h"

#define LIBTPU_CORES_MAX 64 /* of one host: the most are 16, with the sparse cores of a chip beside */
#define LIBTPU_LOCATION_MAX 512
#define LIBTPU_FINGERPRINT_MAX 65 /* 32 bytes in hexadecimal; longer ones are cut */

struct libtpu_core {
        uint32_t core, chip;
        int64_t pc, tag, launch, run;
        uint32_t queued;
        char fingerprint[LIBTPU_FINGERPRINT_MAX];
        char location[LIBTPU_LOCATION_MAX], error[LIBTPU_LOCATION_MAX];
};

struct libtpu_status {
        struct libtpu_core cores[LIBTPU_CORES_MAX]; /* by core; each once */
        size_t n;
        unsigned processes; /* that answered */
        bool cut;           /* there were more cores, or a text was cut */
        char why[160];      /* why no process answered; "" */
};

/* Adds the cores of one process's answer; one that is there already stays. Returns how many came. */
int libtpu_status_read(struct libtpu_reader *r, const void *data, size_t len, struct libtpu_status *s);
/* Into a capture: 0, -E2BIG, -ENOMEM as host_capture_add_core() and stack_table_string(). */
int libtpu_status_to_capture(const struct libtpu_status *s, struct stack_table *t, struct host_capture *c);
