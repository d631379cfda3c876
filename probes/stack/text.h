/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Apart from code.h, which is about code objects: Python's str objects as UTF-8. What is no Unicode
 * scalar value (lone surrogates, numbers past U+10FFFF, NUL) becomes U+FFFD; a text that does not fit ends
 * in "…". Control characters are kept: printing them is the printer's business.
 */
#include "layout.h"
#include "memory.h"

#define TEXT_MAX 4096 /* bytes with the final NUL */

/*
 * width: bytes of one character, 1 (Latin-1), 2 or 4. size ≥ 8. Returns the bytes written, without the NUL.
 */
size_t text_to_utf8(const void *data, unsigned width, size_t n, char *buf, size_t size);

/*
 * The str object at address. type: address of PyUnicode_Type, 0 when unknown. -EBADMSG: no str object is
 * there; else as memory_read().
 */
int text_read(struct memory *m, const struct python_layout *l, uint64_t type, uint64_t address,
              char buf[static TEXT_MAX]);
