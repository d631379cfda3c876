/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "otlp.pb-c.h"
#include "otlp_reply.h"
#include "text.h"

#define MESSAGE_MAX 256

bool otlp_is_protobuf(const char *content_type) {
        size_t n = strlen(OTLP_PROTOBUF);

        return content_type && strncasecmp(content_type, OTLP_PROTOBUF, n) == 0 && strchr("; \t", content_type[n]);
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

void otlp_reply_error(struct http_reply *reply, unsigned status, const char *text) {
        Otlp__Status m = OTLP__STATUS__INIT;
        char message[MESSAGE_MAX];

        text_name(message, sizeof(message), text);
        m.code = code_of(status);
        m.message = message;
        reply->status = status;
        reply->retry_after = status == 429 || status == 503 ? OTLP_RETRY_AFTER_S : 0;
        reply_message(reply, &m.base);
}

void otlp_reply_stored(struct http_reply *reply, const struct ingest_result *result) {
        Otlp__PartialSuccess partial = OTLP__PARTIAL_SUCCESS__INIT;
        Otlp__ExportResponse m = OTLP__EXPORT_RESPONSE__INIT;
        char why[INGEST_WHY_MAX];

        reply->status = 200;
        text_name(why, sizeof(why), result->why);
        if (result->rejected > 0) {
                partial.rejected = (int64_t) result->rejected;
                partial.error_message = why;
                m.partial_success = &partial;
        }
        reply_message(reply, &m.base);
}
