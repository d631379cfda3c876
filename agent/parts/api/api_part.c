/* SPDX-License-Identifier: Apache-2.0 */
#include "api_part.h"

#include "api_json.h"
#include "api_state.h"
#include "calls.h"
#include "frame.h"
#include "log.h"
#include "metrics_text.h"

#define SOCKET_MODE 0666 /* everyone may read; who may act is decided call by call */

/* --- Its own calls ------------------------------------------------------------------------------------- */

static int get_healthz(void *self, const struct http_request *r, struct http_reply *ret) {
        char *text = strdup("ok\n");

        (void) self, (void) r;
        *ret = (struct http_reply){ .status = 200,
                                    .content_type = "text/plain; charset=utf-8",
                                    .body = text,
                                    .len = text ? strlen(text) : 0 };
        return 0;
}

/* The parts add their members. */
static int get_status(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct bus *b = ((const struct api_state *) self)->bus;
        json_t *status = api_json_status(b, host_now(b->host), host_now_real(b->host));

        (void) r;
        for (size_t i = 0; status && i < b->n_parts; i++)
                if (b->parts[i]->status && b->parts[i]->status(b->states[i], status) < 0) {
                        json_decref(status);
                        status = NULL;
                }
        return answer_json(ret, 200, status);
}

static int get_checks(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct bus *b = ((const struct api_state *) self)->bus;

        (void) r;
        return answer_json(ret, 200, api_json_checks(&b->checks, host_now(b->host), host_now_real(b->host)));
}

static int get_metrics(void *self, const struct http_request *r, struct http_reply *ret) {
        const struct bus *b = ((const struct api_state *) self)->bus;
        const struct metrics_about about = {
                .version = TPU_HOSTD_VERSION,
                .target = { { "host_name", b->name },
                            { "service_name", "tpu-hostd" },
                            { "service_version", TPU_HOSTD_VERSION },
                            { "tpu_slice_name", identity_get(&b->identity, IDENTITY_SLICE_NAME) },
                            { "tpu_worker_id", identity_get(&b->identity, IDENTITY_WORKER_ID) },
                            { "tpu_accelerator_type",
                              identity_get(&b->identity, IDENTITY_ACCELERATOR_TYPE) } },
        };
        struct http_reply answer = { .status = 200, .content_type = EXPOSITION_TYPE };
        char *text;

        (void) r;
        if (metrics_text(&b->samples, &about, &text, &answer.len) < 0)
                return answer_error(ret, 500, NULL, "out of memory");
        answer.body = text;
        *ret = answer;
        return 0;
}

static const struct part_route routes[] = {
        { ROUTE("GET", "/healthz"), .call = get_healthz },
        { ROUTE("GET", "/metrics"), .call = get_metrics },
        { ROUTE("GET", "/v1/status"), .call = get_status },
        { ROUTE("GET", "/v1/checks"), .call = get_checks },
        { ROUTE_WITH("GET", "/v1/events",
                     ARGUMENTS(TAKES_NUMBER("since", 0, INT64_MAX),
                               TAKES_NUMBER("wait", 0, EVENTS_WAIT_MAX))),
          .call = api_get_events },
        PART_ROUTES_END,
};

/* --- The part ------------------------------------------------------------------------------------------ */

static int start_api(void *self) {
        struct api_state *p = self;
        const char *socket = p->bus->settings.api_socket;
        int fd, r;

        r = api_events_start(p);
        if (r >= 0)
                r = api_collect_routes(p);
        if (r < 0)
                return r;
        fd = listen_socket(socket, SOCKET_MODE);
        if (fd < 0)
                return log_error_errno(fd, "the API cannot listen on %s: %m", socket);
        r = api_serve(p, fd, NULL, &p->local);
        if (r < 0)
                return log_error_errno(r, "the API cannot start on %s: %m", socket);
        api_metrics_look(p);
        r = api_tls_start(p);
        return r < 0 ? log_error_errno(r, "the API cannot be offered over TCP: %m") : 0;
}

static void reload_api(void *self) {
        api_metrics_look(self);
        api_tls_reload(self);
}

static void sample_api(void *self, struct bus_sink *s) {
        api_tls_look(self);
        api_tls_report(self, &s->sink);
        api_metrics_look(self);
        api_metrics_report(self, &s->sink);
}

static void hear_api(void *self, const struct bus_news *n) {
        if (n->topic == BUS_EVENT)
                api_events_wake(self);
}

static void stop_api(void *self) {
        struct api_state *p = self;

        api_events_stop(p);
        p->local = http_server_free(p->local);
        api_port_close(&p->metrics);
        api_tls_stop(p);
        free(p->served);
}

const struct part api_part = {
        .name = "api",
        .size = sizeof(struct api_state),
        .routes = routes,
        .start = start_api,
        .reload = reload_api,
        .sample = sample_api,
        .hear = hear_api,
        .stop = stop_api,
};
