/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Text for a file, gathered in one buffer: a capture is tens of thousands of short pieces, and
 * neither printf() nor a tree of JSON values puts them together within a millisecond. What is
 * put must be UTF-8 already (text_to_utf8(), utf8_mend()). That the file could not be written is
 * remembered for sink_flush().
 */
#include "base.h"

#define SINK_SIZE (32u * 1024)

struct text_sink {
        FILE *file;       /* borrowed */
        size_t used;      /* of buf */
        uint64_t written; /* bytes that have left buf */
        bool failed;
        char buf[SINK_SIZE];
};

void sink_init(struct text_sink *s, FILE *file);
/* Writes what is left. -EIO: this, or something before it, could not be written. */
int sink_flush(struct text_sink *s);

/* Bytes that were put in all. */
static inline uint64_t sink_bytes_put(const struct text_sink *s) {
        return s->written + s->used;
}

/* More than fits is put, too. */
void sink_put_slowly(struct text_sink *s, const void *p, size_t n);

static inline void sink_put(struct text_sink *s, const void *p, size_t n) {
        if (n > SINK_SIZE - s->used) {
                sink_put_slowly(s, p, n);
                return;
        }
        memcpy(s->buf + s->used, p, n);
        s->used += n;
}

static inline void sink_text(struct text_sink *s, const char *text) {
        sink_put(s, text, strlen(text));
}

void sink_number(struct text_sink *s, int64_t n);
void sink_hex(struct text_sink *s, uint64_t n); /* without "0x" */
/* In quotes, as JSON wants it. */
void sink_json(struct text_sink *s, const char *text, size_t len);
/* For a terminal: what would move the cursor (C0, DEL, C1) is shown as \xNN, what would turn the direction
 * of the text as \u202e. */
void sink_shown(struct text_sink *s, const char *text);
/* As printf(), of which it knows %s (as sink_shown()), %d, %ld and %lx. */
void sink_format(struct text_sink *s, const char *format, ...) _printf_(2, 3);
