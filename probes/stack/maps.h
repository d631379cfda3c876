/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * /proc/PID/maps: the file mappings. The text is foreign input: the process chooses file names and how many
 * mappings there are. Pure but for maps_read().
 */
#include "base.h"

#define MAPS_PATH_MAX 4096
#define MAPS_BYTES_MAX (64u * 1024 * 1024) /* of one maps file */

struct mapping {
        uint64_t start, end, offset, inode;
        bool executable;
        bool deleted;             /* the path ended in " (deleted)", which is taken off */
        char path[MAPS_PATH_MAX]; /* as the kernel shows it, in the mount namespace of the process; empty: no
                                     file */
};

/* Parses one line without its newline. -EBADMSG. */
int maps_parse_line(const char *line, size_t len, struct mapping *ret);

/*
 * Calls visit for every file mapping, in order of address. Lines that cannot be parsed are skipped. Stops at
 * visit's first non-zero return and returns it; -E2BIG past MAPS_BYTES_MAX, or -errno of read(2).
 * *ret_empty: there was no line at all.
 */
int maps_read(int fd, int (*visit)(const struct mapping *m, void *userdata), void *userdata,
              bool *ret_empty);
