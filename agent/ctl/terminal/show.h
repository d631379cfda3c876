/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Lines and tables for people out of JSON (docs/api.md). The JSON is foreign input: what is missing or of
 * the wrong type prints as nothing, or as "-" where it has a kind; all texts are made harmless for a
 * terminal.
 *
 * A template is text with fields and choices in it:
 *   {a.b}       the text of field b of object a; of a list, its element by number; {} is the object itself
 *   {a:KIND}    a number or a time as a person reads it (below); "-" when it is none
 *   [X|Y|Z]     the first of these all of whose fields have something to print; none: nothing. Choices nest.
 *   {a?}        prints nothing: the choice with it wants a to be there, not null, false or empty
 *   {a!}        prints nothing: wants a not to be there
 *   {a=word}    prints nothing: wants this text
 *   {a>5}       prints nothing: wants a larger number
 *   {,} {;}     the separator, unless the list begins here: at the start of the template, or behind {^}
 *
 * Kinds: count (12), percent (0.4: 40 %), share (40 %, of the object's own "seconds"), bytes (1.5 MiB), bits
 * (of bytes a second: 1.2 Gbit/s), span (of seconds: 1.2 ms), long (of seconds: 3 h), age and left (from a
 * time until now, from now until a time: 3 h), time (of microseconds since 1970), lines (a text that keeps
 * its line feeds), a number (a text padded to so many columns).
 */
#include <jansson.h>
#include <stdio.h>

#include "base.h"

/* now: the real clock, for ages. */
void show(FILE *out, const json_t *o, usec_t now, const char *template);
/* For each element of a list. What is no list has none. */
void show_each(FILE *out, const json_t *list, usec_t now, const char *template);

/* The objects in an object as a list, each with its key as "name". NULL when there is no memory. */
json_t *show_named(const json_t *objects);

struct column {
        const char *title, *cell; /* cell: a template */
        bool shrinks;             /* is cut first when a terminal is too narrow */
};
/* The list as a table, one line an element. -ENOMEM, -EIO. */
int show_table(FILE *out, const json_t *list, usec_t now, const struct column *columns, size_t n);
/* The same; where the list is empty, that text instead. -EPROTO too: it is no list. */
int show_list(FILE *out, const json_t *list, usec_t now, const struct column *columns, size_t n,
              const char *empty);

/* The text of o[key]: a string as it is, a number or boolean in decimal; "" when missing. buf is used for
 * numbers. */
#define FIELD_TEXT_MAX 32
const char *field_text(const json_t *o, const char *key, char buf[static FIELD_TEXT_MAX]);
/* The number o[key]; NAN when it is none. */
double field_number(const json_t *o, const char *key);
