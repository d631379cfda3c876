/* SPDX-License-Identifier: Apache-2.0 */
#include "version.h"

#define CHUNK 65536u
#define LONGEST 24u /* bytes of the text that are looked at */

/* Digits, at most three. */
static bool take_digits(const char **p, const char *end, unsigned *ret) {
        const char *start = *p;
        unsigned v = 0;

        for (; *p < end && **p >= '0' && **p <= '9' && *p - start < 3; (*p)++)
                v = v * 10 + (unsigned) (**p - '0');
        *ret = v;
        return *p > start;
}

static bool take_char(const char **p, const char *end, char c) {
        if (*p == end || **p != c)
                return false;
        (*p)++;
        return true;
}

bool version_parse(const char *text, size_t len, uint64_t *ret) {
        const char *p = text, *end = text + len;
        unsigned major, minor, micro, level = 0xF, serial = 0;

        if (!take_digits(&p, end, &major) || !take_char(&p, end, '.') || !take_digits(&p, end, &minor) ||
            !take_char(&p, end, '.') || !take_digits(&p, end, &micro))
                return false;
        if (take_char(&p, end, 'a'))
                level = 0xA;
        else if (take_char(&p, end, 'b'))
                level = 0xB;
        else if (take_char(&p, end, 'r') && take_char(&p, end, 'c'))
                level = 0xC;
        if (level != 0xF && !take_digits(&p, end, &serial))
                return false;
        (void) take_char(&p, end, '+'); /* built between two releases */
        if (!take_char(&p, end, ' ') || !take_char(&p, end, '('))
                return false;
        if (major > 255 || minor > 255 || micro > 255 || serial > 15)
                return false;
        *ret = (uint64_t) major << 24 | minor << 16 | micro << 8 | level << 4 | serial;
        return true;
}

/* The texts in one chunk; each begins after a NUL. */
static int search_chunk(const char *buf, size_t n, uint64_t address, uint64_t *version, uint64_t *at) {
        for (const char *p = buf; p + 1 < buf + n && (p = memchr(p, '\0', (size_t) (buf + n - p - 1)));
             p++) {
                uint64_t v;

                if (p[1] != '3' ||
                    !version_parse(p + 1, MIN((size_t) (buf + n - p - 1), (size_t) LONGEST), &v))
                        continue;
                if (*version != 0 && *version != v)
                        return -ENOTUNIQ;
                *version = v;
                *at = address + (uint64_t) (p + 1 - buf);
        }
        return 0;
}

int version_search(struct memory *m, uint64_t address, uint64_t size, uint64_t *ret, uint64_t *ret_at) {
        char buf[CHUNK];
        uint64_t version = 0, at = 0;

        size = MIN(size, (uint64_t) VERSION_DATA_MAX);
        for (uint64_t done = 0; done + LONGEST < size; done += CHUNK - LONGEST) {
                struct iovec local = { buf, MIN(size - done, (uint64_t) CHUNK) },
                             remote = { (void *) (uintptr_t) (address + done), local.iov_len };
                ssize_t n = m->source.readv(m->source.userdata, &local, &remote, 1);
                int r;

                if (n < 0)
                        return (int) n;
                r = search_chunk(buf, (size_t) n, address + done, &version, &at);
                if (r < 0)
                        return r;
        }
        if (!version)
                return -ENOENT;
        *ret = version;
        *ret_at = at;
        return 0;
}
