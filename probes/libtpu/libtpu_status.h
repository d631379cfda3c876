/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What each core of the TPU is doing, as libtpu's GetTpuRuntimeStatus says: asked only when a stall is
 * suspected. Pure; bounds and errors as libtpu_metrics.h.
 */
#include <math.h>

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

/*
 * What the TPU runtime says of this host's chips, in short: for who judges whether a run goes on. Pure. Duty
 * cycle alone is no evidence: libtpu averages it, and a chip that spins in a hung program reads busy.
 */
struct libtpu_reading {
        usec_t at;           /* boot clock; 0: nothing holds the TPU runtime, or it does not answer */
        unsigned processes;  /* that answered in this round */
        double duty_cycle;   /* 0…1, of the chip at work least; NAN: not reported */
        double idle_seconds; /* of the chip idle longest; NAN: not reported */
        int64_t queued;      /* programs waiting for cores, all together; -1: not reported */
        bool error;          /* libtpu itself says that slices hang or failed */
        char error_type[LIBTPU_TEXT_MAX]; /* "HANG_DETECTED" */
        /* of the last status (above): the least of its cores; -1: none */
        int64_t run_id, launch_id;
};
#define LIBTPU_READING_NULL                                                                                 \
        ((struct libtpu_reading){                                                                           \
                .duty_cycle = NAN, .idle_seconds = NAN, .queued = -1, .run_id = -1, .launch_id = -1 })

void libtpu_reading_take(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p);
