/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A core file (core(5), Linux's fs/binfmt_elf.c) as what remains of a process: its memory, its file
 * mappings, and the registers of its threads. What was not dumped of a mapped file is read from the file
 * that NT_FILE names, when that begins with what the core has of it. The core and the names in it are
 * foreign input: everything is bounded, and nothing is mapped. It is read by a process without capabilities.
 */
#include <sys/types.h>
#include <sys/user.h>

#include "host.h"
#include "mapped_file.h"
#include "memory.h"

#define CORE_NOTES_MAX (64u * 1024 * 1024)
#define CORE_FILES_OPEN_MAX 768u /* of those that NT_FILE names */
#define CORE_WHY_MAX 160

struct core_thread {
        pid_t tid; /* as the process numbers it */
        struct user_regs_struct registers;
};

struct core_file;
/*
 * fd is taken over, also on failure; h is borrowed. -ENOEXEC: no core of an x86-64 process, or a compressed
 * one; -EBADMSG: its parts make no sense; -E2BIG; -ENOMEM; all with why.
 */
int core_file_new(const struct host *h, int fd, struct core_file **ret, char why[static CORE_WHY_MAX]);
struct core_file *core_file_free(struct core_file *c);
DEFINE_CLEANUP(struct core_file *, core_file_free)

/* Its memory, as memory_source_process() has that of a process. */
struct memory_source core_file_source(struct core_file *c);
/* As maps_read(). */
int core_file_maps(const struct core_file *c, int (*visit)(const struct mapping *m, void *userdata),
                   void *userdata, bool *ret_empty);
/* As mapped_file_open(), of what is mapped there. */
int core_file_open_mapped(struct core_file *c, uint64_t start);

pid_t core_file_pid(const struct core_file *c);
int core_file_signal(const struct core_file *c); /* that ended it; 0: not known */
const char *core_file_command(const struct core_file *c);
/* In the order of the core: the one that crashed comes first. */
const struct core_thread *core_file_threads(const struct core_file *c, size_t *ret_n);
