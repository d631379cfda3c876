/* SPDX-License-Identifier: Apache-2.0 */
#include "text.h"

#include <assert.h>

static const char ellipsis[] = "\xE2\x80\xA6"; /* … */

static uint32_t character(const void *data, unsigned width, size_t i) {
        uint16_t two;
        uint32_t four;

        if (width == 1)
                return ((const uint8_t *) data)[i];
        if (width == 2) {
                memcpy(&two, (const uint8_t *) data + 2 * i, 2);
                return two;
        }
        memcpy(&four, (const uint8_t *) data + 4 * i, 4);
        return four;
}

static size_t encode_utf8(uint32_t c, char out[static 4]) {
        if (c == 0 || (c >= 0xD800 && c <= 0xDFFF) || c > 0x10FFFF)
                c = 0xFFFD;
        if (c < 0x80) {
                out[0] = (char) c;
                return 1;
        }
        if (c < 0x800) {
                out[0] = (char) (0xC0 | c >> 6);
                out[1] = (char) (0x80 | (c & 0x3F));
                return 2;
        }
        if (c < 0x10000) {
                out[0] = (char) (0xE0 | c >> 12);
                out[1] = (char) (0x80 | (c >> 6 & 0x3F));
                out[2] = (char) (0x80 | (c & 0x3F));
                return 3;
        }
        out[0] = (char) (0xF0 | c >> 18);
        out[1] = (char) (0x80 | (c >> 12 & 0x3F));
        out[2] = (char) (0x80 | (c >> 6 & 0x3F));
        out[3] = (char) (0x80 | (c & 0x3F));
        return 4;
}

size_t text_to_utf8(const void *data, unsigned width, size_t n, char *buf, size_t size) {
        size_t used = 0, cut = 0; /* cut: where "…" would still fit */

        assert(size >= 8 && (width == 1 || width == 2 || width == 4));
        for (size_t i = 0; i < n; i++) {
                char bytes[4];
                size_t len = encode_utf8(character(data, width, i), bytes);

                if (used + len > size - 1) {
                        memcpy(buf + cut, ellipsis, sizeof(ellipsis));
                        return cut + sizeof(ellipsis) - 1;
                }
                memcpy(buf + used, bytes, len);
                used += len;
                if (used + sizeof(ellipsis) <= size)
                        cut = used;
        }
        buf[used] = '\0';
        return used;
}

int text_read(struct memory *m, const struct python_layout *l, uint64_t type, uint64_t address,
              char buf[static TEXT_MAX]) {
        uint8_t head[128], data[TEXT_MAX * 4];
        uint64_t found_type, length, from;
        uint32_t state;
        unsigned width;
        size_t n;
        int r;

        assert(l->unicode.ascii_data <= sizeof(head));
        r = memory_read(m, address, head, l->unicode.ascii_data);
        if (r < 0)
                return r;
        memcpy(&found_type, head + l->object.type, 8);
        memcpy(&length, head + l->unicode.length, 8);
        memcpy(&state, head + l->unicode.state, 4);
        width = (state >> l->unicode.kind_shift) & 7;
        if ((type && found_type != type) || length > INT64_MAX || (width != 1 && width != 2 && width != 4))
                return -EBADMSG;
        if (!(state >> l->unicode.compact_bit & 1)) {
                r = memory_read_u64(m, address + l->unicode.data_pointer, &from);
                if (r < 0)
                        return r;
        } else
                from = address +
                       (state >> l->unicode.ascii_bit & 1 ? l->unicode.ascii_data : l->unicode.compact_data);
        n = (size_t) MIN(length, (uint64_t) TEXT_MAX);
        r = memory_read(m, from, data, n * width);
        if (r < 0)
                return r;
        (void) text_to_utf8(data, width, n, buf, TEXT_MAX);
        return 0;
}
