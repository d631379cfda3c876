/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Lists of the names that certificates have. A name is a URI of the certificate as it stands, or "dns:" and
 * one of its DNS names. A list is words with blanks between: a name, one with "*" at its end for any rest,
 * or the absolute path of a file. A file has one name a line, behind it a second word where the list is a
 * map; "#" begins a comment. Files are read again when they change; while one cannot be used, what it said
 * before stays in force. Small local files are read in the caller.
 */
#include "base.h"

#define NAME_LIST_FILES_MAX 4              /* of one list */
#define NAME_LIST_FILE_MAX  (64 * 1024 * 1024) /* bytes of one of them */
#define NAME_LIST_LINE_MAX  512
#define NAME_LIST_WHY_MAX   400

struct name_list;
/* words are copied; nothing is read yet. -E2BIG: too many files, or a path that is too long; -ENOMEM. */
int name_list_new(const char *words, struct name_list **ret);
/*
 * Words of two kinds, with blanks between: paths of files are the list's, each other one is take()'s, which
 * may keep it. words is cut into them. An error of take() ends it and is returned, with its why.
 */
int name_list_new_among(char *words,
                        int (*take)(void *userdata, char *word, char why[static NAME_LIST_WHY_MAX]),
                        void *userdata, struct name_list **ret, char why[static NAME_LIST_WHY_MAX]);
struct name_list *name_list_free(struct name_list *l);
DEFINE_CLEANUP(struct name_list *, name_list_free)

/* Reads the files that changed since the last look. True: one did, and what is in force is another, or why
 * says what is wrong with the file. */
bool name_list_look(struct name_list *l, char why[static NAME_LIST_WHY_MAX]);

/* What stands behind the name, "" where nothing does; NULL: the list does not name it. A list of NULL names
 * nobody. Borrowed until the next look. */
const char *name_list_find(const struct name_list *l, const char *name);
bool name_list_is_empty(const struct name_list *l);

/* Whether the words of a list name it. A list is of names with blanks between; "*" at the end of one stands
 * for any rest. Pure. */
bool tls_allows(const char *allow, const char *name);
/* Whether a name of size bytes out of a certificate can be a URI (RFC 3986: ASCII without blanks and
 * controls). Pure. */
bool tls_name_is_plain(const char *name, size_t size);
