/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures as text for people and as JSON for programs. At most OUTPUT_MAX bytes leave the program, whatever
 * the targets hold; the rest is left out and said so. Control characters in names are shown as \xNN in text.
 */
#include <jansson.h>

#include "capture.h"

#define OUTPUT_MAX (4u * 1024 * 1024)

struct output {
        FILE *file;
        size_t bytes;
        bool cut;          /* something was left out */
        json_t *processes; /* an array when JSON is wanted, else NULL: text is written at once */
};

int output_init(struct output *o, FILE *file, bool json);
/* A process that was read. -ENOMEM. */
int output_capture(struct output *o, const struct capture *c);
/* A process that could not be read (JSON only; the text of it is the caller's message). -ENOMEM. */
int output_failure(struct output *o, pid_t pid, const char *command, const char *why);
/* Whether so many bytes more may be put; if not, sets cut. For those that print. */
bool output_has_room(struct output *o, size_t bytes);
/* Writes what is left and frees. -EIO when the file could not be written. */
int output_finish(struct output *o);
