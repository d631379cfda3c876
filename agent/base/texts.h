/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Small work on texts: lists of them, sentences that are put together or have words to be filled in, ranges
 * of numbers, MAC addresses, names that the registry takes, names whose values are secret, bytes as digits.
 * What has to do with UTF-8 is in utf8.h.
 */
#include "base.h"

/* Copies n strings, each malloc'ed, into a NULL-terminated array. NULL when out of memory. */
char **strings_copy(const char *const *from, size_t n);
/* Returns NULL. */
char **strings_free(char **l);
DEFINE_CLEANUP(char **, strings_free)

/* Behind what stands in buf, with between in front of it where something does ("; "): what does not fit is
 * cut. */
_printf_(4, 5) void text_append(char *buf, size_t size, const char *between, const char *fmt, ...);
/* For what fails with a reason: writes it, cut where it does not fit, and returns error. */
_printf_(4, 5) int text_fail(char *why, size_t size, int error, const char *fmt, ...);

/* Puts value for each word in text ("tpuctl logs NAME"), a buffer of size bytes; what does not fit is
 * cut. */
void placeholder_fill(char *text, size_t size, const char *word, const char *value);

/* Takes the next range of a list as the kernel prints it, "0-3,8". 1: it is there; 0: the list is over, or
 * its line; -EBADMSG: something else stands there. */
int range_next(const char **list, uint64_t *ret_first, uint64_t *ret_last);

/* A MAC address as text, "02:00:00:00:00:0a", and back, from either case; false: text is something else. */
#define MAC_TEXT_MAX 18
const char *mac_text(const uint8_t mac[static 6], char buf[static MAC_TEXT_MAX]);
bool mac_parse(const char *text, uint8_t ret[static 6]);

/* A name of docs/registry.md: 1…63 of [A-Za-z0-9._-], the first a letter or digit. */
bool name_is_for_registry(const char *name);

/* The values of such variables are never shown: SECRET, TOKEN, PASSW or CREDENTIAL in it, or KEY at its end,
 * in any case. */
bool name_is_secret(const char *name, size_t len);

/* Bytes as hexadecimal digits, in lower case: malloc'ed; NULL: out of memory. */
char *hex_encode(const void *data, size_t len);
