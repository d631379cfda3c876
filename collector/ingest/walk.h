/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One request while it is walked. Inside the room only.
 */
#include "unpack.h"
#include "point_wire.h"
#include "row.h"

struct walk {
        const struct ingest_visitor *visitor;
        struct ingest_result *result;
        struct unpack_memory memory;
        const uint8_t *start; /* of the request, to name bytes in errors */
        const struct ingest_resource *resource;
        struct point_key key; /* of the point at hand */
};

/* Writes result->why (cut at its size) and returns r. */
int walk_fail(struct walk *w, int r, const char *fmt, ...) _printf_(3, 4);
/* Counts one row that is not taken, with the reason. */
void walk_reject(struct walk *w, const char *name, const char *reason);
