/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which files of a folder are followed, where there are more than that. Pure. Inside this room only. */
#include <sys/types.h>

#include "base.h"

#define STACK_FILES_MAX 64  /* that are followed: those changed last, of each user as many */
#define STACK_NAME_SIZE 128 /* of a file; longer ones are not followed */

struct stack_file {
        char name[STACK_NAME_SIZE];
        dev_t dev;
        ino_t ino;
        off_t at;   /* what was dealt with */
        off_t size; /* as of the last look */
        uid_t owner;
        usec_t written, dated; /* dated: as the file says */
        const char *refused;   /* why, as it was reported; NULL: it is taken */
        bool there;            /* at this look */
};

struct stack_places {
        struct stack_file files[STACK_FILES_MAX];
        size_t n;
};

/*
 * The place of a file. A new one takes that of another if all are taken: of the user who has the most, the
 * one written longest ago, unless the new one is older and its user has as many. NULL: there is none for it.
 */
struct stack_file *stack_place_of(struct stack_places *p, const char *name, uid_t owner, usec_t written);
