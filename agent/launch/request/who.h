/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who asks, and as which user a run is to run: what the user database says. It may be far away, and its
 * modules are others' code: it is asked in a process of its own (questions.h), which has no capabilities.
 * Nor has the process that looks at the paths of a run: it is the run's user, and sees what that user sees.
 */
#include "authority.h"

#define WHO_GROUPS_MAX 256

/* The user of a run. Fixed in size: it comes back from the process as it is. */
struct target {
        int error; /* of getpwnam_r(3), which has several words for "there is none"; 0: see found */
        bool found;
        uid_t uid;
        gid_t gid, groups[WHO_GROUPS_MAX];
        size_t n_groups;
        char name[256], home[4096];
};

struct who {
        struct caller caller;
        struct target target; /* of a start */
};

struct who_asked {
        const struct host *host;
        const char *config;
        enum action action;
        uid_t uid;
        gid_t groups[WHO_GROUPS_MAX]; /* the caller's: its own, and those of its process */
        size_t n_groups;
        pid_t pid;
        const char *user; /* NULL: no run is meant; "": the caller's own */
};

/* For struct child_work: writes a struct who. data: struct who_asked. */
int who_look(int fd, const void *data);
/* What it wrote; -EBADMSG. */
int who_take(const char *answer, size_t len, struct who *ret);
/* The process becomes this user for good, without capabilities. One that is not root's stays as it is. */
int who_become(const struct target *t);
