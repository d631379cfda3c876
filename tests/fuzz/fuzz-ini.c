/* SPDX-License-Identifier: Apache-2.0 */
/* Any ini text: what is told of it is in order and in bounds; each value goes through every parser. */
#include "config.h"

struct seen {
        unsigned line;
};

static void check_parsers(const char *value) {
        char why[96], small[64], large[256];
        uint64_t n;
        uint32_t u;
        usec_t t;
        bool b;

        if (config_parse_string63(value, small, why) == 0 && strlen(small) >= sizeof(small))
                abort();
        if (config_parse_string255(value, large, why) == 0 && strlen(large) >= sizeof(large))
                abort();
        (void) config_parse_bool(value, &b, why);
        (void) config_parse_u32(value, &u, why);
        (void) config_parse_u64(value, &n, why);
        (void) config_parse_usec(value, &t, why);
        (void) config_parse_bytes(value, &n, why);
}

static void on_entry(void *userdata, unsigned line, const char *section, const char *key,
                     const char *value) {
        struct seen *s = userdata;

        if (line <= s->line || strlen(section) > CONFIG_LINE_MAX || strlen(key) > CONFIG_LINE_MAX ||
            strlen(value) > CONFIG_LINE_MAX)
                abort();
        s->line = line;
        check_parsers(value);
}

static void on_problem(void *userdata, unsigned line, const char *text) {
        (void) userdata;
        if (line == 0 || !text[0])
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct seen seen = { 0 };
        const struct config_reader reader = { .entry = on_entry, .problem = on_problem, .userdata = &seen };

        (void) config_read_text(&reader, (const char *) data, size);
        return 0;
}
