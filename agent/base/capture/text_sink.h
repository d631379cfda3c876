/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Text for a file, piece by piece: a capture is tens of thousands of short ones, and neither printf() nor a
 * tree of JSON values puts them together within a millisecond. What is put must be UTF-8 already
 * (text_to_utf8(), utf8_mend()). No other thread may use the file.
 */
#include "base.h"

struct text_sink {
        FILE *file;   /* borrowed */
        uint64_t put; /* bytes in all */
};

/* Writes what is left. -EIO: this, or something before it, could not be written. */
int sink_flush(struct text_sink *s);

static inline void sink_put(struct text_sink *s, const void *p, size_t n) {
        (void) fwrite_unlocked(p, 1, n, s->file); /* the file remembers an error for sink_flush() */
        s->put += n;
}

static inline void sink_text(struct text_sink *s, const char *text) {
        sink_put(s, text, strlen(text));
}

void sink_number(struct text_sink *s, int64_t n);
void sink_hex(struct text_sink *s, uint64_t n); /* without "0x" */
/* In quotes, as JSON wants it. */
void sink_json(struct text_sink *s, const char *text, size_t len);

/* A member of an object. key: with its quotes, its colon and the comma before it. */
static inline void sink_text_member(struct text_sink *s, const char *key, const char *text) {
        sink_text(s, key);
        sink_json(s, text, strlen(text));
}

static inline void sink_number_member(struct text_sink *s, const char *key, int64_t n) {
        sink_text(s, key);
        sink_number(s, n);
}

/* For a terminal: what would move the cursor (C0, DEL, C1) is shown as \xNN, what would turn the direction
 * of the text as \u202e. */
void sink_shown(struct text_sink *s, const char *text);
/* As printf(), of which it knows %s (as sink_shown()), %d, %ld and %lx. */
void sink_format(struct text_sink *s, const char *format, ...) _printf_(2, 3);
