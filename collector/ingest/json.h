/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * OTLP's JSON encoding into its protobuf encoding, so that there is one way from a request to rows. It is
 * the proto3 JSON mapping with OTLP's differences (opentelemetry.io/docs/specs/otlp, "JSON Protobuf
 * Encoding"): lowerCamelCase names only, enums as numbers, trace and span ids in hex (other bytes are
 * base64), 64-bit integers as text or number; unknown members are ignored. Pure and bounded.
 */
#include "ingest.h"

#define JSON_VALUES_MAX 400000 /* values of one request: about 64 MiB of jansson's; more is -E2BIG */
#define JSON_DEPTH_MAX  128    /* brackets in one another: one message is up to five; deeper is -ELOOP */

/*
 * *ret is malloc'ed, at most max bytes. -EBADMSG (no JSON, or a member of the wrong type), -ELOOP, -E2BIG,
 * with why; -ENOMEM.
 */
int json_to_protobuf(enum ingest_kind kind, const void *data, size_t len, size_t max, uint8_t **ret,
                     size_t *ret_len, char why[static INGEST_WHY_MAX]);
