/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Native frames out of copied registers and stacks, by elfutils' libdw (loaded when it is needed: most
 * captures do without). The unwind tables and symbols are those of the files that are mapped; no separate
 * debug files are looked for, and nothing is fetched. A frame in a file without tables, or in no file, ends
 * the stack.
 */
#include "memory.h"
#include "process.h"
#include "seize.h"

#define NATIVE_FRAMES_MAX 4096u /* of one thread */
#define NATIVE_BUILD_ID_MAX 41  /* as text; longer ones are cut */

struct native_module {
        char *name;                         /* path as the process sees it */
        char build_id[NATIVE_BUILD_ID_MAX]; /* hexadecimal; empty: none */
        uint64_t start;                     /* of its lowest mapping */
        uint64_t begin;                     /* of it as libdw knows it */
        int fd;                             /* its file, until it is looked into; -1 */
        bool used;                          /* some frame is in it */
};

struct native_frame {
        uint64_t pc;
        uint64_t sp; /* its part of the stack is from here to the sp of the next one; 0: not known */
        const struct native_symbol *symbol; /* owned by the unwinder; never NULL */
};

/* name, offset and evaluates: after unwinder_name(). */
struct native_symbol {
        struct native_symbol *next; /* in its bucket */
        struct native_symbol *next_unnamed;
        uint64_t pc;
        char *name;                         /* NULL: unknown */
        uint64_t offset;                    /* of pc from its start */
        struct native_module *module;       /* NULL: in no file */
        bool evaluates;                     /* the function that runs Python frames */
};

struct unwinder;

/* m: the process's memory, borrowed. -ENOPKG: libdw is not installed; -EBADMSG: it cannot read the
 * files; -errno of reading maps; -ENOMEM. */
int unwinder_new(const struct process *p, struct memory *m, struct unwinder **ret);
struct unwinder *unwinder_free(struct unwinder *u);

/* Gives names to the symbols of all frames so far. -ENOMEM. */
int unwinder_name(struct unwinder *u);

/* The files that frames are in. Returns what visit returned when not 0. */
int unwinder_modules(const struct unwinder *u, int (*visit)(const struct native_module *m, void *userdata),
                     void *userdata);

/*
 * The frames, innermost first; *ret_cut: the outermost ones are missing. live: what lies above the copy may
 * be read from the memory, for the thread does not run. -EBADMSG: not one frame. Free *ret.
 */
int unwinder_frames(struct unwinder *u, const struct seized *s, bool live, struct native_frame **ret,
                    size_t *ret_n, bool *ret_cut);
