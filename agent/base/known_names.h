/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is said of a name that is not there: the one that was meant, and those that are there.
 *
 *   struct known_names k = known_names("s01");
 *   known_names_add(&k, "s0");                      once for each
 *   "there is no slice 's01'%s", known_names_text(&k, buf)
 *       there is no slice 's01'; did you mean 's0'? known: s0, s1 and 9 more
 */
#include "base.h"

#define KNOWN_NAME_MAX 64  /* bytes with the NUL: longer names are counted, and not shown */
#define KNOWN_LIST_MAX 176 /* bytes of the names that are listed: all fits into a struct problem */
#define KNOWN_TEXT_MAX 400

struct known_names {
        char wanted[KNOWN_NAME_MAX], nearest[KNOWN_NAME_MAX], list[KNOWN_LIST_MAX];
        size_t n, listed, distance;
};

/* What is no printable ASCII of wanted is '?' from then on. */
struct known_names known_names(const char *wanted);
/* Names are listed in the order in which they come. */
void known_names_add(struct known_names *k, const char *name);

/* "; did you mean 'X'?", or "" where none is near. Near: a third of its letters mistyped, left out or
 * swapped, but at least one. */
const char *known_names_meant(const struct known_names *k, char buf[static KNOWN_TEXT_MAX]);
/* That, and "; known: A, B and 9 more", or "; none is known". */
const char *known_names_text(const struct known_names *k, char buf[static KNOWN_TEXT_MAX]);
