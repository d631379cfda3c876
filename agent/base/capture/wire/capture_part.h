/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Inside this room only: the messages of one part into the capture and the table. */
#include "capture.pb-c.h"

#include "capture_read.h"

/* Says which part and field is wrong (NULL: the part itself). Returns error. */
int capture_wrong(struct capture_reader *r, int error, const char *field, const char *why);

/* Strings, frames and stacks. */
int capture_part_stacks(struct capture_reader *r, const Capture__Part *m);
/* Processes, threads, and what the agent says of its host. */
int capture_part_host(struct capture_reader *r, const Capture__Part *m);

/* What a number of the stream is in the table; false: there is none. */
bool capture_string_of(const struct capture_reader *r, uint32_t number, uint32_t *ret);
/* A text in the table, scrubbed. */
int capture_text_of(struct capture_reader *r, const char *text, uint32_t *ret);
