/* SPDX-License-Identifier: Apache-2.0 */
#include "pace_push.h"

#define SEVERITY_WARN 13 /* OpenTelemetry, logs data model */

bool pace_push_wants(const char *name) {
        return streq(name, "tpu.run.cpu.time") || streq(name, "tpu.run.step") ||
               streq(name, "tpu.run.pressure.stall_time");
}

static int tell(struct store *s, const struct pace_verdict *v, usec_t now) {
        const struct store_identity identity = { .slice = v->slice[0] ? v->slice : NULL,
                                                 .worker_id = v->worker };
        json_t *text = json_string(v->sentence),
               *about =
                       json_pack("{s:s, s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:I}", "run", v->job, "host",
                                 v->name, "slice", v->slice, "worker", (json_int_t) v->worker, "hosts",
                                 (json_int_t) v->hosts, "busy", v->busy, "others", v->others, "step_seconds",
                                 v->step_seconds, "best", v->best, "windows", (json_int_t) v->windows);
        _cleanup_free_ char *body = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL,
                            *attributes = about ? json_dumps(about, JSON_COMPACT) : NULL;
        const struct store_event e = { .service = STORE_OWN_NAME,
                                       .name = "tpu.run.straggler",
                                       .body = body,
                                       .attributes = attributes,
                                       .severity = SEVERITY_WARN,
                                       .time = now,
                                       .received = now };
        int r = body && attributes ? store_add_event(s, v->host, &identity, &e) : -ENOMEM;

        json_decref(text);
        json_decref(about);
        return r;
}

static bool label_is(const struct ingest_point *i, const char *key, const char *value) {
        const char *text = json_string_value(json_object_get(i->labels, key));

        return text && streq(text, value);
}

/* _PACE_PART_MAX: not one that counts. */
static enum pace_part part_of(const struct ingest_point *i) {
        if (label_is(i, "cpu.mode", "user"))
                return PACE_USER;
        if (label_is(i, "cpu.mode", "system"))
                return PACE_SYSTEM;
        return label_is(i, "tpu.pressure.resource", "cpu") && label_is(i, "tpu.pressure.kind", "some")
                       ? PACE_WAITED
                       : _PACE_PART_MAX;
}

int pace_push(struct pace *p, struct store *s, const struct pace_source *who, const struct ingest_point *i,
              usec_t at, usec_t now) {
        const char *job = json_string_value(json_object_get(i->labels, "job"));
        struct pace_verdict v;
        enum pace_part part;
        int r;

        if (!job)
                return 0;
        if (streq(i->name, "tpu.run.step"))
                return i->is_int && i->i >= 0 ? pace_step(p, who, job, (uint64_t) i->i, at) : 0;
        part = part_of(i);
        if (part == _PACE_PART_MAX)
                return 0;
        r = pace_cpu(p, who, job, part, i->is_int ? (double) i->i : i->d, at, &v);
        if (r <= 0)
                return r;
        r = tell(s, &v, now);
        return r < 0 ? r : 1;
}
