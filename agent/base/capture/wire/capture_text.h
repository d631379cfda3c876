/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
#include "capture_read.h"

/* A capture for people, at most max bytes of text (malloc'ed), and what is in it. -EPROTO, -E2BIG, -ENOMEM;
 * why: which part and field. */
struct capture_text {
        char *text;
        uint32_t processes, threads; /* that were read */
        char unread[200];            /* why the first of the other processes was not */
        bool cut;
};
int capture_text_make(const uint8_t *data, size_t len, size_t max, struct capture_text *ret,
                      char why[static CAPTURE_WHY_MAX]);
