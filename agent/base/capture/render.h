/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures for people: as text, and as JSON (docs/stack.md). Whole frames, threads and processes are left
 * out beyond `max` bytes, and it is said; what is there is JSON always. Control characters in names are
 * shown as \xNN in text. The captures are detailed ones (host_capture.h).
 */
#include "host_capture.h"
#include "text_sink.h"

#define RENDER_MAX (4u * 1024 * 1024)

struct render {
        bool json;
        bool errors;      /* set behind render_begin(): what could not be read is reported in text, too */
        bool cut;         /* something was left out here, */
        bool was_cut;     /* or of the capture itself */
        size_t max;
        size_t processes; /* put so far */
        struct text_sink sink;
};

void render_begin(struct render *o, FILE *file, bool json, size_t max);
/* The processes of a capture; behind the last one who has the other ends of what they wait for. */
void render_capture(struct render *o, const struct host_capture *c, const struct stack_table *t);
/* Writes what is left. -EIO when the file could not be written. */
int render_end(struct render *o);

/* The same as text, malloc'ed, with processes that could not be read. -ENOMEM. */
int render_text(const struct host_capture *c, const struct stack_table *t, size_t max, char **ret);
