/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What "tpuctl run" is to start, by flags or by a file that says the same: section [Job], the flags' names
 * as keys (Name=, Framework=, Malloc=, User=, Directory=, Env= many times, Slices=, On=, Restarts=, Grace=,
 * Wait=, Late=, Port=, Preempt=, Memlock=, Nofile=, Memory=, MemoryTotal=, MemoryHigh=, Cpus=, Numa=, Core=,
 * Devices=, LastCall=, ShrinkAfter=, GrowAfter=), and Command=: words with blanks between, "…" and '…'
 * around those that hold some; Argument= many times: one more word each, as it is. A line holds 190 bytes.
 * What a flag says stands before what the file says; a command of the command line stands for the file's.
 */
#include <jansson.h>

#include "base.h"

#define RUN_SPEC_ENV_MAX 1024
#define RUN_SPEC_ARGV_MAX 1024
#define RUN_SPEC_WHY_MAX 256

struct run_spec {
        /* Texts as they were given; NULL: not given. All borrowed, from the command line or from pool. */
        const char *name, *framework, *malloc, *user, *directory, *slices, *on, *restarts, *grace, *wait,
                *late, *port, *preempt, *memlock, *nofile, *memory, *memory_total, *memory_high, *cpus,
                *numa, *core, *devices, *last_call, *shrink_after, *grow_after;
        const char *env[RUN_SPEC_ENV_MAX], *argv[RUN_SPEC_ARGV_MAX];
        size_t n_env, n_argv;
        char **pool; /* texts of the file */
        size_t n_pool;
};
void run_spec_clear(struct run_spec *s);
#define _cleanup_run_spec_ _cleanup_(run_spec_clear)

/* Fills in what is not given yet. -errno and why: the file cannot be read, or which line is wrong. */
int run_spec_read(struct run_spec *s, const char *path, char why[static RUN_SPEC_WHY_MAX]);
int run_spec_parse(struct run_spec *s, const char *path, const char *text, size_t len,
                   char why[static RUN_SPEC_WHY_MAX]);

/* Whether it is for slices, by intent, and not for this host alone. */
bool run_spec_is_fleet(const struct run_spec *s);

struct run_numbers {
        unsigned min, max, restarts;
        uint16_t port;      /* 0: the framework's */
        usec_t grace, wait, last_call, shrink_after, grow_after; /* USEC_INFINITY: not given */
        uint64_t memlock, nofile, memory, memory_total, memory_high; /* 0: not given; UINT64_MAX: no limit */
};
/* Reads and bounds what are numbers and words of a kind. -EINVAL with why, naming the flag. */
int run_spec_numbers(const struct run_spec *s, struct run_numbers *ret, char why[static RUN_SPEC_WHY_MAX]);

/* The intent of docs/registry.md, without serial, by and at, which who takes it sets. user: whom it is
 * started as. */
int run_spec_intent(const struct run_spec *s, const char *user, json_t **ret,
                    char why[static RUN_SPEC_WHY_MAX]);
