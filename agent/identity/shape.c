/* SPDX-License-Identifier: Apache-2.0 */
#include "shape.h"

static bool is_digit(char c) {
        return c >= '0' && c <= '9';
}

static bool is_letter(char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int parse(const char *text, char separator, size_t least, struct shape *ret) {
        struct shape s = { { 1, 1, 1 } };
        uint64_t product = 1;
        size_t n = 0;

        for (const char *p = text;; p++) {
                uint64_t v = 0;

                if (n == ELEMENTSOF(s.size) || !is_digit(*p))
                        return -EINVAL;
                for (; is_digit(*p); p++) {
                        v = v * 10 + (uint64_t) (*p - '0');
                        if (v > SHAPE_CHIPS_MAX)
                                return -EINVAL;
                }
                product *= v;
                if (v == 0 || product > SHAPE_CHIPS_MAX)
                        return -EINVAL;
                s.size[n++] = (uint32_t) v;
                if (*p == '\0')
                        break;
                if (*p != separator)
                        return -EINVAL;
        }
        if (n < least)
                return -EINVAL;
        *ret = s;
        return 0;
}

int shape_parse_topology(const char *text, struct shape *ret) {
        return parse(text, 'x', 2, ret);
}

int shape_parse_bounds(const char *text, struct shape *ret) {
        return parse(text, ',', 3, ret);
}

int shape_of_host(uint32_t chips, struct shape *ret) {
        static const struct shape boxes[] = {
                { { 1, 1, 1 } },
                { { 1, 2, 1 } },
                { { 2, 2, 1 } },
                { { 2, 4, 1 } },
        };

        for (size_t i = 0; i < ELEMENTSOF(boxes); i++)
                if (shape_count(&boxes[i]) == chips) {
                        *ret = boxes[i];
                        return 0;
                }
        return -ENODATA;
}

int shape_hosts(const struct shape *slice, const struct shape *host, struct shape *ret) {
        struct shape s;

        for (size_t i = 0; i < ELEMENTSOF(s.size); i++) {
                if (slice->size[i] % host->size[i] != 0)
                        return -EDOM;
                s.size[i] = slice->size[i] / host->size[i];
        }
        *ret = s;
        return 0;
}

uint32_t shape_count(const struct shape *s) {
        return s->size[0] * s->size[1] * s->size[2];
}

const char *shape_text(const struct shape *s, char buf[static SHAPE_TEXT_MAX]) {
        (void) snprintf(buf, SHAPE_TEXT_MAX, "%" PRIu32 ",%" PRIu32 ",%" PRIu32, s->size[0], s->size[1],
                        s->size[2]);
        return buf;
}

bool accelerator_type_is_valid(const char *text) {
        const char *p = text;
        size_t digits;

        if (startswith(p, "tpu"))
                p += 3;
        else if (*p == 'v')
                p++;
        else
                return false;
        for (digits = 0; is_digit(*p); p++)
                digits++;
        if (digits == 0)
                return false;
        while (is_letter(*p))
                p++;
        if (*p++ != '-')
                return false;
        for (digits = 0; is_digit(*p); p++)
                digits++;
        return digits > 0 && *p == '\0' && strlen(text) <= 32;
}

static bool is_made_of(const char *text, size_t len, const char *punctuation, size_t max) {
        if (len == 0 || len > max)
                return false;
        for (size_t i = 0; i < len; i++)
                if (text[i] == '\0' ||
                    (!is_letter(text[i]) && !is_digit(text[i]) && !strchr(punctuation, text[i])))
                        return false;
        return true;
}

bool worker_name_is_valid(const char *text, size_t len) {
        return is_made_of(text, len, ".-_:", 253);
}

bool label_is_valid(const char *text) {
        return is_made_of(text, strlen(text), ".-_", 63);
}
