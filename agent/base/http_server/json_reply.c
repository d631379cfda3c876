/* SPDX-License-Identifier: Apache-2.0 */
#include "json_reply.h"

void api_reply(struct http_reply *reply, unsigned status, json_t *v) {
        char *text = v ? json_dumps(v, JSON_COMPACT) : NULL;

        json_decref(v);
        reply->content_type = "application/json";
        reply->status = text ? status : 503;
        reply->body = text;
        reply->len = text ? strlen(text) : 0;
        if (!text)
                reply->retry_after = 1; /* a small text would fail, too */
}

void api_reply_error(struct http_reply *reply, unsigned status, const char *error, const char *remedy) {
        json_t *v = json_pack("{s:s, s:s}", "error", error, "remedy", remedy ?: "");

        if (!v) /* the text names what came, and that is no UTF-8 */
                v = json_pack("{s:s, s:s}", "error", "the request is not UTF-8", "remedy", remedy ?: "");
        api_reply(reply, status, v);
}
