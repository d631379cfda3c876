/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Answers of OTLP/HTTP, in the encoding of the request: ExportMetricsServiceResponse and its like, and
 * google.rpc.Status for everything that is not 200.
 */
#include "http.h"
#include "ingest.h"

#define OTLP_PROTOBUF      "application/x-protobuf"
#define OTLP_JSON          "application/json"
#define OTLP_RETRY_AFTER_S 5

enum otlp_encoding { OTLP_ENCODING_PROTOBUF, OTLP_ENCODING_JSON };

/* Content-Type of a request, parameters aside. -EINVAL when it is neither, or missing. */
int otlp_encoding_parse(const char *content_type, enum otlp_encoding *ret);

/* 429 and 503 also say when to come back. text may be anything. */
void otlp_reply_error(struct http_reply *reply, enum otlp_encoding e, unsigned status, const char *text);
/* 200, with partial_success when rows were rejected. */
void otlp_reply_stored(struct http_reply *reply, enum otlp_encoding e, enum ingest_kind kind,
                       const struct ingest_result *result);
