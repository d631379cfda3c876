/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The runtime directory /run/tpu-netcfg, shared by the daemon and the one-shots:
 *   lock       held while one of them reads, plans and writes, so that two never interleave
 *   originals  the values before our first write of this boot (originals.h): saved durably before the write,
 *              kept over restarts, forgotten by a new boot id or after --restore, which keeps those of NICs
 *              that are away
 *   netns-…    the same for a container's network namespace (netns.h), of which there is no daemon
 *   restored   exists after --restore: the daemon then only observes, over its own restarts, too, until
 *              --once takes the file away or the host boots anew
 *   observe    the order to observe (observe.h) for this boot, where /var/lib/tpu-netcfg/observe, which is
 *              for the next boot, too, cannot be written
 */
#include "host.h"
#include "observe.h"
#include "originals.h"
#include "state_file.h"

/* Opens a directory below the root; when it is missing and make, it is made (0755) first. -ENOENT. */
int runtime_open_directory(const struct host *h, const char *path, bool make);
/* Opens the directory, path being it or one right inside it; what is missing is made (0755). Returns a
 * descriptor or -errno; a symlink inside it is not followed (-ENOTDIR). */
int runtime_open(const struct host *h, const char *path);
/* Takes the lock, waiting at most wait. Returns a descriptor that holds it until closed, -EAGAIN when others
 * hold it, or -errno. */
int runtime_lock(int dir_fd, usec_t wait);

bool runtime_is_restored(int dir_fd);
int runtime_set_restored(int dir_fd, bool restored);

/* No file, or one of another boot, is an empty list; one of another version is set aside with a warning, and
 * an empty list, too. -EBADMSG with why: the file is damaged, stays, and is not ours to guess at. */
int runtime_load_originals(int dir_fd, const char *boot_id, struct originals *ret,
                           char why[static STATE_FILE_WHY_MAX]);
int runtime_save_originals(int dir_fd, const char *boot_id, const struct originals *o);
int runtime_forget_originals(int dir_fd);

/*
 * The order to observe (observe.h), as it is kept: the first of both files that is there; none:
 * OBSERVE_NULL. One of another boot is taken over into this one (boot_id), and kept so. A file that is
 * damaged is said in a warning, and counts as an order of another boot without an end; one that cannot be
 * read likewise, but only in ret: nothing is kept of it.
 */
void observe_file_load(const struct host *h, int runtime_fd, const char *boot_id, struct observe *ret);
/* Keeps it, or that there is none. Returns 0 when a restart will know it; what a boot will forget is said in
 * a warning. */
int observe_file_save(const struct host *h, int runtime_fd, const struct observe *o);
