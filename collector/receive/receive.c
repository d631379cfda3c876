/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "receive.h"
#include "http_routes.h"
#include "control_port.h"

/* "<16 hex digits>/<class>/<sequence>" */
static int parse_record(const char *text, struct store_record *ret) {
        size_t id = strspn(text, "0123456789abcdef"), class;
        const char *p = text + 17, *digits;
        char *end;

        if (id != 16 || text[16] != '/')
                return -EINVAL;
        class = strspn(p, "abcdefghijklmnopqrstuvwxyz0123456789_-");
        if (class == 0 || class >= sizeof(ret->class) || p[class] != '/')
                return -EINVAL;
        digits = p + class + 1;
        if (*digits < '1' || *digits > '9')
                return -EINVAL;
        errno = 0;
        *ret = (struct store_record) { .seq = strtoull(digits, &end, 10) };
        if (errno || *end || ret->seq > INT64_MAX)
                return -EINVAL;
        memcpy(ret->spool, text, 16);
        memcpy(ret->class, p, class);
        return 0;
}

/* False when the request is refused for its headers; the reply is complete then. */
static bool accept_headers(const struct http_request *q, struct http_reply *reply, struct group_item *item) {
        const char *encoding = http_header(q, "Content-Encoding"),
                   *record = http_header(q, "TPU-Spool-Record"),
                   *aside = http_header(q, "TPU-Spool-Aside");

        if (aside && strchr(aside, '/')) /* else a part of one, which has no number */
                record = aside;

        if (!otlp_is_protobuf(http_header(q, "Content-Type"))) {
                otlp_reply_error(reply, 415,
                                 "Content-Type must be " OTLP_PROTOBUF "; OTLP/JSON is not taken");
                return false;
        }
        item->gzip = encoding && strcasecmp(encoding, "gzip") == 0;
        if (encoding && !item->gzip && strcasecmp(encoding, "identity") != 0) {
                otlp_reply_error(reply, 415, "Content-Encoding must be gzip or identity");
                return false;
        }
        item->push.aside = aside;
        item->push.has_record = record;
        if (record && parse_record(record, &item->push.record) < 0) {
                otlp_reply_error(reply, 400,
                                 "TPU-Spool-Record must be 16 lower-case hex digits, '/', class, '/', "
                                 "sequence number");
                return false;
        }
        return true;
}

static void receive_body(struct receiver *v, struct group_item *item, const struct http_request *q,
                         struct http_reply *reply) {
        if (!accept_headers(q, reply, item))
                return;
        item->call = q->call;
        item->body = q->body;
        item->len = q->len;
        memcpy(item->peer, q->caller->address, sizeof(item->peer));
        item->is_proved = v->speakers->proves;
        memcpy(item->proved, q->caller->host, sizeof(item->proved));
        memcpy(item->caller, q->caller->name, sizeof(item->caller));
        if (group_add(v->group, item) < 0)
                otlp_reply_error(reply, 503, "out of memory");
        else
                reply->later = true;
}

static void receive_capture(struct receiver *v, const struct http_request *q, struct http_reply *reply) {
        struct group_item item = { .is_capture = true, .call = q->call, .body = q->body, .len = q->len };

        if (sync_port_elsewhere(v->registry, reply))
                return;
        if (!capture_port_accept(q, v->registry, v->speakers, v->episodes, clock_real(v->clock),
                                 &item.capture, reply))
                return;
        if (group_add(v->group, &item) < 0)
                capture_port_reply(reply, 503, "out of memory");
        else
                reply->later = true;
}

/* --- All ------------------------------------------------------------------------------------------- */

static const struct http_route routes[] = {
        { .method = "POST", .path = "/v1/metrics" },
        { .method = "POST", .path = "/v1/logs" },
        { .method = "POST", .path = SYNC_PORT_PATH },
        { .method = "POST", .path = CAPTURE_PORT_PATH },
};
static const struct http_route_table table = ROUTE_TABLE(routes);

/* In the form of errors that who calls this path reads. */
static void receive_refuse(bool control, struct http_reply *reply, unsigned status, const char *why) {
        if (control)
                capture_port_reply(reply, status, why);
        else
                otlp_reply_error(reply, status, why);
}

static void receive_any(struct receiver *v, const struct http_request *q, bool control,
                        struct http_reply *reply) {
        struct group_item item = { .push.kind =
                                           streq(q->path, "/v1/metrics") ? INGEST_METRICS : INGEST_LOGS };
        char allow[HTTP_ALLOW_MAX];
        struct routed routed;

        if (q->denied)
                receive_refuse(control, reply, 403, q->denied);
        else if (!routes_find(&table, q, &routed, allow)) {
                receive_refuse(control, reply, *allow ? 405 : 404,
                               *allow ? "only POST"
                                      : "there are /v1/metrics, /v1/logs, " SYNC_PORT_PATH
                                        " and " CAPTURE_PORT_PATH " here");
                (void) snprintf(reply->allow, sizeof(reply->allow), "%s", allow);
        } else if (control ? !v->registry : !v->telemetry)
                receive_refuse(control, reply, 404,
                               control ? "no registry is kept here" : "telemetry is not kept here");
        else if (q->too_large)
                receive_refuse(control, reply, 413, "the body is more than 4 MiB: send less at once");
        else if (q->no_room)
                receive_refuse(control, reply, 503, "too many bodies at once");
        else if (streq(q->path, SYNC_PORT_PATH))
                sync_port_handle(v->registry, v->speakers, q, reply);
        else if (control)
                receive_capture(v, q, reply);
        else
                receive_body(v, &item, q, reply);
}

void receive(const struct http_request *q, struct http_reply *reply, void *userdata) {
        struct receiver *v = userdata;
        bool control = startswith(q->path, "/registry/");
        enum counters_path path = streq(q->path, "/v1/metrics") ? COUNTERS_METRICS
                                  : streq(q->path, "/v1/logs")  ? COUNTERS_LOGS
                                                                : COUNTERS_OTHER;

        if (!control)
                v->counters->bytes += q->len;
        receive_any(v, q, control, reply);
        if (!control && !reply->later)
                counters_answered(v->counters, path, reply->status);
}
