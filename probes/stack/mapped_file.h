/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The file behind a mapping of another process, opened by the mapping itself where permitted
 * (/proc/PID/map_files, then /proc/PID/exe: true for deleted files and across mount namespaces), else by its
 * path below the process's own root. It counts only when its first bytes are those that are mapped.
 */
#include "maps.h"
#include "memory.h"
#include "process.h"

/* An open descriptor of the file whose start is mapped by map; -ESTALE: another file is there now; else
 * -errno. */
int mapped_file_open(const struct process *p, struct memory *m, const struct mapping *map);

/* The path of the program as maps shows it, without " (deleted)"; empty when it may not be known. */
void mapped_file_program(const struct process *p, char *buf, size_t size);
