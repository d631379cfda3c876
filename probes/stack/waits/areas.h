/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Which files another process has mapped where, each in a few bytes (mapped_file.h reads the list). */
#include "mapped_file.h"

#define AREAS_MAX 100000u

struct area {
        uint64_t start, end, offset, inode;
        uint32_t device;
        bool shared, executable;
        char name[56]; /* without its directories, cut */
};
struct areas {
        struct area *items;
        size_t n, size;
};

/* -errno of reading; what is more than AREAS_MAX is left out. */
int areas_read(const struct process *p, struct areas *ret);
void areas_clear(struct areas *a);
/* NULL: there is no file. */
const struct area *areas_find(const struct areas *a, uint64_t address);
/* Where the file that is mapped at an area begins. */
uint64_t areas_start(const struct areas *a, const struct area *of);
