/* SPDX-License-Identifier: Apache-2.0 */
#include <strings.h>

#include "inflate.h"
#include "ingest.h"
#include "log.h"
#include "otlp.pb-c.h"
#include "receive.h"
#include "text.h"

#define RETRY_AFTER_S 5
#define PROTOBUF "application/x-protobuf"
#define AGENT_SERVICE "tpu-hostd"

/* One request on its way into the store. */
struct push {
        struct receiver *receiver;
        usec_t now;
        const char *peer;
        const struct ingest_resource *resource;
        struct store_identity identity;
        bool agent;
        int64_t host;
        usec_t newest;
};

static void reply_message(struct http_reply *reply, const ProtobufCMessage *m) {
        size_t len = protobuf_c_message_get_packed_size(m);

        reply->content_type = PROTOBUF;
        if (len == 0)
                return;
        reply->body = malloc(len);
        if (reply->body) /* without memory the status alone goes out */
                reply->len = protobuf_c_message_pack(m, reply->body);
}

static void fail(struct http_reply *reply, unsigned status, const char *text) {
        Otlp__Status m = OTLP__STATUS__INIT;
        char message[256];

        text_name(message, sizeof(message), text);
        m.message = message;
        switch (status) { /* google.rpc.Code */
        case 404:
                m.code = 5;
                break;
        case 405:
        case 415:
                m.code = 12;
                break;
        case 413:
                m.code = 8;
                break;
        case 503:
                m.code = 14;
                reply->retry_after = RETRY_AFTER_S;
                break;
        default:
                m.code = 3;
        }
        reply->status = status;
        reply_message(reply, &m.base);
}

/* --- Rows ------------------------------------------------------------------------------------ */

static const char *or_null(const char *text) {
        return *text ? text : NULL;
}

static usec_t row_time(struct push *p, usec_t t) {
        usec_t when = t > 0 ? MIN(t, p->now) : p->now;

        p->newest = MAX(p->newest, when);
        return when;
}

static int on_resource(const struct ingest_resource *r, void *userdata) {
        struct push *p = userdata;

        p->resource = r;
        p->newest = 0;
        p->agent = streq(r->service, AGENT_SERVICE);
        p->identity = (struct store_identity) {
                .slice = or_null(r->slice),
                .accelerator_type = or_null(r->accelerator_type),
                .version = or_null(r->version),
                .boot_id = or_null(r->boot_id),
                .worker_id = r->worker_id,
        };
        return store_find_host(p->receiver->store, *r->host ? r->host : p->peer, p->now, &p->host);
}

static int on_point(const struct ingest_point *i, void *userdata) {
        struct push *p = userdata;
        struct store *s = p->receiver->store;
        const struct store_metric m = {
                .service = p->resource->service,
                .name = i->name,
                .attributes = i->attributes,
                .unit = i->unit,
                .is_int = i->is_int,
                .i = i->i,
                .d = i->d,
                .time = row_time(p, i->time),
        };
        const char *state, *job;
        int r;

        r = store_set_metric(s, p->host, &m);
        if (r < 0 || !p->agent)
                return r;
        state = json_string_value(json_object_get(i->labels, "state"));
        if (state && i->d == 1 && streq(i->name, "tpu.host.state"))
                return store_set_state(s, p->host, state, m.time);
        job = json_string_value(json_object_get(i->labels, "job"));
        if (job && i->is_int && streq(i->name, "tpu.run.step"))
                return store_set_step(s, p->host, job, i->i, m.time);
        return 0;
}

/* The reasons of a state_changed event: the body when it is a text, its member "reasons" when that is one,
 * else the body as JSON. */
static const char *event_reasons(const struct ingest_event *e) {
        const char *text = json_string_value(e->content);

        if (!text)
                text = json_string_value(json_object_get(e->content, "reasons"));
        return text ? text : e->body;
}

static int on_event(const struct ingest_event *i, void *userdata) {
        struct push *p = userdata;
        struct store *s = p->receiver->store;
        const struct store_event e = {
                .service = p->resource->service,
                .name = i->name,
                .body = i->body,
                .attributes = i->attributes,
                .severity = i->severity,
                .time = i->time > 0 ? i->time : p->now,
                .received = p->now,
        };
        usec_t when = row_time(p, i->time);
        int r;

        r = store_add_event(s, p->host, &p->identity, &e);
        if (r < 0 || !p->agent || !streq(i->name, "tpu.host.state_changed"))
                return r;
        return store_set_reasons(s, p->host, event_reasons(i), when);
}

static int on_done(void *userdata) {
        struct push *p = userdata;

        if (!p->agent)
                return store_other_seen(p->receiver->store, p->host, p->now);
        return store_agent_seen(p->receiver->store, p->host, &p->identity, p->newest, p->now);
}

/* --- The transaction ------------------------------------------------------------------------- */

/* 1: stored; 0: was stored before; -errno: nothing was. */
static int store_request(struct push *p, enum ingest_kind kind, const struct store_record *record,
                         const uint8_t *data, size_t len, struct ingest_result *ret) {
        const struct ingest_visitor visitor = {
                .resource = on_resource,
                .point = on_point,
                .event = on_event,
                .done = on_done,
                .userdata = p,
        };
        struct store *s = p->receiver->store;
        int r;

        r = store_begin(s);
        if (r < 0)
                return r;
        r = record ? store_take_record(s, record, p->now) : 1;
        if (r > 0) {
                r = ingest_request(kind, data, len, &visitor, ret);
                if (r == 0)
                        r = store_commit(s);
                r = r < 0 ? r : 1;
        }
        store_rollback(s);
        return r;
}

static void reply_stored(struct http_reply *reply, const struct ingest_result *result) {
        Otlp__PartialSuccess partial = OTLP__PARTIAL_SUCCESS__INIT;
        Otlp__ExportResponse m = OTLP__EXPORT_RESPONSE__INIT;
        char why[INGEST_WHY_MAX];

        if (result->rejected > 0) {
                text_name(why, sizeof(why), result->why);
                partial.rejected = (int64_t) result->rejected;
                partial.error_message = why;
                m.partial_success = &partial;
        }
        reply->status = 200;
        reply_message(reply, &m.base);
}

/* The database said no. It may be for a while (disk full): agents keep their records and come again. */
static void reply_database(struct receiver *v, int r, struct http_reply *reply) {
        char text[256];

        if (r == -EDQUOT)
                (void) snprintf(text, sizeof(text), "%d hosts are known, and this is another",
                                STORE_HOSTS_MAX);
        else
                (void) snprintf(text, sizeof(text), "database: %.200s",
                                r == -ENOMEM ? "out of memory" : store_error(v->store));
        if (!v->failing)
                log_error("cannot store what agents send, they are told to try again: %s", text);
        v->failing = true;
        fail(reply, 503, text);
}

static void store_body(struct push *p, enum ingest_kind kind, const struct store_record *record,
                       const uint8_t *data, size_t len, struct http_reply *reply) {
        struct receiver *v = p->receiver;
        struct counters *c = v->counters;
        struct ingest_result result = { 0 };
        int r;

        r = store_request(p, kind, record, data, len, &result);
        if (r == -EBADMSG || r == -ELOOP) {
                fail(reply, 400, result.why);
                return;
        }
        if (r == -E2BIG) {
                fail(reply, 413, result.why);
                return;
        }
        if (r < 0) {
                reply_database(v, r, reply);
                return;
        }
        if (v->failing)
                log_notice("what agents send is stored again");
        v->failing = false;
        if (r == 0)
                c->duplicates++;
        else {
                c->commits++;
                *(kind == INGEST_METRICS ? &c->points : &c->events) += result.rows;
                c->rejected += result.rejected;
        }
        reply_stored(reply, &result);
}

/* --- Headers --------------------------------------------------------------------------------- */

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

static bool is_protobuf(const char *content_type) {
        size_t n = strlen(PROTOBUF);

        return content_type && strncasecmp(content_type, PROTOBUF, n) == 0 &&
               strchr("; \t", content_type[n]);
}

/* False when the request is refused for its headers; the reply is complete then. */
static bool accept_headers(const struct http_request *q, struct http_reply *reply, bool *ret_gzip,
                           struct store_record *ret_record, bool *ret_has_record) {
        const char *encoding = http_header(q, "Content-Encoding"),
                   *record = http_header(q, "TPU-Spool-Record");

        if (!is_protobuf(http_header(q, "Content-Type"))) {
                fail(reply, 415, "Content-Type must be " PROTOBUF);
                return false;
        }
        *ret_gzip = encoding && strcasecmp(encoding, "gzip") == 0;
        if (encoding && !*ret_gzip && strcasecmp(encoding, "identity") != 0) {
                fail(reply, 415, "Content-Encoding must be gzip or identity");
                return false;
        }
        *ret_has_record = record;
        if (record && parse_record(record, ret_record) < 0) {
                fail(reply, 400,
                     "TPU-Spool-Record must be 16 lower-case hex digits, '/', class, '/', sequence number");
                return false;
        }
        return true;
}

static void receive_body(struct receiver *v, enum ingest_kind kind, const struct http_request *q,
                         struct http_reply *reply) {
        struct push p = { .receiver = v, .now = clock_real(v->clock), .peer = q->peer };
        _cleanup_free_ uint8_t *inflated = NULL;
        const uint8_t *data = q->body;
        size_t len = q->len;
        struct store_record record;
        bool gzip, has_record;
        int r = 0;

        if (!accept_headers(q, reply, &gzip, &record, &has_record))
                return;
        if (gzip) {
                r = inflate_gzip(q->body, q->len, RECEIVE_INFLATED_MAX, &inflated, &len);
                data = inflated;
        }
        if (r == -E2BIG)
                fail(reply, 413, "the body is more than 16 MiB when decompressed: send less at once");
        else if (r == -ENOMEM)
                fail(reply, 503, "out of memory");
        else if (r < 0)
                fail(reply, 400, "the body is no gzip stream, damaged or cut off");
        else
                store_body(&p, kind, has_record ? &record : NULL, data, len, reply);
}

void receive(const struct http_request *q, struct http_reply *reply, void *userdata) {
        struct receiver *v = userdata;
        enum counters_path path = streq(q->path, "/v1/metrics") ? COUNTERS_METRICS
                                  : streq(q->path, "/v1/logs")  ? COUNTERS_LOGS
                                                                : COUNTERS_OTHER;

        v->counters->bytes += q->len;
        if (path == COUNTERS_OTHER)
                fail(reply, 404, "there are /v1/metrics and /v1/logs here");
        else if (!streq(q->method, "POST")) {
                fail(reply, 405, "only POST");
                reply->allow = "POST";
        } else if (q->too_large)
                fail(reply, 413, "the body is more than 4 MiB: send less at once");
        else if (q->no_room)
                fail(reply, 503, "too many bodies at once");
        else
                receive_body(v, path == COUNTERS_METRICS ? INGEST_METRICS : INGEST_LOGS, q, reply);
        counters_answered(v->counters, path, reply->status);
}
