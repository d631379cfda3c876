/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_otlp.h"

#include <jansson.h>
#include <math.h>

#include "grow.h"
#include "gzip.h"
#include "remote_request.h"

/* The count of a histogram, which the store keeps beside its sum. */
struct remote_counts {
        char *name, *attributes; /* name: of the histogram */
        const struct handed_point *points;
        size_t n;
};

/* --- Resources ------------------------------------------------------------------------------------- */

static void drop_counts(struct remote_otlp *b) {
        for (size_t i = 0; i < b->n_counts; i++) {
                b->q->halves += b->counts[i].n;
                free(b->counts[i].name);
                free(b->counts[i].attributes);
        }
        b->n_counts = 0;
}

void remote_otlp_clear(struct remote_otlp *b) {
        drop_counts(b);
        free(b->counts);
        b->one = otlp_free(b->one);
}

/* What was added of the resource at hand goes behind what is there: together they are one request. */
static int append(struct remote_otlp *b) {
        const void *data;
        size_t len;
        int r = -ENODATA;

        if (b->one)
                r = b->is_logs ? otlp_encode_lines(b->one, &data, &len) :
                                 otlp_encode_metrics(b->one, &data, &len);
        if (r == -ENODATA)
                return 0;
        if (r < 0 || grow(&b->q->data, &b->q->size, b->q->len + len, 1) < 0)
                return -ENOMEM;
        memcpy(b->q->data + b->q->len, data, len);
        b->q->len += len;
        return 0;
}

static int make_resource(struct remote_otlp *b, const struct remote_resource *w) {
        bool is_agent = streq(w->service, AGENT_SERVICE);
        char worker[24] = "";
        const struct otlp_attribute all[] = {
                { .key = "host.name", .text = w->host },
                { .key = "service.name", .text = w->service },
                { .key = "service.instance.id", .text = w->host },
                { .key = "service.version", .text = is_agent ? w->version : NULL },
                { .key = "tpu.slice.name", .text = w->slice },
                { .key = "tpu.worker.id", .text = w->worker_id >= 0 ? worker : NULL },
                { .key = "tpu.accelerator.type", .text = w->accelerator_type },
                { .key = "tpu.run.name", .text = w->run },
        };
        struct otlp_attribute known[ELEMENTSOF(all)];
        size_t n = 0;

        (void) snprintf(worker, sizeof(worker), "%" PRId64, w->worker_id);
        for (size_t i = 0; i < ELEMENTSOF(all); i++)
                if (all[i].text && *all[i].text)
                        known[n++] = all[i];
        return otlp_new(known, n, is_agent ? w->version ?: "" : NULL, &b->one);
}

struct described {
        struct remote_otlp *b;
        const struct remote_resource *whose;
};

static int on_host(const struct store_host *h, void *userdata) {
        const struct described *d = userdata;
        struct remote_resource whole = *d->whose;
        int r;

        whole.accelerator_type = h->accelerator_type;
        whole.version = h->version;
        r = make_resource(d->b, &whole);
        return r < 0 ? r : 1;
}

/* What comes next is of this one. */
static int turn_to(struct remote_otlp *b, const struct remote_resource *w) {
        char text[REMOTE_RESOURCE_MAX];
        int r;

        (void) snprintf(text, sizeof(text), "%s\n%s\n%s\n%s\n%" PRId64, w->host, w->service, w->slice ?: "",
                        w->run ?: "", w->worker_id);
        if (b->one && streq(b->resource, text))
                return 0;
        r = append(b);
        if (r < 0)
                return r;
        b->one = otlp_free(b->one);
        memcpy(b->resource, text, sizeof(text));
        r = b->store ? store_list_hosts(b->store, w->host, on_host, &(struct described){ b, w }) : 0;
        return r != 0 ? MIN(r, 0) : make_resource(b, w);
}

/* --- Series ---------------------------------------------------------------------------------------- */

static int add_point(struct remote_otlp *b, const struct otlp_point *p) {
        int r = otlp_add_point(b->one, p);

        if (r == -E2BIG) {
                r = append(b);
                if (r == 0)
                        r = otlp_add_point(b->one, p);
        }
        if (r == -E2BIG || r == -EINVAL) { /* alone, too; or its name is another kind's */
                b->q->too_large++;
                return 0;
        }
        b->q->samples += r == 0;
        return r;
}

static int add_numbers(struct remote_otlp *b, const struct handed_series *one, const struct metric_def *d,
                       json_t *labels) {
        struct otlp_point p = { .name = one->name,
                                .unit = one->unit,
                                .description = d ? d->description : NULL,
                                .counter = d && d->kind == SAMPLE_COUNTER,
                                .labels = labels };
        int r = 0;

        for (size_t i = 0; i < one->n && r == 0; i++) {
                p.is_int = one->points[i].is_int;
                p.time_real = (usec_t) one->points[i].ms * USEC_PER_MSEC;
                if (p.is_int)
                        p.i = one->points[i].i;
                else
                        p.d = one->points[i].d;
                r = add_point(b, &p);
        }
        return r;
}

/* Counts come before their sums: series are sorted by name. */
static int keep_counts(struct remote_otlp *b, const struct handed_series *one, const struct metric_def *d) {
        struct remote_counts c = { .points = one->points, .n = one->n };

        if (!streq(b->host, one->host)) {
                drop_counts(b);
                (void) snprintf(b->host, sizeof(b->host), "%s", one->host);
        }
        if (grow(&b->counts, &b->size_counts, b->n_counts + 1, sizeof(c)) < 0)
                return -ENOMEM;
        c.name = strdup(d->name);
        c.attributes = strdup(one->attributes);
        b->counts[b->n_counts++] = c;
        return c.name && c.attributes ? 0 : -ENOMEM;
}

static struct remote_counts *find_counts(struct remote_otlp *b, const char *host, const char *name,
                                         const char *attributes) {
        for (size_t i = 0; i < b->n_counts && streq(b->host, host); i++)
                if (streq(b->counts[i].name, name) && streq(b->counts[i].attributes, attributes))
                        return &b->counts[i];
        return NULL;
}

/* The value of the sum at that time; NAN: none. *at goes on from point to point. */
static double sum_at(const struct handed_series *sums, int64_t ms, size_t *at) {
        while (*at < sums->n && sums->points[*at].ms < ms)
                ++*at;
        return *at < sums->n && sums->points[*at].ms == ms ? sums->points[*at].d : (double) NAN;
}

static int add_histogram(struct remote_otlp *b, const struct handed_series *sums, const struct metric_def *d,
                         json_t *labels) {
        struct remote_counts *c = find_counts(b, sums->host, d->name, sums->attributes);
        struct otlp_histogram h = { .min = (double) NAN, .max = (double) NAN };
        const struct otlp_point p = { .name = d->name, .unit = d->unit, .description = d->description,
                                      .histogram = &h, .labels = labels };
        size_t at = 0;
        int r = 0;

        if (!c) {
                b->q->halves += sums->n;
                return 0;
        }
        for (size_t i = 0; i < c->n && r == 0; i++) {
                struct otlp_point one = p;

                h.count = (uint64_t) MAX(c->points[i].i, INT64_C(0));
                h.counts = &h.count;
                h.sum = sum_at(sums, c->points[i].ms, &at);
                one.time_real = (usec_t) c->points[i].ms * USEC_PER_MSEC;
                r = add_point(b, &one);
        }
        c->n = 0; /* it is in */
        return r;
}

int remote_otlp_series(const struct handed_series *one, void *remote_otlp) {
        const struct remote_resource whose = { .host = one->host,
                                               .service = one->service,
                                               .slice = one->slice,
                                               .accelerator_type = one->accelerator_type,
                                               .version = one->version,
                                               .worker_id = one->worker_id };
        struct remote_otlp *b = remote_otlp;
        const char *part;
        const struct metric_def *d = remote_metric_of(one, &part);
        json_t *labels;
        int r;

        if (streq(part, "count"))
                return keep_counts(b, one, d);
        r = turn_to(b, &whose);
        if (r < 0)
                return r;
        labels = json_loads(one->attributes, 0, NULL);
        r = streq(part, "sum") ? add_histogram(b, one, d, labels) : add_numbers(b, one, d, labels);
        json_decref(labels);
        return r;
}

/* --- Records --------------------------------------------------------------------------------------- */

static int add_record(struct remote_otlp *b, const struct remote_resource *whose,
                      const struct otlp_event *e) {
        int r = turn_to(b, whose);

        if (r < 0)
                return r;
        r = otlp_add_line(b->one, e, OTLP_REQUEST_MAX);
        if (r == -E2BIG) {
                r = append(b);
                if (r == 0)
                        r = otlp_add_line(b->one, e, OTLP_REQUEST_MAX);
        }
        if (r == -E2BIG) {
                b->q->too_large++;
                return 0;
        }
        b->q->samples += r == 0;
        return r;
}

int remote_otlp_event(struct remote_otlp *b, const struct store_event_row *e) {
        const struct remote_resource whose = { .host = e->host,
                                               .service = e->event.service,
                                               .slice = e->slice,
                                               .worker_id = e->worker_id };
        json_t *body = json_loads(e->event.body, JSON_DECODE_ANY, NULL),
               *attributes = json_loads(e->event.attributes, 0, NULL);
        const struct otlp_event record = { .name = e->event.name,
                                           .severity = (enum severity) e->event.severity,
                                           .time_real = e->event.time,
                                           .json_body = body,
                                           .json_attributes = attributes };
        int r = add_record(b, &whose, &record);

        json_decref(body);
        json_decref(attributes);
        return r;
}

/* As the agent sent it, so that another collector knows it for a line of a run. */
int remote_otlp_line(struct remote_otlp *b, const struct store_line_row *l) {
        const struct store_line *line = &l->line;
        const struct remote_resource whose = { .host = l->host,
                                               .service = AGENT_SERVICE,
                                               .slice = line->slice,
                                               .run = line->run,
                                               .worker_id = line->worker_id };
        struct otlp_attribute attributes[8] = {
                { .key = "tpu.run.name", .text = line->run },
                { .key = "tpu.run.invocation", .text = line->invocation },
                { .key = "tpu.run.line", .number = line->number },
                { .key = "tpu.run.priority", .number = (int64_t) line->priority },
        };
        size_t n = 4;

        if (line->generation >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.run.generation",
                                                           .number = line->generation };
        if (line->slice)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.slice.name", .text = line->slice };
        if (line->worker_id >= 0)
                attributes[n++] = (struct otlp_attribute){ .key = "tpu.worker.id",
                                                           .number = line->worker_id };
        return add_record(b, &whose, &(struct otlp_event){ .name = "tpu.run.line",
                                                           .severity = severity_of_priority(line->priority),
                                                           .time_real = line->time,
                                                           .text = line->text,
                                                           .attributes = attributes,
                                                           .n_attributes = n });
}

/* --- The request ----------------------------------------------------------------------------------- */

int remote_otlp_end(struct remote_otlp *b) {
        struct remote_request *q = b->q;
        uint8_t *packed;
        size_t len;
        int r = append(b);

        drop_counts(b);
        packed = r == 0 && q->len >= GZIP_LEAST ? malloc(q->len) : NULL;
        len = packed ? gzip_pack(q->data, q->len, packed, q->len) : 0;
        if (len > 0) {
                memcpy(q->data, packed, len);
                q->len = len;
        }
        free(packed);
        return r;
}
