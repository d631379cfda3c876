/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Answers of OTLP/HTTP in protobuf: ExportMetricsServiceResponse and its like, and google.rpc.Status for
 * everything that is not 200.
 */
#include "http_server.h"
#include "ingest.h"

#define OTLP_PROTOBUF "application/x-protobuf"
#define OTLP_RETRY_AFTER_S 5

/* Whether a request's Content-Type, parameters aside, is OTLP_PROTOBUF. NULL: it has none. */
bool otlp_is_protobuf(const char *content_type);

/* 429 and 503 also say when to come back. text may be anything. */
void otlp_reply_error(struct http_reply *reply, unsigned status, const char *text);
/* 200, with partial_success when rows were rejected. */
void otlp_reply_stored(struct http_reply *reply, const struct ingest_result *result);
