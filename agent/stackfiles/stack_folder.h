/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Watches a folder that anybody may write to for files with stacks (stack_text.h), by inotify, and hands
 * over each snapshot that was not seen before. The folder and its files are taken for hostile:
 *
 * - no part of the path is followed if it is a symbolic link; the folder is no file system of a server or of
 * a user's program (FUSE), which could hang us;
 * - a file is taken when it is a regular file with one name (no other file can be shown by a link to it),
 * belongs to whom the caller accepts, and is at most STACK_FILE_BYTES_MAX long; pipes, sockets and devices
 * are never opened for reading;
 * - of a file only lines of faulthandler are taken; what is read and reported in a look is bounded;
 * - no user keeps another's files out: not by many, not by large ones, not by dates in the future.
 *
 * A file is read on from where it was read last; one that was cut or replaced, from its start. The first
 * change after silence is looked at some time (settle) later, so that a dump is whole; after a look nothing
 * is listened to until the next stack_folder_tick(): a folder that changes all the time costs two wakeups a
 * tick.
 */
#include <sys/types.h>
#include <systemd/sd-event.h>

#include "host.h"
#include "stack_budget.h"
#include "stack_text.h"

#define STACK_FILE_BYTES_MAX (16 * 1024 * 1024)
#define STACK_LOOK_BYTES_MAX (1024 * 1024)       /* read in one look; the rest in the next */
#define STACK_SETTLE (2 * USEC_PER_SEC)          /* for stack_folder_new() */
#define STACK_AGE_MAX (24 * 3600 * USEC_PER_SEC) /* what was written before is nobody's news */

struct stack_source {
        const char *path; /* folder and name, as a person would type it */
        uid_t owner;
        usec_t written_real;
};

struct stack_folder_handlers {
        /* Whether files of this user are taken. folder_owner: whose the folder is. */
        bool (*accepts)(uid_t owner, uid_t folder_owner, void *userdata);
        /* A snapshot that is new. */
        void (*snapshot)(const struct stack_text *t, const struct stack_source *s, void *userdata);
        /* Something is not taken: said once a path and reason, as long as it is so. */
        void (*refused)(const char *path, const char *why, void *userdata);
};

struct stack_folder_stats {
        uint64_t snapshots, repeated, passed_over;
};

struct stack_folder;
/*
 * pattern: "/tmp/debugging/stack_trace_*.txt": an absolute folder and what its files are called
 * (fnmatch(3)). seen and h are borrowed, the rest is copied. -EINVAL: no such pattern. A folder that is not
 * there is waited for.
 */
int stack_folder_new(sd_event *e, const struct host *h, const char *pattern, usec_t settle,
                     struct stack_seen *seen, const struct stack_folder_handlers *handlers, void *userdata,
                     struct stack_folder **ret);
struct stack_folder *stack_folder_free(struct stack_folder *f);
DEFINE_CLEANUP(struct stack_folder *, stack_folder_free)

/* Listens again. */
void stack_folder_tick(struct stack_folder *f);
const struct stack_folder_stats *stack_folder_stats(const struct stack_folder *f);
