/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes of any client on the agent's socket, through libmicrohttpd to a handler that reads arguments and
 * headers as the calls do, and answers at once or later: what comes back is HTTP, and nobody stays.
 */
#include <assert.h>

#include "api.h"
#include "arguments.h"
#include "exposition.h"
#include "fuzz-http.h"
#include "utf8.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct server {
        sd_event *event;
        sd_event_source *later;
        struct api *api;
        struct api_call *waits;
        struct sockaddr_un address;
        socklen_t len;
} server;

static int take(const char *name, void *userdata) {
        return arguments_take(userdata, name);
}

static void make_answer(struct api_answer *ret, unsigned status, const char *text) {
        *ret = (struct api_answer) {
                .status = status, .type = "text/plain", .body = strdup(text), .len = strlen(text)
        };
        assert(ret->body);
}

static int on_request(const struct api_request *r, struct api_answer *ret, void *userdata) {
        struct arguments a = { .allowed = { "since", "wait", "peer" } };
        const char *since = api_argument(r, "since");
        uint64_t n;

        (void) userdata;
        assert(r->method && r->path && !r->caller.remote);
        (void) exposition_wants_open_metrics(api_header(r, "Accept"));
        if (api_arguments(r, take, &a) < 0) {
                assert(a.why[0] && utf8_scrub(a.why, strlen(a.why)) == 0);
                make_answer(ret, 400, a.why);
                return 0;
        }
        if (since && argument_number(since, 1000, &n) == 0 && !server.waits) {
                server.waits = r->call;
                assert(sd_event_source_set_enabled(server.later, SD_EVENT_ONESHOT) >= 0);
                return 1;
        }
        make_answer(ret, 200, "ok\n");
        return 0;
}

static void on_abandoned(struct api_call *call, void *userdata) {
        (void) userdata;
        if (server.waits == call)
                server.waits = NULL;
}

static int on_later(sd_event_source *source, void *userdata) {
        struct api_call *call = server.waits;
        struct api_answer a;

        (void) source;
        (void) userdata;
        if (!call)
                return 0;
        server.waits = NULL;
        make_answer(&a, 200, "later\n");
        api_call_answer(call, &a);
        return 0;
}

static void start(void) {
        static const struct api_handlers handlers = { .request = on_request, .abandoned = on_abandoned };

        assert(sd_event_new(&server.event) >= 0);
        assert(sd_event_add_defer(server.event, &server.later, on_later, NULL) >= 0);
        assert(sd_event_source_set_enabled(server.later, SD_EVENT_OFF) >= 0);
        assert(api_new(server.event, fuzz_listen(&server.address, &server.len), NULL, &handlers, NULL,
                       &server.api) == 0);
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
