/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Where in a process a CPython interpreter is, and which version. The file that holds it (the program itself
 * or a libpython) is found in the memory map, opened by the mapping itself where permitted
 * (/proc/PID/map_files, then /proc/PID/exe: true for deleted files and across mount namespaces), else by its
 * path below the process's own root; it counts only when its first bytes are those that are mapped.
 */
#include "code.h"
#include "layout.h"
#include "memory.h"
#include "process.h"

#define REASON_MAX 256

struct interpreter {
        const struct python_layout *layout;
        struct python_layout
                described;    /* what layout points to when the interpreter said some of it itself */
        uint64_t runtime;     /* address of _PyRuntime */
        uint64_t version_at;  /* address of Py_Version, to 3.10 of a text that begins with the version */
        uint64_t version_raw; /* the first eight bytes there */
        uint64_t version;     /* 0x030B02F0 for 3.11.2 */
        struct python_types types;
};

/*
 * Returns 0, or -errno with why in words ("no CPython interpreter in its memory map"): -ENOENT no
 * interpreter, -EOPNOTSUPP an interpreter of a version without a layout, -EPERM or -EACCES not permitted,
 * -ESRCH gone.
 */
int interpreter_find(const struct process *p, struct memory *m, struct interpreter *ret,
                     char why[static REASON_MAX]);

/* The words for an error of reading the process or its memory. Returns error. */
int interpreter_reason(const struct process *p, int error, char why[static REASON_MAX]);

/* "3.11.2", "3.13.0rc1". */
#define PYTHON_VERSION_MAX 32
const char *python_version_text(uint64_t version, char buf[static PYTHON_VERSION_MAX]);

/*
 * The version of a CPython before 3.11, which has no Py_Version: found in the text that sys.version is made
 * of ("3.10.13 (main, …"; Py_GetVersion() of CPython's Python/getversion.c writes it at start), somewhere in
 * the data of the file.
 */
#define VERSION_DATA_MAX (16u * 1024 * 1024) /* data that is searched */

/*
 * "3.10.13 (": true and the number as Py_Version has it (0x030A0DF0). Candidates ("3.9.0rc1 (") and a "+"
 * are understood.
 */
bool version_parse(const char *text, size_t len, uint64_t *ret);
