/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Captures (proto/capture.proto) as a scene: out of files as tpu-stack --capture writes and agents keep
 * them, and out of answers. A file may hold several, one behind the other; a folder stands for the files in
 * it. A capture that does not say of which host it is belongs to the host that the file is named after; the
 * second one of such a file is the second of the round.
 */
#include <jansson.h>

#include "problem.h"
#include "evidence.h"

/* Adds what path holds. On failure the problem names the file, and the capture in it. -errno. */
int capture_files_load(const char *path, struct scene *s, struct problem *problem);
/* A whole file, malloc'ed. -errno with the problem set. */
int capture_file_read(const char *path, int fd, char **ret, size_t *ret_len, struct problem *problem);

/* Who it is of, as the APIs say: slice (NULL: its own word), host, worker, address (a text or a list).
 * Empties the rest of c. */
void capture_who(struct host_capture *c, const json_t *v, const char *slice);

/*
 * Adds the captures of an answer to s. who: slice, host, address, worker and round, which count whatever the
 * answer says; NULL: it says so itself. One that cannot be read is left out, which is said on standard
 * error. Returns how many were added, or -ENOMEM, -E2BIG, -EPROTO: it is no such answer. ret_next: where the
 * next answer begins; 0: there is none.
 */
int captures_add(struct scene *s, const json_t *answer, const struct host_capture *who, uint64_t *ret_next);
