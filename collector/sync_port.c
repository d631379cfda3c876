/* SPDX-License-Identifier: Apache-2.0 */
#include "sync_port.h"

static void release(void *text) {
        struct registry_body *b =
                (struct registry_body *) (void *) ((char *) text - offsetof(struct registry_body, text));

        registry_body_unref(b);
}

static void set_body(struct http_reply *reply, unsigned status, struct registry_body *body) {
        *reply = (struct http_reply){
                .status = body ? status : 503, /* without a body: out of memory */
                .content_type = "application/json",
                .body = body ? body->text : NULL,
                .len = body ? body->len : 0,
                .release = body ? release : NULL,
                .retry_after = !body || status == 503 ? 1 : 0,
        };
}

void sync_port_answer(void *call, unsigned status, struct registry_body *body, void *userdata) {
        struct http_reply reply;

        (void) userdata;
        set_body(&reply, status, body);
        http_answer(call, &reply);
}

bool sync_port_elsewhere(struct registry *r, struct http_reply *reply) {
        struct registry_body *body;
        unsigned status;

        if (registry_leads(r))
                return false;
        status = registry_elsewhere(r, &body);
        set_body(reply, status, body);
        return true;
}

void sync_port_handle(struct registry *r, const struct http_request *q, struct http_reply *reply) {
        struct registry_body *body;
        unsigned status;

        status = registry_sync(r, (const char *) q->body, q->len, q->call, &body);
        if (status == 0)
                reply->later = true;
        else
                set_body(reply, status, body);
}
