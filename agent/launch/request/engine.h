/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A run in a container: the command line of the engine that makes it. Pure.
 *
 * The engine's client runs as root in the run's unit, so its command line is ours from end to end: a user
 * gives an image's name, of which only the id comes here, a directory, and the words behind the image, which
 * are the container's own. No option is passed through. The container runs as the run's user and groups,
 * without capabilities and without new privileges; it sees the nodes that the run may open, what the site
 * mounts (authority.h), and the host's network.
 *
 * podman: --cgroups=split keeps the container in the run's unit, so that what ends the unit ends it.
 * docker: its daemon makes the container; --cgroup-parent= puts it into the run's slice.
 * What it prints comes by the client's own output: --log-driver=none keeps no second copy.
 */
#include <sys/types.h>

#include "base.h"

#define ENGINE_ID_SIZE 65 /* of an image: 64 hexadecimal digits and NUL */

enum engine {
        ENGINE_PODMAN,
        ENGINE_DOCKER,
        _ENGINE_MAX,
};
/* "podman", "docker"; -EINVAL. */
int engine_parse(const char *name, enum engine *ret);
const char *engine_name(enum engine e);
/* Where Debian's and Ubuntu's packages have it. */
const char *engine_program(enum engine e);

/* Whether these are the 64 digits of an image. */
bool engine_id_is_valid(const char *id);

/*
 * A directory that the site mounts into containers, at the same place: "/data", "/data:ro". Absolute, of
 * letters that no engine reads as anything else, without "..", and not the root.
 */
#define ENGINE_MOUNTS_MAX 16
#define ENGINE_MOUNT_MAX 128
bool engine_mount_is_valid(const char *text);

struct engine_run {
        enum engine engine;
        const char *image;     /* its id */
        const char *name;      /* of the run */
        const char *slice;     /* of its unit */
        const char *variables; /* the file of its variables: one KEY=VALUE a line */
        const char *directory; /* inside; empty: the image's own */
        uid_t uid;
        gid_t gid;
        const gid_t *groups;
        size_t n_groups;
        char *const *devices; /* NULL-terminated; names of drivers are no nodes, and left out; so is fuse */
        char *const *mounts;  /* NULL-terminated, or NULL */
        uint64_t shm;         /* bytes that its /dev/shm may hold */
        uint64_t memlock, nofile;
        char *const *argv; /* the command */
};
/* NULL-terminated, for strings_free(). -ENOMEM; -EINVAL: an id or a mount that is none. */
int engine_argv(const struct engine_run *r, char ***ret);
