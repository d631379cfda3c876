/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A capture as the APIs send it: hexadecimal of proto/capture.proto, also as gzip. */
#include "scene.h"

/*
 * Adds it to s. who: slice, host, address, worker and round, which count whatever the bytes say; its address
 * only where it has one. 1: added; 0: it cannot be read, which is said on standard error; -ENOMEM, -E2BIG.
 */
int capture_hex_add(struct scene *s, const char *hex, const struct host_capture *who);
