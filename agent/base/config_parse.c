/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "config.h"

__attribute__((format(printf, 3, 4))) static int refuse(int error, char why[static 96], const char *fmt, ...) {
        va_list ap;

        va_start(ap, fmt);
        (void) vsnprintf(why, 96, fmt, ap);
        va_end(ap);
        return error;
}

static int copy_string(const char *value, char *dest, size_t size, char why[static 96]) {
        if (strlen(value) >= size)
                return refuse(-E2BIG, why, "longer than %zu characters", size - 1);
        memcpy(dest, value, strlen(value) + 1);
        return 0;
}

int config_parse_string63(const char *value, void *dest, char why[static 96]) {
        return copy_string(value, dest, 64, why);
}

int config_parse_string255(const char *value, void *dest, char why[static 96]) {
        return copy_string(value, dest, 256, why);
}

int config_parse_bool(const char *value, void *dest, char why[static 96]) {
        static const char *const yes[] = { "yes", "true", "on", "1" }, *const no[] = { "no", "false", "off", "0" };

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                if (!streq(value, yes[i]) && !streq(value, no[i]))
                        continue;
                *(bool *) dest = streq(value, yes[i]);
                return 0;
        }
        return refuse(-EINVAL, why, "neither yes nor no");
}

/* The leading number; *ret_rest is what follows it, blanks skipped. */
static int leading_number(const char *value, uint64_t *ret, const char **ret_rest, char why[static 96]) {
        char *end;

        if (value[0] < '0' || value[0] > '9')
                return refuse(-EINVAL, why, "not a number");
        errno = 0;
        *ret = strtoull(value, &end, 10);
        if (errno != 0)
                return refuse(-ERANGE, why, "too large");
        *ret_rest = end + strspn(end, " ");
        return 0;
}

int config_parse_u64(const char *value, void *dest, char why[static 96]) {
        const char *rest;
        uint64_t v = 0;
        int r;

        r = leading_number(value, &v, &rest, why);
        if (r < 0)
                return r;
        if (*rest)
                return refuse(-EINVAL, why, "not a number");
        *(uint64_t *) dest = v;
        return 0;
}

int config_parse_u32(const char *value, void *dest, char why[static 96]) {
        uint64_t v = 0;
        int r;

        r = config_parse_u64(value, &v, why);
        if (r < 0)
                return r;
        if (v > UINT32_MAX)
                return refuse(-ERANGE, why, "too large");
        *(uint32_t *) dest = (uint32_t) v;
        return 0;
}

int config_parse_u32_within(const char *value, uint32_t least, uint32_t most, uint32_t *dest, char why[static 96]) {
        uint32_t v = 0;
        int r;

        r = config_parse_u32(value, &v, why);
        if (r < 0)
                return r;
        if (v < least || v > most) {
                (void) snprintf(why, 96, "must be from %" PRIu32 " to %" PRIu32, least, most);
                return -ERANGE;
        }
        *dest = v;
        return 0;
}

struct unit {
        const char *name;
        uint64_t factor;
};

static int scaled(const char *value, const struct unit *units, size_t n, const char *example, uint64_t *dest, char why[static 96]) {
        const char *rest;
        uint64_t v = 0;
        int r;

        r = leading_number(value, &v, &rest, why);
        if (r < 0)
                return r;
        for (size_t i = 0; i < n; i++) {
                if (!streq(rest, units[i].name))
                        continue;
                if (v > UINT64_MAX / units[i].factor)
                        return refuse(-ERANGE, why, "too large");
                *dest = v * units[i].factor;
                return 0;
        }
        return refuse(-EINVAL, why, "unknown unit '%.16s' (as in %s)", rest, example);
}

int config_parse_usec(const char *value, void *dest, char why[static 96]) {
        static const struct unit units[] = {
                { "", USEC_PER_SEC },       { "us", 1 },
                { "ms", USEC_PER_MSEC },    { "s", USEC_PER_SEC },
                { "min", 60 * USEC_PER_SEC }, { "m", 60 * USEC_PER_SEC }, /* as systemd.time(7) has it */
                { "h", 3600 * USEC_PER_SEC }, { "d", 86400 * USEC_PER_SEC },
        };

        return scaled(value, units, ELEMENTSOF(units), "250ms, 10s, 2min, 1h", dest, why);
}

int config_parse_bytes(const char *value, void *dest, char why[static 96]) {
        static const struct unit units[] = {
                { "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 },
        };

        return scaled(value, units, ELEMENTSOF(units), "64K, 256M, 1G", dest, why);
}
