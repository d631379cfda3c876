/* SPDX-License-Identifier: Apache-2.0 */
#include "pace_port.h"

#include "log.h"

#define SEVERITY_WARN 13 /* OpenTelemetry, logs data model */

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
        int64_t host;
        int r = body && attributes ? store_begin(s) : -ENOMEM;

        log_warning("%s", v->sentence);
        if (r >= 0)
                r = store_find_host(s, v->name, now, &host);
        if (r >= 0)
                r = store_add_event(s, host, &identity, &e);
        if (r >= 0)
                r = store_commit(s);
        if (r < 0)
                store_rollback(s);
        json_decref(text);
        json_decref(about);
        return r < 0 ? r : 1;
}

/* Any number that is the host's own: FNV-1a of its place. */
static int64_t number_of(const struct registry_figure *f) {
        uint64_t h = UINT64_C(14695981039346656037);

        for (const char *c = f->slice; *c; c++)
                h = (h ^ (unsigned char) *c) * UINT64_C(1099511628211);
        return (int64_t) ((h ^ f->worker) * UINT64_C(1099511628211) >> 1);
}

int pace_port_figure(struct pace *p, struct store *s, const struct registry_figure *f, usec_t now) {
        const struct pace_source who = {
                .host = number_of(f), .name = f->host, .slice = f->slice, .worker = f->worker
        };
        const double parts[_PACE_PART_MAX] = {
                [PACE_USER] = f->user, [PACE_SYSTEM] = f->system, [PACE_WAITED] = f->waited
        };
        struct pace_verdict v;
        int r = f->step >= 0 ? pace_step(p, &who, f->run, (uint64_t) f->step, f->at) : 0;

        /* The last that makes a reading whole may name somebody. */
        for (size_t i = _PACE_PART_MAX; i > 0 && r == 0; i--)
                r = pace_cpu(p, &who, f->run, (enum pace_part)(i - 1), parts[i - 1], f->at, &v);
        return r <= 0 ? r : tell(s, &v, now);
}
