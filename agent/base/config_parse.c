/* SPDX-License-Identifier: Apache-2.0 */
#include "config.h"
#include "texts.h"

#define refuse_value(error, why, ...) text_fail(why, 96, error, __VA_ARGS__)

static int copy_string(const char *value, char *dest, size_t size, char why[static 96]) {
        if (strlen(value) >= size)
                return refuse_value(-E2BIG, why, "longer than %zu characters", size - 1);
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
        static const char *const yes[] = { "yes", "true", "on", "1" };
        static const char *const no[] = { "no", "false", "off", "0" };

        for (size_t i = 0; i < ELEMENTSOF(yes); i++) {
                if (!streq(value, yes[i]) && !streq(value, no[i]))
                        continue;
                *(bool *) dest = streq(value, yes[i]);
                return 0;
        }
        return refuse_value(-EINVAL, why, "neither yes nor no");
}

/* The leading number; *ret_rest is what follows it, blanks skipped. */
static int leading_number(const char *value, uint64_t *ret, const char **ret_rest, char why[static 96]) {
        char *end;

        if (value[0] < '0' || value[0] > '9')
                return refuse_value(-EINVAL, why, "not a number");
        errno = 0;
        *ret = strtoull(value, &end, 10);
        if (errno != 0)
                return refuse_value(-ERANGE, why, "too large");
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
                return refuse_value(-EINVAL, why, "not a number");
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
                return refuse_value(-ERANGE, why, "too large");
        *(uint32_t *) dest = (uint32_t) v;
        return 0;
}

struct unit {
        const char *name;
        uint64_t factor;
};

static int parse_scaled(const char *value, const struct unit *units, size_t n, const char *example,
                        uint64_t *dest, char why[static 96]) {
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
                        return refuse_value(-ERANGE, why, "too large");
                *dest = v * units[i].factor;
                return 0;
        }
        return refuse_value(-EINVAL, why, "unknown unit '%.16s' (as in %s)", rest, example);
}

static const struct unit spans[] = {
        { "", USEC_PER_SEC },
        { "us", 1 },
        { "ms", USEC_PER_MSEC },
        { "s", USEC_PER_SEC },
        { "m", 60 * USEC_PER_SEC }, /* as systemd.time(7) has it */
        { "min", 60 * USEC_PER_SEC },
        { "h", 3600 * USEC_PER_SEC },
        { "d", 86400 * USEC_PER_SEC },
}, sizes[] = {
        { "", 1 }, { "K", 1 << 10 }, { "M", 1 << 20 }, { "G", 1 << 30 },
};

int config_parse_usec(const char *value, void *dest, char why[static 96]) {
        return parse_scaled(value, spans, ELEMENTSOF(spans), "250ms, 10s, 2min, 1h", dest, why);
}

int config_parse_bytes(const char *value, void *dest, char why[static 96]) {
        return parse_scaled(value, sizes, ELEMENTSOF(sizes), "64K, 256M, 1G", dest, why);
}

/* --- Texts --------------------------------------------------------------------------------------------- */

static int check_url(const char *value, char why[static 96]) {
        const char *host = startswith(value, "http://") ? value + strlen("http://") :
                           startswith(value, "https://") ? value + strlen("https://") : NULL;

        if (!host)
                return refuse_value(-EINVAL, why, "not an http:// or https:// URL");
        if (host[0] == 0 || host[0] == '/' || memchr(host, '@', strcspn(host, "/")))
                return refuse_value(-EINVAL, why, "needs a host, and takes no user or password");
        return strpbrk(value, " \t\"\\")
                       ? refuse_value(-EINVAL, why, "holds a blank, a quote or a backslash")
                       : 0;
}

int config_parse_url(const char *value, void *dest, char why[static 96]) {
        int r = value[0] ? check_url(value, why) : 0;

        return r < 0 ? r : config_parse_string255(value, dest, why);
}

int config_parse_words(const char *value, const char *between, size_t most,
                       int (*one)(const char *word, char why[static 96]), char dest[static 256],
                       char why[static 96]) {
        char list[256];
        char *word, *rest = list;
        size_t n = 0;
        int r = config_parse_string255(value, list, why);

        while (r == 0 && (word = strsep(&rest, between))) {
                if (!*word)
                        continue;
                r = ++n > most ? refuse_value(-E2BIG, why, "more than %zu", most) : one(word, why);
        }
        return r < 0 ? r : config_parse_string255(value, dest, why);
}

int config_parse_urls(const char *value, void *dest, char why[static 96]) {
        return config_parse_words(value, CONFIG_BETWEEN, CONFIG_URLS_MAX, check_url, dest, why);
}

int config_parse_path(const char *value, void *dest, char why[static 96]) {
        if (value[0] != 0 && value[0] != '/')
                return refuse_value(-EINVAL, why, "not an absolute path");
        return config_parse_string255(value, dest, why);
}

int config_parse_name63(const char *value, void *dest, char why[static 96]) {
        size_t n = strspn(value, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_");

        if (n == 0 || n >= 64 || value[n])
                return refuse_value(-EINVAL, why, "not 1 to 63 letters, digits, - and _");
        return copy_string(value, dest, 64, why);
}

/* --- Bounds and words ---------------------------------------------------------------------------------- */

/* In the largest unit that it is a whole number of. */
static const char *scaled_text(uint64_t n, const struct unit *units, size_t n_units, char buf[static 32]) {
        size_t i = n_units - 1;

        while (i > 0 && (n < units[i].factor || n % units[i].factor != 0))
                i--;
        (void) snprintf(buf, 32, "%" PRIu64 "%s", n > 0 ? n / units[i].factor : 0, units[i].name);
        return buf;
}

static const char *bound_text(const struct config_item *item, uint64_t n, char buf[static 32]) {
        if (item->parse == config_parse_usec)
                return scaled_text(n, spans, ELEMENTSOF(spans), buf);
        if (item->parse == config_parse_bytes)
                return scaled_text(n, sizes, ELEMENTSOF(sizes), buf);
        (void) snprintf(buf, 32, "%" PRIu64, n);
        return buf;
}

static int set_within(const struct config_item *item, const char *value, char why[static 96]) {
        bool narrow = item->parse == config_parse_u32;
        char least[32], most[32];
        uint64_t n = 0;
        int r = narrow ? config_parse_u64(value, &n, why) : item->parse(value, &n, why);

        if (r < 0)
                return r;
        (void) bound_text(item, item->least, least);
        if (n < item->least || n > item->most)
                return item->most == UINT64_MAX ? refuse_value(-ERANGE, why, "must be at least %s", least)
                                                : refuse_value(-ERANGE, why, "must be from %s to %s", least,
                                                               bound_text(item, item->most, most));
        if (narrow)
                *(uint32_t *) item->dest = (uint32_t) n;
        else
                *(uint64_t *) item->dest = n;
        return 0;
}

static int set_word(const struct config_item *item, const char *value, char why[static 96]) {
        size_t k = 0;

        while (item->words[k] && !streq(value, item->words[k]))
                k++;
        if (item->words[k]) {
                if (item->parse == config_parse_bool)
                        *(bool *) item->dest = k == 1;
                else
                        *(unsigned *) item->dest = (unsigned) k;
                return 0;
        }
        (void) snprintf(why, 96, "none of");
        for (k = 0; item->words[k]; k++)
                text_append(why, 96, " ", "%s", item->words[k]);
        return -EINVAL;
}

int config_item_set(const struct config_item *item, const char *value, char why[static 96]) {
        if (item->words)
                return set_word(item, value, why);
        return item->most > 0 ? set_within(item, value, why) : item->parse(value, item->dest, why);
}

int config_parse_u32_within(const char *value, uint32_t least, uint32_t most, uint32_t *dest,
                            char why[static 96]) {
        return config_item_set(&(struct config_item)CONFIG_WITHIN("", "", config_parse_u32, dest, NULL,
                                                                  least, most),
                               value, why);
}
