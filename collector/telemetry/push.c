/* SPDX-License-Identifier: Apache-2.0 */
#include "push.h"

#include <strings.h>

#include "events.h"
#include "json_text.h"
#include "otlp.pb-c.h"
#include "utf8.h"

#define AGENT_SERVICE "tpu-hostd"
/* D-Bus's copy goes, too: where it is a file, systemd would take the same id from it. */
#define TWIN_REMEDY \
        "sudo sh -c ': > /etc/machine-id && rm -f /var/lib/dbus/machine-id && systemd-machine-id-setup' " \
        "&& sudo reboot"

/* One request while it is stored. */
struct rows {
        struct store *store;
        usec_t now;
        const struct push *push;
        const struct ingest_resource *resource;
        bool looked; /* whether the push was stored before */
        struct store_identity identity;
        bool agent;
        int64_t host;
        usec_t newest;
        uint64_t lines;
        char other[INGEST_NAME_MAX]; /* whom the push is about though its sender is another host */
};

static const char *or_null(const char *text) {
        return *text ? text : NULL;
}

static usec_t row_time(struct rows *p, usec_t t) {
        usec_t when = t > 0 ? MIN(t, p->now) : p->now;

        p->newest = MAX(p->newest, when);
        return when;
}

static const char *sender_of(const struct rows *p, const struct ingest_resource *r) {
        return p->push->proved ?: *r->host ? r->host : *r->instance ? r->instance : p->push->peer;
}

static int report_clash(struct rows *p, const struct store_record *r, bool first) {
        char other[STORE_HOST_MAX] = "";
        enum store_clash clash;
        int k = store_record_clash(p->store, r, first, &clash, other);

        if (k < 0 || clash == STORE_NO_CLASH)
                return k;
        if (clash == STORE_SHARED)
                k = store_own_event(p->store,
                                    EVENT_OF(SPOOL_SHARED, .host = r->host, .other = other,
                                             .spool_id = r->spool, .class = r->class),
                                    "", "", -1, p->now);
        else
                k = store_own_event(p->store,
                                    EVENT_OF(SPOOL_WENT_BACK, .host = r->host, .spool_id = r->spool,
                                             .class = r->class, .seq = (int64_t) r->seq),
                                    "", "", -1, p->now);
        return MIN(k, 0);
}

/* The first resource says who sends the push. -EALREADY: it was stored before. */
static int take_record(struct rows *p, const struct ingest_resource *r) {
        struct store_record record = p->push->record;
        int k;

        if (p->looked || !p->push->has_record)
                return 0;
        p->looked = true;
        record.host = sender_of(p, r);
        record.boot = r->boot_id;
        record.machine = r->machine;
        k = store_take_record(p->store, &record, p->now);
        if (k == 0)
                return -EALREADY;
        return k > STORE_KNOWN_RUN ? report_clash(p, &record, k == STORE_FIRST_RECORD) : MIN(k, 0);
}

static int on_resource(const struct ingest_resource *r, void *userdata) {
        struct rows *p = userdata;
        int k;

        if (p->push->proved && *r->host && !streq(r->host, p->push->proved)) {
                (void) snprintf(p->other, sizeof(p->other), "%s", r->host);
                return -EACCES;
        }
        k = take_record(p, r);

        if (k < 0)
                return k;
        p->resource = r;
        p->newest = 0;
        p->agent = streq(r->service, AGENT_SERVICE);
        p->identity = (struct store_identity) {
                .slice = or_null(r->slice),
                .accelerator_type = or_null(r->accelerator_type),
                .version = or_null(r->version),
                .boot_id = or_null(r->boot_id),
                .machine = or_null(r->machine),
                .worker_id = r->worker_id,
        };
        return store_find_host(p->store, sender_of(p, r), p->push->aside ? 0 : p->now, &p->host);
}

/* What also goes into the host's row is looked at each time. */
static bool is_known(const struct ingest_point *i, void *userdata) {
        const struct rows *p = userdata;

        return store_knows_series(p->store, i->key, i->key_len) &&
               !(p->agent && (streq(i->name, "tpu.host.state") || streq(i->name, "tpu.run.step.number")));
}

static int on_point(const struct ingest_point *i, void *userdata) {
        struct rows *p = userdata;
        struct store *s = p->store;
        const struct store_metric m = {
                .service = p->resource->service,
                .name = i->name,
                .attributes = i->attributes,
                .key = i->key,
                .key_len = i->key_len,
                .unit = i->unit,
                .is_int = i->is_int,
                .i = i->i,
                .d = i->d,
                .time = row_time(p, i->time),
        };
        const char *state, *run;
        int r = store_add_point(s, p->host, &m);

        if (r < 0 || !p->agent || p->push->aside)
                return r;
        state = json_string_value(json_object_get(i->labels, "tpu.host.state"));
        if (state && i->d == 1 && streq(i->name, "tpu.host.state"))
                return store_set_state(s, p->host, state, m.time);
        run = json_string_value(json_object_get(i->labels, "tpu.run.name"));
        if (run && i->is_int && streq(i->name, "tpu.run.step.number"))
                return store_set_step(s, p->host, run, i->i, m.time);
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

/* 0: it is none, or not one that has all it needs: an event as any other. */
static int take_line(struct rows *p, const struct ingest_event *i, usec_t when) {
        json_auto_t *a = json_loads(i->attributes, 0, NULL);
        struct store_line l = {
                .run = json_string_value(json_object_get(a, "tpu.run.name")),
                .invocation = json_string_value(json_object_get(a, "tpu.run.invocation")),
                .slice = json_string_value(json_object_get(a, "tpu.slice.name")),
                .text = json_string_value(i->content),
                .number = json_known_of(a, "tpu.run.line"),
                .generation = json_known_of(a, "tpu.run.generation"),
                .worker_id = json_known_of(a, "tpu.worker.id"),
                .priority = (unsigned) MIN(json_number_of(a, "tpu.run.priority"), UINT64_C(7)),
                .time = when,
        };
        bool is_line = l.run && strlen(l.run) < 64 && l.invocation && strlen(l.invocation) < 64 && l.text &&
                       l.number > 0;
        int r = 0;

        if (is_line)
                r = store_add_line(p->store, p->host, &l, p->now);
        p->lines += is_line && r >= 0;
        return r < 0 ? r : is_line;
}

static int on_event(const struct ingest_event *i, void *userdata) {
        struct rows *p = userdata;
        struct store *s = p->store;
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

        if (p->agent && streq(i->name, "tpu.run.line")) {
                r = take_line(p, i, when);
                if (r != 0)
                        return MIN(r, 0);
        }
        r = store_add_event(s, p->host, &p->identity, &e);
        if (r < 0 || !p->agent || p->push->aside || !streq(i->name, "tpu.host.state_changed"))
                return r;
        return store_set_reasons(s, p->host, event_reasons(i), when);
}

static int report_twin(const struct rows *p) {
        char other[STORE_HOST_MAX];
        int r = store_find_twin(p->store, p->host, &p->identity, p->newest, p->now, other);

        if (r <= 0)
                return r;
        return store_own_event(p->store,
                               EVENT_OF(HOST_SAME_ID, .host = sender_of(p, p->resource), .other = other,
                                        .machine = p->identity.machine, .remedy = TWIN_REMEDY),
                               "", "", -1, p->now);
}

static int on_done(void *userdata) {
        struct rows *p = userdata;
        int r;

        if (p->push->aside)
                return 0;
        if (!p->agent)
                return store_other_seen(p->store, p->host, p->now);
        r = report_twin(p);
        if (r < 0)
                return r;
        return store_agent_seen(p->store, p->host, &p->identity, p->newest, p->now);
}

int push_store(struct store *s, const struct push *push, usec_t now, struct ingest_result *ret) {
        struct rows rows = { .store = s, .now = now, .push = push };
        const struct ingest_visitor visitor = {
                .resource = on_resource,
                .point = on_point,
                .known = is_known,
                .event = on_event,
                .done = on_done,
                .userdata = &rows,
        };
        char other[64]; /* the name may be cut inside a character */
        int r;

        *ret = (struct ingest_result) { 0 };
        r = ingest_request(push->kind, push->data, push->len, &visitor, ret);
        ret->lines = rows.lines;
        if (r == -EACCES) {
                utf8_copy_line(other, sizeof(other), rows.other);
                (void) snprintf(ret->why, sizeof(ret->why),
                                "this caller is host %.63s, and the push is of host %s",
                                push->proved, other);
        }
        if (r == -EALREADY)
                return 0;
        return r < 0 ? r : 1;
}

/* --- Answers --------------------------------------------------------------------------------------- */

#define MESSAGE_MAX 256

bool otlp_is_protobuf(const char *content_type) {
        size_t n = strlen(OTLP_PROTOBUF);

        return content_type && strncasecmp(content_type, OTLP_PROTOBUF, n) == 0 &&
               strchr("; \t", content_type[n]);
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

        utf8_copy_line(message, sizeof(message), text);
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
        utf8_copy_line(why, sizeof(why), result->why);
        if (result->rejected > 0) {
                partial.rejected = (int64_t) result->rejected;
                partial.error_message = why;
                m.partial_success = &partial;
        }
        reply_message(reply, &m.base);
}
