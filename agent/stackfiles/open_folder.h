/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Opens a folder that others may have put there, without following a symbolic link anywhere. */
#include <sys/types.h>

#include "host.h"

#define OPEN_FOLDER_PATH_MAX 256

/*
 * path: absolute, without "." and "..". Returns 0 with a descriptor to list and watch it; -ENOENT: it is not
 * there, with one of the deepest part that is, and the name that is missing in it (of size bytes); else
 * -errno: -ELOOP, -ENOTDIR: a part is a link or no folder.
 */
int open_folder(const struct host *h, const char *path, int *ret_fd, char *ret_missing, size_t size);
/*
 * Whether the kernel serves this folder's file system itself (mountinfo of proc(5)): not a server, not a
 * program. Asks nobody who could hang. True where that cannot be known.
 */
bool folder_is_local(const struct host *h, const char *path);
