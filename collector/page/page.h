/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The page that people look at: the files of one directory, read once, packed once, and sent as they are. A
 * file that is not there when the program starts is not served, and no name reaches the file system later.
 *
 * Each answer forbids the browser whatever the page does not need: scripts and styles of its own origin
 * alone, no requests elsewhere, no frames, and no text that becomes markup (Trusted Types).
 */
#include "http_server.h"

#define PAGE_FILES_MAX 32u
#define PAGE_FILE_MAX  ((size_t) 512 * 1024) /* bytes of one */
#define PAGE_NAME_MAX  64u
#define PAGE_INDEX "index.html"

struct page;
/*
 * The directory's files with a name of letters, digits, ".-_" and an end of .html, .css, .js or .svg.
 * -ENOENT: there is no such directory, or no PAGE_INDEX in it. -E2BIG: more than it may hold. -ENOMEM, or
 * what reading says.
 */
int page_new(const char *directory, struct page **ret);
struct page *page_free(struct page *p);
DEFINE_CLEANUP(struct page *, page_free)

/* The file of that name, or 304 where the caller has it. False: there is none, and reply is untouched. p
 * outlives the reply. */
bool page_reply(const struct page *p, const char *name, const struct http_request *q,
                struct http_reply *reply);
