/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Saved captures as a scene: what 'tpu-stack --json', 'tpu-stack' and 'tpuctl stack [--json]' print,
 * captures with their host around them (docs/diagnose.md), and captures as they go over the wire. A file may
 * hold many, one object a line or in a list; a folder stands for the files in it. A capture that does not
 * say of which host it is belongs to the host that the file is named after; the second one of such a file is
 * the second of the round.
 */
#include "problem.h"
#include "scene.h"

/* Adds what path holds. On failure the problem names the file, and the capture in it. -errno. */
int capture_files_load(const char *path, struct scene *s, struct problem *problem);

/* A capture as the APIs send it: hexadecimal of proto/capture.proto, also as gzip. */

/*
 * Adds it to s. who: slice, host, address, worker and round, which count whatever the bytes say; its address
 * only where it has one. 1: added; 0: it cannot be read, which is said on standard error; -ENOMEM, -E2BIG.
 */
int capture_hex_add(struct scene *s, const char *hex, const struct host_capture *who);
