/* SPDX-License-Identifier: Apache-2.0 */
#include "telemetry.h"

int telemetry_describe(struct telemetry *t, const struct identity *i, const char *host, const char *host_id,
                       const char *boot_id) {
        const struct otlp_attribute all[] = {
                { .key = "host.name", .text = host },
                { .key = "host.id", .text = host_id[0] ? host_id : NULL },
                { .key = "service.name", .text = "tpu-hostd" },
                /* Prometheus' label "instance": one series a host */
                { .key = "service.instance.id", .text = host },
                { .key = "service.version", .text = TPU_HOSTD_VERSION },
                { .key = "tpu.boot.id", .text = boot_id },
                { .key = "tpu.slice.name", .text = identity_get(i, IDENTITY_SLICE_NAME) },
                { .key = "tpu.worker.id", .text = identity_get(i, IDENTITY_WORKER_ID) },
                { .key = "tpu.accelerator.type", .text = identity_get(i, IDENTITY_ACCELERATOR_TYPE) },
        };
        struct otlp_attribute known[ELEMENTSOF(all)];
        struct otlp *otlp;
        size_t n = 0;
        int r;

        for (size_t k = 0; k < ELEMENTSOF(all); k++)
                if (all[k].text)
                        known[n++] = all[k];
        r = otlp_new(known, n, TPU_HOSTD_VERSION, &otlp);
        if (r < 0)
                return r;
        t->otlp = otlp_free(t->otlp);
        t->otlp = otlp;
        return 0;
}

void telemetry_clear(struct telemetry *t) {
        t->otlp = otlp_free(t->otlp);
}

/* The spool on the disk; while that takes nothing, the spare one, from which it is sent all the same. */
static struct uplink *spool_for(const struct telemetry *t, enum uplink_class c) {
        return t->spare && !uplink_is_durable(t->uplink, c) ? t->spare : t->uplink;
}

static int submit_points(struct telemetry *t) {
        const void *data;
        uint64_t seq;
        size_t len;
        int r;

        r = otlp_encode_metrics(t->otlp, &data, &len);
        if (r == -ENODATA)
                return 0;
        if (r >= 0)
                r = uplink_submit(spool_for(t, UPLINK_METRICS), UPLINK_METRICS, data, len, &seq);
        otlp_drop_output(t->otlp);
        if (r < 0)
                t->lost++;
        return r;
}

static int add_point(struct telemetry *t, const struct sample_slot *slot) {
        const struct sample *m = &slot->sample;
        struct otlp_attribute attributes[ELEMENTSOF(m->keys)];
        struct otlp_histogram h;
        struct otlp_point p = {
                .name = m->name,
                .unit = m->unit ? m->unit : "",
                .description = m->description ? m->description : "",
                .counter = m->kind == SAMPLE_COUNTER,
                .histogram = m->kind == SAMPLE_HISTOGRAM ? &h : NULL,
                .is_int = m->is_int,
                .time_real = slot->time_real,
                .start_real = slot->start_real,
                .attributes = attributes,
        };

        if (m->kind == SAMPLE_HISTOGRAM)
                h = (struct otlp_histogram){ .count = m->h->count,
                                             .sum = m->h->sum,
                                             .min = m->h->min,
                                             .max = m->h->max,
                                             .bounds = m->h->bounds,
                                             .counts = m->h->counts,
                                             .n_bounds = m->h->n_bounds };
        else if (m->is_int)
                p.i = m->i;
        else
                p.d = m->d;
        for (size_t k = 0; k < ELEMENTSOF(m->keys); k++)
                if (m->keys[k])
                        attributes[p.n_attributes++] =
                                (struct otlp_attribute){ .key = m->keys[k], .text = m->values[k] };
        return otlp_add_point(t->otlp, &p);
}

int telemetry_push(struct telemetry *t, struct sample_store *s) {
        int first = 0, r;

        for (size_t i = 0; i < s->n; i++) {
                if (!s->slots[i].fresh)
                        continue;
                s->slots[i].fresh = false;
                r = add_point(t, &s->slots[i]);
                if (r == -E2BIG) { /* the request is full: send it and begin anew */
                        r = submit_points(t);
                        first = first < 0 ? first : r;
                        r = add_point(t, &s->slots[i]);
                }
                if (r < 0) {
                        t->lost++;
                        first = first < 0 ? first : r;
                }
        }
        r = submit_points(t);
        return first < 0 ? first : r;
}

int telemetry_event(struct telemetry *t, const char *name, enum severity severity, usec_t time_real,
                    const struct otlp_attribute *body, size_t n, uint64_t *ret_seq) {
        struct otlp_attribute identity[] = { { .key = "tpu.spool.id" },
                                             { .key = "tpu.spool.class" },
                                             { .key = "tpu.spool.seq" } };
        struct otlp_event e = {
                .name = name,
                .severity = severity,
                .time_real = time_real,
                .body = body,
                .n_body = n,
        };
        struct uplink *u = spool_for(t, UPLINK_EVENTS);
        uint64_t seq = 0, spool;
        char spool_text[17];
        const void *data;
        size_t len;
        int r;

        if (ret_seq && u == t->spare)
                return -EAGAIN;
        /* The same names as in the header of the push, so that a store behind any receiver can drop repeats.
         */
        if (uplink_next(u, UPLINK_EVENTS, &spool, &seq) >= 0) {
                (void) snprintf(spool_text, sizeof(spool_text), "%016" PRIx64, spool);
                identity[0].text = spool_text;
                identity[1].text = uplink_class_name(UPLINK_EVENTS);
                identity[2].number = (int64_t) seq;
                e.attributes = identity;
                e.n_attributes = ELEMENTSOF(identity);
        }
        r = otlp_encode_event(t->otlp, &e, &data, &len);
        if (r >= 0)
                r = uplink_submit(u, UPLINK_EVENTS, data, len, &seq);
        otlp_drop_output(t->otlp);
        if (r < 0) {
                t->lost++;
                return r;
        }
        if (ret_seq)
                *ret_seq = seq;
        return 0;
}
