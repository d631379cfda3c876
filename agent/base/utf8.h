/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Text from outside (log lines, frames) before it goes into JSON, protobuf strings or /metrics, all of which
 * must be UTF-8.
 */
#include "base.h"

/* Replaces each byte that is no part of valid UTF-8 (RFC 3629: no surrogates, no overlong forms), and each
 * control character (C0, DEL, C1) but tab and newline, by '?'. In place; the length stays. Returns how many
 * bytes were replaced. */
size_t utf8_scrub(char *s, size_t len);
/* The same, but control characters stay: for what is shown with escapes. */
void utf8_mend(char *s);

/* Whether it is valid, without control characters of C0 but tab and newline, and without DEL; C1 is left in.
 */
bool utf8_is_text(const char *s);

/* Copies a text of the wire (NULL is the empty text) into dst, cut at size - 1 bytes, and scrubs it. */
void utf8_copy(char *dst, size_t size, const char *src);
/* As utf8_copy(), for one line: a tab and a newline become a blank, too. */
void utf8_copy_line(char *dst, size_t size, const char *src);

/* Bytes of the valid character at s that is no control character but tab and newline; 0: there is none. */
size_t utf8_character(const char *s);

/* How many columns a terminal takes for it: characters, not bytes. */
size_t utf8_width(const char *s);
