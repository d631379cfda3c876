/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The last good answers of the metadata server on disk, for a boot at which it is away:
 * the state file (state_file.h) /var/lib/tpu-hostd/metadata.json, mode 0600:
 *
 *   {"boot_id": "…", "taken_usec": 1700000000000000, "machine_type": "…", "name": "…",
 *    "nics": [{"mac": "42:01:0a:80:00:02", "mtu": 8896, "ip": "10.128.0.2"}],
 *    "said": {"instance/attributes/tpu-env": {"worker-id": "0", …}, …}}
 */
#include "file_writer.h"
#include "host.h"
#include "metadata_facts.h"

extern const struct state_format metadata_copy_file; /* for a file_writer */

struct metadata_copy {
        struct metadata_facts facts;
        char boot_id[BOOT_ID_MAX]; /* of the boot that it was taken in */
        usec_t taken; /* real clock */
};

/* malloc'ed text, or NULL when out of memory. */
char *metadata_copy_format(const struct metadata_copy *c);
/* -EBADMSG with why: not a copy. Its facts are to be cleared. */
int metadata_copy_parse(const char *text, size_t len, struct metadata_copy *ret,
                        char why[static METADATA_WHY_MAX]);
/* Reads one through the seam. -ENOENT: there is none; -EACCES; -E2BIG; -EBADMSG,
 * -EPROTONOSUPPORT; with why. Only looks: who reads it may be anybody, and the next copy takes its place. */
int metadata_copy_read(const struct host *h, const char *path, struct metadata_copy *ret,
                       char why[static METADATA_WHY_MAX]);
/* Whether it is of this machine: one of its NICs has an address that the copy names. An image or a clone
 * brings the copy of another machine along, and only the server could say so. */
bool metadata_copy_is_ours(const struct host *h, const struct metadata_copy *c);
#define METADATA_COPY_OTHERS "it names none of this host's NICs by its MAC: it is of another machine"
/* "metadata, last good of 2026-11-21T05:00:00.123Z" */
#define METADATA_ORIGIN_MAX 64
const char *metadata_copy_origin(const struct metadata_copy *c, char buf[static METADATA_ORIGIN_MAX]);

/* Writes one by w. -ENOMEM, or -errno when no child could be made. */
int metadata_copy_put(struct file_writer *w, const struct metadata_copy *c);
