/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include <jansson.h>

#include "otlp.pb-c.h"
#include "otlp_reply.h"
#include "text.h"

#define MESSAGE_MAX 256

static bool is_type(const char *content_type, const char *type) {
        size_t n = strlen(type);

        return strncasecmp(content_type, type, n) == 0 && strchr("; \t", content_type[n]);
}

int otlp_encoding_parse(const char *content_type, enum otlp_encoding *ret) {
        if (content_type && is_type(content_type, OTLP_PROTOBUF))
                *ret = OTLP_ENCODING_PROTOBUF;
        else if (content_type && is_type(content_type, OTLP_JSON))
                *ret = OTLP_ENCODING_JSON;
        else
                return -EINVAL;
        return 0;
}

/* Without memory the status alone goes out. */
static void reply_message(struct http_reply *reply, const ProtobufCMessage *m) {
        size_t len = protobuf_c_message_get_packed_size(m);

        reply->content_type = OTLP_PROTOBUF;
        if (len == 0)
                return;
        reply->body = malloc(len);
        if (reply->body)
                reply->len = protobuf_c_message_pack(m, reply->body);
}

/* Takes v over. */
static void reply_json(struct http_reply *reply, json_t *v) {
        char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        reply->content_type = OTLP_JSON;
        reply->body = text;
        reply->len = text ? strlen(text) : 0;
}

/* google.rpc.Code */
static int32_t code_of(unsigned status) {
        switch (status) {
        case 404:
                return 5;
        case 403:
                return 7;
        case 405:
        case 415:
                return 12;
        case 413:
        case 429:
                return 8;
        case 503:
                return 14;
        default:
                return 3;
        }
}

void otlp_reply_error(struct http_reply *reply, enum otlp_encoding e, unsigned status, const char *text) {
        Otlp__Status m = OTLP__STATUS__INIT;
        char message[MESSAGE_MAX];

        text_name(message, sizeof(message), text);
        m.code = code_of(status);
        m.message = message;
        reply->status = status;
        reply->retry_after = status == 429 || status == 503 ? OTLP_RETRY_AFTER_S : 0;
        if (e == OTLP_ENCODING_JSON)
                reply_json(reply, json_pack("{s:i, s:s}", "code", (int) m.code, "message", m.message));
        else
                reply_message(reply, &m.base);
}

void otlp_reply_stored(struct http_reply *reply, enum otlp_encoding e, enum ingest_kind kind,
                       const struct ingest_result *result) {
        Otlp__PartialSuccess partial = OTLP__PARTIAL_SUCCESS__INIT;
        Otlp__ExportResponse m = OTLP__EXPORT_RESPONSE__INIT;
        char why[INGEST_WHY_MAX], rejected[24];

        reply->status = 200;
        text_name(why, sizeof(why), result->why);
        if (e == OTLP_ENCODING_JSON) { /* 64-bit integers are texts */
                (void) snprintf(rejected, sizeof(rejected), "%" PRIu64, result->rejected);
                reply_json(reply, result->rejected == 0
                                          ? json_object()
                                          : json_pack("{s:{s:s, s:s}}", "partialSuccess",
                                                      kind == INGEST_METRICS ? "rejectedDataPoints"
                                                                             : "rejectedLogRecords",
                                                      rejected, "errorMessage", why));
                return;
        }
        if (result->rejected > 0) {
                partial.rejected = (int64_t) result->rejected;
                partial.error_message = why;
                m.partial_success = &partial;
        }
        reply_message(reply, &m.base);
}
