/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A host's capture on the wire: proto/capture.proto. */
#include "host_capture.h"

#define CAPTURE_WIRE_VERSION 1u
#define CAPTURE_WIRE_MAX (4u * 1024 * 1024) /* bytes of one capture */

/* The table holds what the capture's numbers name, and nothing else: all of it is sent. *ret is the caller's
 * to free. -E2BIG: more than CAPTURE_WIRE_MAX; -ENOMEM. */
int capture_wire_pack(const struct host_capture *c, const struct stack_table *t, uint8_t **ret,
                      size_t *ret_len);

/*
 * The bytes may be packed (gzip). Fills c and t (which the caller clears, also on failure: they hold then
 * what was read so far). why says which field is wrong. -EPROTO, -EPROTONOSUPPORT (a later version), -E2BIG,
 * -ENOMEM. Time and memory grow with len only.
 */
int capture_wire_unpack(const uint8_t *data, size_t len, struct host_capture *c, struct stack_table *t,
                        const char **ret_why);
