/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The memory allocator of a run: tcmalloc by LD_PRELOAD, or glibc's own. Only the run gets it, never a
 * daemon.
 *
 * tcmalloc is what TPU VM images preload for every program; models with huge embedding allocations run
 * faster without it. A library that cannot be loaded would be ignored by ld.so with a line of noise per
 * process: it is looked at first.
 */
#include "environment.h"
#include "host.h"
#include "paths.h"

#define ALLOCATOR_LIBRARY PATH_TCMALLOC
/* Silences "tcmalloc: large alloc" lines below 100 GiB: the value that public TPU recipes set. */
#define ALLOCATOR_REPORT_THRESHOLD "107374182400"

enum allocator {
        /* tcmalloc where it can be loaded, else glibc; a user's own LD_PRELOAD is left alone */
        ALLOCATOR_AUTO,
        ALLOCATOR_TCMALLOC, /* tcmalloc */
        ALLOCATOR_GLIBC,
        _ALLOCATOR_MAX,
};
/* "auto", "tcmalloc", "glibc"; the empty text is auto. -EINVAL. */
int allocator_parse(const char *name, enum allocator *ret);

#define ALLOCATOR_NOTE_MAX 192

/*
 * What is added to the run's variables. preload and threshold are "KEY=VALUE", "KEY" for one that must not
 * be inherited, or NULL for no change; a preload replaces the user's LD_PRELOAD, of which nothing but
 * tcmalloc is ever taken away.
 */
struct allocator_choice {
        char *preload, *threshold;
        char *conflict; /* NULL, or what of the user's was changed or prevented it */
        char note[ALLOCATOR_NOTE_MAX]; /* what it became, and why */
};

/*
 * user: the run's variables so far. Returns 0; -ENOENT or -ENOEXEC when tcmalloc was asked for by name and
 * cannot be loaded (why in note); -ENOMEM.
 */
int allocator_choose(const struct host *h, enum allocator wanted, const struct environment *user,
                     struct allocator_choice *ret);
void allocator_choice_clear(struct allocator_choice *c);
#define _cleanup_allocator_choice_ _cleanup_(allocator_choice_clear)
