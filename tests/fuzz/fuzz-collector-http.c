/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of any client on the collector's ports, through libmicrohttpd to a handler that reads query, headers
 * and body as both APIs do, and answers at once or later: what comes back is HTTP, and no body is kept.
 */
#include <assert.h>

#include "fuzz-http.h"
#include "http_server.h"
#include "query.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server {
        sd_event *event;
        sd_event_source *later;
        struct http_server *http;
        struct http_call *waits;
        struct sockaddr_un address;
        socklen_t len;
} server;

static struct http_reply make_reply(unsigned status, const char *text) {
        struct http_reply r = { .status = status, .content_type = "text/plain", .body = strdup(text) };

        assert(r.body);
        r.len = strlen(text);
        return r;
}

static void handle(const struct http_request *q, struct http_reply *reply, void *userdata) {
        char why[QUERY_WHY_MAX] = "";
        struct query query;

        (void) userdata;
        assert(q->method && q->path && q->len <= 4096 && (q->len == 0 || q->body));
        assert(!(q->too_large || q->no_room) || q->len == 0);
        (void) http_header(q, "TPU-Spool-Record");
        if (query_parse(q, QUERY_BIT(_QUERY_MAX) - 1, 1000, &query, why) < 0) {
                assert(why[0] && strlen(why) < sizeof(why));
                *reply = make_reply(400, "no\n");
        } else if (query.number[QUERY_WAIT] > 0 && !server.waits) {
                server.waits = q->call;
                assert(sd_event_source_set_enabled(server.later, SD_EVENT_ONESHOT) >= 0);
                *reply = (struct http_reply) { .later = true };
        } else
                *reply = make_reply(200, "ok\n");
}

static int on_later(sd_event_source *source, void *userdata) {
        struct http_call *call = server.waits;
        struct http_reply reply;

        (void) source;
        (void) userdata;
        if (!call)
                return 0;
        server.waits = NULL;
        reply = make_reply(200, "later\n");
        http_answer(call, &reply);
        return 0;
}

static void start(void) {
        struct http_server_options o = { .name = "fuzz", .connections = 8, .header_max = 8192, .bodies_max = 65536,
                                         .discard_max = 65536, .header_time = 15 * USEC_PER_SEC,
                                         .body_time = 15 * USEC_PER_SEC, .answer_time = 15 * USEC_PER_SEC,
                                         .body_max = 4096, .handle = handle };

        assert(sd_event_new(&server.event) >= 0);
        assert(sd_event_add_defer(server.event, &server.later, on_later, NULL) >= 0);
        assert(sd_event_source_set_enabled(server.later, SD_EVENT_OFF) >= 0);
        o.fd = fuzz_listen(&server.address, &server.len);
        assert(http_server_new(server.event, &o, &server.http) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *answer;
        size_t len;

        if (!server.http)
                start();
        answer = fuzz_exchange(server.event, &server.address, server.len, data, size, &len);
        assert(len == 0 || startswith(answer, "HTTP/1."));
        assert(!server.waits);
        free(answer);
        return 0;
}
