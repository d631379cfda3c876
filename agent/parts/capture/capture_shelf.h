/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The last captures of this host, in a directory of its own (mode 0700), for diagnosis without any
 * collector: files TIME-ROUND-EPISODE.capture, each proto/capture.proto. Written without waiting for the
 * disk: the spool's record is the one that survives a power cut.
 */
#include "base.h"

#define SHELF_KEPT     8
#define SHELF_NAME_MAX 128

/* Puts one there, and removes the oldest beyond SHELF_KEPT. episode: of the registry, checked here.
 * ret_name: what it is called, also when it could not be written. -errno. */
int capture_shelf_put(const char *directory, usec_t taken, unsigned round, const char *episode,
                      const void *data, size_t len, char ret_name[static SHELF_NAME_MAX]);
/* The parts of a name. -EINVAL. */
int capture_shelf_parse(const char *name, usec_t *ret_taken, unsigned *ret_round,
                        char ret_episode[static 64]);

/*
 * Calls visit with the name of each, the oldest first, until it says false. 0 where there is no directory.
 */
int capture_shelf_visit(const char *directory, bool (*visit)(const char *name, void *userdata),
                        void *userdata);

/* Whether one of this episode is there. */
bool capture_shelf_has(const char *directory, const char *episode);

/* The whole file; *ret is malloc'ed. -E2BIG above max. */
int capture_shelf_read(const char *directory, const char *name, size_t max, uint8_t **ret, size_t *ret_len);
