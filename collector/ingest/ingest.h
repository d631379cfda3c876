/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP requests (protobuf) into rows, one at a time, through a visitor. Pure and bounded: whatever the bytes
 * are, the work is linear in their number and memory stays below INGEST_MEMORY_MAX plus the largest row. A
 * request is malformed or not as a whole, but rows in front of the bad place have been visited by then: the
 * caller puts all of a request into one transaction.
 */
#include "base.h"
#include "row.h"

#define INGEST_MEMORY_MAX (64 * 1024 * 1024)
#define INGEST_GROUPS_MAX 10000 /* resources of one request; more is -E2BIG */
enum ingest_kind { INGEST_METRICS, INGEST_LOGS };

/* 0, -EBADMSG (malformed), -ELOOP (nested too deep), -E2BIG (too many rows or resources, or too much
 * memory), -ENOMEM, or the visitor's own. */
int ingest_request(enum ingest_kind kind, const void *data, size_t len, const struct ingest_visitor *v,
                   struct ingest_result *ret);
