/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The pure half of what runtime.h keeps, for tests: a person's order to observe (tpuctl mode), as tpu-hostd
 * handed it over: whether it still counts, and the content of the state file (state_file.h) that keeps it,
 * over boots too:
 *
 *   boot BOOT_ID
 *   heard BOOT_CLOCK REAL_CLOCK          microseconds, when tpu-hostd said it last
 *   until REAL_CLOCK                     its end; 0: none
 *
 * It counts until its end, which is counted on the boot clock, so that a clock that jumps ends nothing
 * early. One of an earlier boot counts from the start, before tpu-hostd is there, until its end and for
 * OBSERVE_UNCONFIRMED at most: tpu-hostd says at its every start what stands, so that an order of which it
 * says nothing for so long has no one who would end it. Pure; time is an argument.
 */
#include "base.h"
#include "host.h"

#define OBSERVE_UNCONFIRMED (3600 * USEC_PER_SEC)
#define OBSERVE_TEXT_MAX 256

struct observe {
        bool ordered;
        char boot_id[BOOT_ID_MAX];     /* when it was heard; empty: not known, and no boot's */
        usec_t heard_boot, heard_real; /* then, on the clocks */
        usec_t until;                  /* real clock; 0: no end */
};
#define OBSERVE_NULL ((struct observe) { 0 })

/* Takes an order of another boot over into this one, with that end. False: it is of this boot, or none. */
bool observe_adopt(struct observe *o, const char *boot_id, usec_t boot, usec_t real);
/* Whether one of this boot counts now. */
bool observe_counts(const struct observe *o, usec_t boot);
/* Its text; returns the length. */
size_t observe_format(const struct observe *o, char buf[static OBSERVE_TEXT_MAX]);
/* -EBADMSG: not such a text; *ret is untouched. */
int observe_parse(const char *text, size_t len, struct observe *ret);
