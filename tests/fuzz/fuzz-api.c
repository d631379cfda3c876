/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of any client on a server's socket, through libmicrohttpd to a handler that reads path, arguments,
 * headers and body as the calls of the agent and of the collector do, and answers at once or later: what
 * comes back is HTTP, nobody stays, and no body is kept.
 */
#include <assert.h>

#include "exposition.h"
#include "fuzz-http.h"
#include "http_routes.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server {
        sd_event *event;
        sd_event_source *later;
        struct http_server *api;
        struct http_call *waits;
        struct sockaddr_un address;
        socklen_t len;
} server;

static const struct http_route routes[] = {
        ROUTE("GET", "/healthz"),
        ROUTE_WITH("GET", "/NAME", ARGUMENTS(TAKES_NUMBER("since", 0, 1000), TAKES_NUMBER("wait", 0, 30),
                                    TAKES_TIME("until"), TAKES_TEXT("peer", 0))),
        ROUTE("POST", "/v1/NAME/capture"),
};
static const struct http_route_table table = ROUTE_TABLE(routes);

static void make_answer(struct http_reply *ret, unsigned status, const char *text) {
        *ret = (struct http_reply) {
                .status = status, .content_type = "text/plain", .body = strdup(text), .len = strlen(text)
        };
        assert(ret->body);
}

static void on_request(const struct http_request *r, struct http_reply *ret, void *userdata) {
        struct http_request q = *r;
        char allow[HTTP_ALLOW_MAX];
        struct routed routed;

        (void) userdata;
        assert(r->method && r->path && !r->caller->remote && r->len <= 4096 && (r->len == 0 || r->body));
        assert(!(r->too_large || r->no_room) || r->len == 0);
        q.routed = &routed;
        if (!routes_find(&table, r, &routed, allow)) {
                routes_refuse(&table, r, allow, ret);
                assert(ret->status == (*allow ? 405 : 404));
                return;
        }
        if (!routes_check_arguments(&q, &routed, ret)) {
                assert(ret->status == 400 &&
                       utf8_scrub(routed.arguments.why, strlen(routed.arguments.why)) == 0);
                return;
        }
        if (routed.route == &routes[1] && route_number(&q, "wait", 0) > 0 && !server.waits) {
                http_hold(r, &server.waits);
                assert(sd_event_source_set_enabled(server.later, SD_EVENT_ONESHOT) >= 0);
                ret->later = true;
                return;
        }
        make_answer(ret, 200, "ok\n");
}

static int on_later(sd_event_source *source, void *userdata) {
        struct http_reply a;

        (void) source;
        (void) userdata;
        make_answer(&a, 200, "later\n");
        http_answer(TAKE_PTR(server.waits), &a);
        return 0;
}

static void start(void) {
        struct http_server_options o = { .name = "fuzz", .connections = 8, .header_max = 16384,
                                         .bodies_max = 65536,
                                         .discard_max = 65536, .header_time = 15 * USEC_PER_SEC,
                                         .body_time = 15 * USEC_PER_SEC, .answer_time = 15 * USEC_PER_SEC,
                                         .body_max = 4096, .handle = on_request };

        assert(sd_event_new(&server.event) >= 0);
        assert(sd_event_add_defer(server.event, &server.later, on_later, NULL) >= 0);
        assert(sd_event_source_set_enabled(server.later, SD_EVENT_OFF) >= 0);
        o.fd = fuzz_listen(&server.address, &server.len);
        assert(http_server_new(server.event, &o, &server.api) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        char *answer;
        size_t len;

        if (!server.api)
                start();
        answer = fuzz_exchange(server.event, &server.address, server.len, data, size, &len);
        assert(len == 0 || startswith(answer, "HTTP/1."));
        assert(!server.waits);
        free(answer);
        return 0;
}
