/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The file mappings of another process: /proc/PID/maps, whose text is foreign input (the process chooses
 * file names and how many mappings there are), and the file behind a mapping, opened by the mapping itself
 * where permitted
 * (/proc/PID/map_files, then /proc/PID/exe: true for deleted files and across mount namespaces), else by its
 * path below the process's own root. It counts only when its first bytes are those that are mapped.
 */
#include "memory.h"
#include "process.h"

#define MAPS_PATH_MAX 4096
#define MAPS_BYTES_MAX (64u * 1024 * 1024) /* of one maps file */

struct mapping {
        uint64_t start, end, offset, inode;
        uint32_t device; /* major << 20 | minor */
        bool executable, shared;
        bool deleted;             /* the path ended in " (deleted)", which is taken off */
        /* as the kernel shows it, in the mount namespace of the process; empty: no file */
        char path[MAPS_PATH_MAX];
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

/* The same of a process. -ESRCH: it is gone. */
int maps_visit(const struct process *p, int (*visit)(const struct mapping *m, void *userdata),
               void *userdata, bool *ret_empty);

/* An open descriptor of the file whose start is mapped by map; -ESTALE: another file is there now; else
 * -errno. */
int mapped_file_open(const struct process *p, struct memory *m, const struct mapping *map);

/* The path of the program as maps shows it, without " (deleted)"; empty when it may not be known. */
void mapped_file_program(const struct process *p, char *buf, size_t size);
