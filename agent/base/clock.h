/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Clocks as a value that is passed in: logic takes an instant as an argument and never reads a clock;
 * programs take theirs from clock_system; tests set a struct clock_fixed.
 */
#include <time.h>

#include "base.h"

struct clock {
        usec_t (*boot)(void *userdata); /* CLOCK_BOOTTIME: does not jump, counts suspend */
        usec_t (*real)(void *userdata); /* CLOCK_REALTIME: since 1970, may jump */
        void *userdata;
};

/* Nanoseconds of a clock that every kernel has (clock_gettime(2)), for who measures, or compares with what
 * others read from it. */
uint64_t clock_ns(clockid_t id);

/* The machine's own clocks. */
extern const struct clock clock_system;

struct clock_fixed {
        usec_t boot, real;
};

/* A clock that shows what the test last wrote into *times (borrowed). */
struct clock clock_from(struct clock_fixed *times);

usec_t clock_boot(const struct clock *c);
usec_t clock_real(const struct clock *c);

/*
 * The real clock, but one that never jumps: what the real one is ahead or behind it makes good by at most a
 * tenth of the time that passes. Zero begins with what the real one shows.
 */
struct clock_steady {
        usec_t boot, real;
};
usec_t clock_steady(struct clock_steady *s, const struct clock *c);

/* Writes RFC 3339 UTC with milliseconds, "2026-11-21T05:00:00.123Z" (25 bytes with NUL). */
#define CLOCK_TEXT_MAX 32
const char *clock_text(usec_t real, char buf[static CLOCK_TEXT_MAX]);
/* RFC 3339 UTC ("2026-11-21T05:00:00Z", with or without a fraction), or whole seconds since 1970.
 * -EINVAL. */
int clock_parse(const char *text, usec_t *ret);
