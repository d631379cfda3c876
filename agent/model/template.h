/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Sentences with fields in them, by one rule for both lists of this room, events and what checks say:
 *   {key}   the field's text
 *   [X]     X, if every field in it has a text; they do not nest. Without a field in it, it is text with its
 * brackets
 */
#include "base.h"

#define TEMPLATE_NUMBER_MAX 32

/* The text of a field; "": there is none. buf is for numbers. NULL: the list has no such field, which is our
 * own mistake. */
typedef const char *(*template_field)(const char *key, size_t len, char buf[static TEMPLATE_NUMBER_MAX],
                                      const void *of);

/* Writes the sentence, cut at size - 1 bytes, as UTF-8 without control characters; a line feed becomes "; ".
 * Returns buf. */
char *template_fill(char *buf, size_t size, const char *template, template_field field, const void *of);
