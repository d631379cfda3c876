/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures as text for people and as JSON for programs. At most OUTPUT_MAX bytes leave the program, whatever
 * the targets hold; the rest is left out and said so. Control characters in names are shown as \xNN in text.
 */
#include "capture.h"
#include "sink.h"

#define OUTPUT_MAX (4u * 1024 * 1024)

struct output {
        bool json;
        bool cut;         /* something was left out */
        size_t processes; /* put so far */
        struct sink sink; /* owns nothing: an output may be forgotten at any time */
};

void output_init(struct output *o, FILE *file, bool json);
/* A process that was read. */
void output_capture(struct output *o, const struct capture *c);
/* A process that could not be read (JSON only; the text of it is the caller's message). */
void output_failure(struct output *o, pid_t pid, const char *command, const char *why);
/* Whether so many bytes more may be put; if not, sets cut. For those that print. */
bool output_has_room(struct output *o, size_t bytes);
/* Writes what is left. -EIO when the file could not be written. */
int output_finish(struct output *o);
