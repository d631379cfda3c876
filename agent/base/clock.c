/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>

#include "clock.h"

uint64_t clock_ns(clockid_t id) {
        struct timespec ts;
        int r = clock_gettime(id, &ts);

        assert(r == 0);
        return (uint64_t) ts.tv_sec * USEC_PER_SEC * NSEC_PER_USEC + (uint64_t) ts.tv_nsec;
}

static usec_t system_boot(void *userdata) {
        (void) userdata;
        return clock_ns(CLOCK_BOOTTIME) / NSEC_PER_USEC;
}

static usec_t system_real(void *userdata) {
        (void) userdata;
        return clock_ns(CLOCK_REALTIME) / NSEC_PER_USEC;
}

const struct clock clock_system = { .boot = system_boot, .real = system_real };

static usec_t fixed_boot(void *userdata) {
        return ((const struct clock_fixed *) userdata)->boot;
}

static usec_t fixed_real(void *userdata) {
        return ((const struct clock_fixed *) userdata)->real;
}

struct clock clock_from(struct clock_fixed *times) {
        return (struct clock) { .boot = fixed_boot, .real = fixed_real, .userdata = times };
}

usec_t clock_boot(const struct clock *c) {
        return c->boot(c->userdata);
}

usec_t clock_real(const struct clock *c) {
        return c->real(c->userdata);
}

usec_t clock_steady(struct clock_steady *s, const struct clock *c) {
        usec_t boot = clock_boot(c), real = clock_real(c), passed = boot - s->boot,
               planned = s->real + passed;

        if (s->real == 0)
                planned = real;
        s->real = MIN(MAX(real, planned - passed / 10), planned + passed / 10);
        s->boot = boot;
        return s->real;
}

const char *clock_text(usec_t real, char buf[static CLOCK_TEXT_MAX]) {
        time_t seconds = (time_t) (real / USEC_PER_SEC);
        struct tm tm;
        size_t n;

        /* Past year 9999 the text would not fit, and no clock of ours shows such a time. */
        if (real / USEC_PER_SEC > 253402300799ULL || !gmtime_r(&seconds, &tm)) {
                (void) snprintf(buf, CLOCK_TEXT_MAX, "-");
                return buf;
        }
        n = strftime(buf, CLOCK_TEXT_MAX, "%Y-%m-%dT%H:%M:%S", &tm);
        (void) snprintf(buf + n, CLOCK_TEXT_MAX - n, ".%03uZ",
                        (unsigned) (real % USEC_PER_SEC / USEC_PER_MSEC));
        return buf;
}

int clock_parse(const char *text, usec_t *ret) {
        static const int64_t seconds_max = 253402300800; /* the year 10000 */
        int64_t seconds, micro = 0, unit = 100000;
        struct tm tm = { 0 };
        char *end;

        if (*text < '0' || *text > '9' || strlen(text) > 40)
                return -EINVAL;
        errno = 0;
        seconds = strtoll(text, &end, 10);
        if (*end) {
                end = strptime(text, "%Y-%m-%dT%H:%M:%S", &tm);
                if (!end)
                        return -EINVAL;
                if (*end == '.')
                        for (end++; *end >= '0' && *end <= '9'; end++, unit /= 10)
                                micro += (*end - '0') * unit;
                if (!streq(end, "Z"))
                        return -EINVAL;
                seconds = timegm(&tm);
        }
        if (errno == ERANGE || seconds < 0 || seconds > seconds_max)
                return -EINVAL;
        *ret = (usec_t) seconds * USEC_PER_SEC + (usec_t) micro;
        return 0;
}
