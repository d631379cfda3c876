/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whose the state is that a program keeps on the disk. An image, a clone or a restored disk brings the state
 * of another machine along: its records, its orders, its runs. Beside the state lies the state file
 * (state_file.h) "machine", mode 0600, which names the machine that it belongs to:
 *
 *   {"machine_id": "…", "instance_id": "4711", "boot_id": "…", "host": "tpu-a-0",
 *    "found_boot_id": "…", "found_instance_id": "4712"}
 *
 * In the boot in which it was found to be this machine's it stays so. In a later boot the instance ids
 * decide where both are known: a new machine id on the same instance changes nothing. Else the machine ids
 * decide, once it is certain that no instance id comes. What is not known is no difference. The last two
 * members are what a process learned too late: who starts next in that boot knows it from its start.
 *
 * State of another machine is renamed and kept: NAME.other-machine, NAME.other-machine-2, … A directory that
 * cannot be renamed (a mount point) keeps it inside: NAME/other-machine, NAME/other-machine-2, …
 */
#include "host.h"

#define MACHINE_STATE_NAME "machine"
#define MACHINE_STATE_MAX 4096 /* bytes of the file */

struct machine_ids { /* empty: not known */
        char machine[40]; /* /etc/machine-id */
        char instance[24]; /* of Compute Engine, decimal */
        char boot[BOOT_ID_MAX];
        char host[HOST_NAME_SIZE]; /* for people */
};

struct machine_state {
        struct machine_ids of; /* whose it is; boot: in which that was found */
        char found_boot[BOOT_ID_MAX], found_instance[24];
};

enum machine_whose {
        MACHINE_OURS,
        MACHINE_OPEN, /* the instance id, which is not known yet, decides */
        MACHINE_OTHERS,
};

/* Pure. certain: an instance id that is not known now stays so. */
enum machine_whose machine_state_judge(const struct machine_ids *of, const struct machine_ids *now,
                                       bool certain);

/* The content of the file. -EBADMSG: nobody of us wrote it. */
int machine_state_parse(const char *text, size_t len, struct machine_state *ret);
/* path: of the file. -ENOENT also of one that cannot be used, which is set aside; -errno. */
int machine_state_read(const char *path, struct machine_state *ret);
/* Durable when it returns. */
int machine_state_write(const char *path, const struct machine_state *s);

/*
 * Renames a file or directory to the first of the names above that is free; what is not there is passed
 * over, and *ret is empty then. -EEXIST: none is free; -ENAMETOOLONG, -errno.
 */
#define MACHINE_ASIDE "other-machine"
#define MACHINE_ASIDE_BESIDE 9
#define MACHINE_ASIDE_MOST (2 * MACHINE_ASIDE_BESIDE) /* the second half is inside */
#define MACHINE_PATH_MAX 320
int machine_state_set_aside(const char *path, char ret[static MACHINE_PATH_MAX]);
/* What a path is called the nth time, from 1. -ENAMETOOLONG. */
int machine_state_aside_name(const char *path, unsigned n, char ret[static MACHINE_PATH_MAX]);

/* Removes a file, or a directory with all in it, and follows no link. 0 also where there is none; -errno: of
 * the first that stays. */
int machine_state_remove(const char *path);
/* The same of what is in an open directory. Takes fd over. */
int machine_state_empty(int fd);
