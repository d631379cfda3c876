/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runtime directory /run/tpu-netcfg, shared by the daemon and the one-shots:
 *   lock       held while one of them reads, plans and writes, so that two never interleave
 *   originals  see originals.h
 *   netns-…    the same for a container's network namespace (netns.h), of which there is no daemon
 *   restored   exists after --restore: the daemon then only observes, over its own restarts, too, until
 *              --once takes the file away or the host boots anew
 *   observe    see observe_file.h
 */
#include "host.h"

/* Opens the directory, path being it or one right inside it; what is missing is made (0755). Returns a
 * descriptor or -errno; a symlink inside it is not followed (-ENOTDIR). */
int runtime_open(const struct host *h, const char *path);
/* Takes the lock, waiting at most wait. Returns a descriptor that holds it until closed, -EAGAIN when others
 * hold it, or -errno. */
int runtime_lock(int dir_fd, usec_t wait);

bool runtime_is_restored(int dir_fd);
int runtime_set_restored(int dir_fd, bool restored);
