/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What a part of a capture holds, for capture_read.c alone. */
#include "capture_read.h"

#include "capture.pb-c.h"

/* Its strings, frames and stacks. 0, or as capture_reader_next(). */
int capture_part_stacks(struct capture_reader *r, const Capture__Part *m);
/* After that the rest: processes with their sockets, threads with their waits, ends, the host, its cores and
 * findings. */
int capture_part_host(struct capture_reader *r, const Capture__Part *m);

/* Says which part and field is wrong (NULL: the part itself). Returns error. */
int capture_wrong(struct capture_reader *r, int error, const char *field, const char *why);
/* A string by the stream's number; false when there is none. */
bool capture_string_of(const struct capture_reader *r, uint32_t number, uint32_t *ret);
/* One that stands in a field. */
int capture_text_of(struct capture_reader *r, const char *text, uint32_t *ret);
