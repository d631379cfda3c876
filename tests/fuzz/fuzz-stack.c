/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tpu-stack's foreign input: even first byte, the rest is lines of /proc/PID/maps; odd, the rest is the
 * memory of a process in which _PyRuntime lies at the start; bits 1 to 3 say which CPython it is.
 */
#include "capture.h"
#include "elf_symbols.h"
#include "mapped_file.h"

#define BASE \
        UINT64_C(0x10000) /* where the image lies; small, so that few bits must be right for a pointer into \
                             it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct image {
        const uint8_t *bytes;
        size_t size;
};

static ssize_t image_readv(void *userdata, const struct iovec *local, const struct iovec *remote, size_t n) {
        const struct image *i = userdata;
        ssize_t done = 0;

        for (size_t k = 0; k < n; k++) {
                uint64_t at = (uint64_t) (uintptr_t) remote[k].iov_base - BASE;

                if (at >= i->size)
                        return done > 0 ? done : -EFAULT;
                memset(local[k].iov_base, 0, remote[k].iov_len);
                memcpy(local[k].iov_base, i->bytes + at, MIN(remote[k].iov_len, i->size - at));
                done += (ssize_t) remote[k].iov_len;
        }
        return done;
}

static void fuzz_maps(const char *text, size_t len) {
        struct mapping m;
        uint64_t version;

        (void) version_parse(text, len, &version);
        for (const char *end; len > 0; len -= (size_t) (end - text), text = end) {
                end = memchr(text, '\n', len);
                end = end ? end : text + len;
                if (maps_parse_line(text, (size_t) (end - text), &m) == 0 &&
                    (m.end <= m.start || strlen(m.path) >= MAPS_PATH_MAX))
                        abort();
                if (end < text + len)
                        end++;
        }
}

static void fuzz_memory(struct image *image, unsigned which) {
        static const uint8_t minors[] = { 11, 8, 9, 10, 12, 13, 14, 15 };
        _cleanup_capture_ struct capture c = CAPTURE_NULL;
        struct elf_symbol symbols[] = { { "_PyRuntime", 0 }, { "x", 0 } };
        struct elf_answer elf;

        capture_init(&c, (struct memory_source) { image_readv, image, NULL });
        c.interpreter.runtime = BASE;
        c.interpreter.types = (struct python_types) { 7, 0, 9 };
        c.interpreter.version = 0x030000F0 | (uint64_t) minors[which] << 16;
        c.interpreter.layout = python_layout_find(c.interpreter.version);
        if (image->size >= LAYOUT_DEBUG_MAX && c.interpreter.layout->debug.size > 0 &&
            python_layout_describe(c.interpreter.layout, c.interpreter.version, image->bytes,
                                   &c.interpreter.described) == 0)
                c.interpreter.layout = &c.interpreter.described;
        (void) elf_mapped_find(&c.memory, BASE, symbols, ELEMENTSOF(symbols), &elf);
        (void) capture_stacks(&c);
        if (c.n_threads > WALK_THREADS_MAX || c.frames > WALK_FRAMES_TOTAL_MAX)
                abort();
        for (size_t i = 0; i < c.n_threads; i++)
                for (size_t k = 0; k < c.threads[i].chain.n; k++)
                        if (c.threads[i].chain.frames[k].code)
                                (void) code_line(c.threads[i].chain.frames[k].code,
                                                 c.threads[i].chain.frames[k].instruction);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct image image = { data + 1, size - 1 };

        if (size == 0)
                return 0;
        if (data[0] % 2 == 0)
                fuzz_maps((const char *) data + 1, size - 1);
        else
                fuzz_memory(&image, data[0] >> 1 & 7);
        return 0;
}
