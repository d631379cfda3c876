/* SPDX-License-Identifier: Apache-2.0 */
#include "remote_request.h"

#include <ctype.h>
#include <jansson.h>
#include <math.h>

#include "grow.h"
#include "metric_name.h"
#include "remote.pb-c.h"

#define TARGET_NAME "target_info"
#define NAME_MAX_SUFFIXED (METRIC_NAME_MAX + 16)
#define KEY_MAX 128
#define NUMBER_MAX 32

double remote_stale_marker(void) {
        static const uint64_t bits = UINT64_C(0x7ff0000000000002);
        double d;

        memcpy(&d, &bits, sizeof(d));
        return d;
}

void remote_request_clear(struct remote_request *q) {
        free(q->data);
        *q = (struct remote_request) { 0 };
}

void remote_request_begin(struct remote_request *q) {
        q->len = q->samples = q->unnamed = q->too_large = q->halves = 0;
        q->last[0] = '\0';
}

/* --- Names ----------------------------------------------------------------------------------------- */

static const struct metric_def *find_metric(const char *name, size_t len) {
        for (enum metric_id i = 0; i < _METRIC_MAX; i++) {
                const struct metric_def *d = metric_def(i);

                if (strlen(d->name) == len && memcmp(d->name, name, len) == 0)
                        return d;
        }
        return NULL;
}

const struct metric_def *remote_metric_of(const struct handed_series *one, const char **ret_part) {
        const char *dot = strrchr(one->name, '.');
        const struct metric_def *d;

        *ret_part = "";
        if (!streq(one->service, AGENT_SERVICE))
                return NULL;
        if (dot && (streq(dot, ".count") || streq(dot, ".sum"))) {
                d = find_metric(one->name, (size_t) (dot - one->name));
                if (d && d->kind == SAMPLE_HISTOGRAM) {
                        *ret_part = dot + 1;
                        return d;
                }
        }
        return find_metric(one->name, strlen(one->name));
}

/* -ENAMETOOLONG, -EINVAL. */
static int name_series(const struct handed_series *one, char buf[static NAME_MAX_SUFFIXED]) {
        const char *part;
        const struct metric_def *d = remote_metric_of(one, &part);
        struct sample m = { .name = one->name, .unit = one->unit };
        int r;

        if (d)
                m = (struct sample){ .name = d->name, .unit = d->unit, .kind = d->kind };
        r = metric_name(&m, buf);
        if (r < 0)
                return r;
        if (*part)
                (void) sprintf(buf + strlen(buf), "_%s", part);
        else if (m.kind == SAMPLE_COUNTER)
                (void) strcpy(buf + strlen(buf), "_total");
        return isalpha((unsigned char) buf[0]) || buf[0] == '_' ? 0 : -EINVAL;
}

/* --- Labels ---------------------------------------------------------------------------------------- */

struct labels {
        Remote__Label items[REMOTE_LABELS_MAX];
        Remote__Label *sorted[REMOTE_LABELS_MAX];
        char keys[REMOTE_LABELS_MAX][KEY_MAX], numbers[REMOTE_LABELS_MAX][NUMBER_MAX];
        size_t n;
        bool full;
};

/* An empty label is none. The first of a name counts. */
static void put_label(struct labels *l, const char *key, const char *value) {
        char *name;

        if (!value || !*value)
                return;
        if (l->n == REMOTE_LABELS_MAX) {
                l->full = true;
                return;
        }
        name = l->keys[l->n];
        (void) snprintf(name, KEY_MAX, "%s%s", isdigit((unsigned char) *key) ? "_" : "", key);
        metric_underscore(name);
        for (size_t i = 0; i < l->n; i++)
                if (streq(l->items[i].name, name))
                        return;
        l->items[l->n] = (Remote__Label) REMOTE__LABEL__INIT;
        l->items[l->n].name = name;
        l->items[l->n].value = (char *) (uintptr_t) value; /* protobuf-c only reads it */
        l->n++;
}

static void put_number(struct labels *l, const char *key, int64_t value) {
        char *text = l->n < REMOTE_LABELS_MAX ? l->numbers[l->n] : NULL;

        if (text)
                (void) snprintf(text, NUMBER_MAX, "%" PRId64, value);
        put_label(l, key, text ?: "-");
}

static void put_attribute(struct labels *l, const char *key, const json_t *v) {
        if (json_is_integer(v))
                put_number(l, key, json_integer_value(v));
        else if (json_is_boolean(v))
                put_label(l, key, json_is_true(v) ? "true" : "false");
        else
                put_label(l, key, json_string_value(v));
}

static int by_key(const void *a, const void *b) {
        const Remote__Label *const *x = a, *const *y = b;

        return strcmp((*x)->name, (*y)->name);
}

static void begin_labels(struct labels *l, const struct handed_series *one, const char *name) {
        l->n = 0;
        l->full = false;
        put_label(l, "__name__", name);
        put_label(l, "job", one->service);
        put_label(l, "instance", one->host);
}

/* --- The request ----------------------------------------------------------------------------------- */

/* A request of one series: requests put behind each other are one request (protobuf, merging). */
static int pack_series(struct remote_request *q, struct labels *l, const struct handed_point *p, size_t n,
                       const double *value) {
        Remote__TimeSeries series = REMOTE__TIME_SERIES__INIT, *list[] = { &series };
        Remote__WriteRequest request = REMOTE__WRITE_REQUEST__INIT;
        _cleanup_free_ Remote__Sample *samples = calloc(n, sizeof(*samples)),
                       **pointers = calloc(n, sizeof(*pointers));
        size_t len;

        if (!samples || !pointers)
                return -ENOMEM;
        for (size_t i = 0; i < n; i++) {
                samples[i] = (Remote__Sample) REMOTE__SAMPLE__INIT;
                samples[i].value = value ? *value : p[i].d;
                samples[i].timestamp = p[i].ms;
                pointers[i] = &samples[i];
        }
        for (size_t i = 0; i < l->n; i++)
                l->sorted[i] = &l->items[i];
        qsort(l->sorted, l->n, sizeof(*l->sorted), by_key);
        series.labels = l->sorted;
        series.n_labels = l->n;
        series.samples = pointers;
        series.n_samples = n;
        request.timeseries = list;
        request.n_timeseries = 1;
        len = remote__write_request__get_packed_size(&request);
        if (grow(&q->data, &q->size, q->len + len, 1) < 0)
                return -ENOMEM;
        q->len += remote__write_request__pack(&request, q->data + q->len);
        q->samples += n;
        return 0;
}

/* Once for each host of a request: what rules and dashboards join series with. */
static int add_target(struct remote_request *q, const struct handed_series *one) {
        static const double is_there = 1;
        struct labels l;

        if (!streq(one->service, AGENT_SERVICE) || streq(q->last, one->host))
                return 0;
        (void) snprintf(q->last, sizeof(q->last), "%s", one->host);
        begin_labels(&l, one, TARGET_NAME);
        put_label(&l, "host_name", one->host);
        put_label(&l, "service_name", one->service);
        put_label(&l, "service_version", one->version);
        put_label(&l, "tpu_slice_name", one->slice);
        if (one->worker_id >= 0)
                put_number(&l, "tpu_worker_id", one->worker_id);
        put_label(&l, "tpu_accelerator_type", one->accelerator_type);
        return pack_series(q, &l, one->points, one->n, &is_there);
}

int remote_request_add(struct remote_request *q, const struct handed_series *one) {
        json_t *attributes = json_loads(one->attributes, 0, NULL), *v;
        char name[NAME_MAX_SUFFIXED];
        struct labels l;
        const char *key;
        int r = name_series(one, name);

        if (r == 0) {
                begin_labels(&l, one, name);
                json_object_foreach (attributes, key, v)
                        put_attribute(&l, key, v);
                put_label(&l, "tpu_slice_name", one->slice);
        }
        if (r < 0 || l.full) {
                q->unnamed += one->n;
                r = 0;
        } else {
                r = isnan(one->points->d) ? 0 : add_target(q, one);
                if (r == 0)
                        r = pack_series(q, &l, one->points, one->n, NULL);
        }
        json_decref(attributes);
        return r;
}

/*
 * snappy (format_description.txt): the length as a varint, then literals of at most 64 KiB, each with a tag
 * that says that two bytes of its length, less one, follow.
 */
#define LITERAL_MAX 65536
#define LITERAL_TAG (61 << 2)

int remote_request_end(struct remote_request *q) {
        size_t size = 10 + q->len + 3 * (q->len / LITERAL_MAX + 1), n = 0;
        uint8_t *framed = malloc(size);

        if (!framed)
                return -ENOMEM;
        for (size_t v = q->len; n == 0 || v > 0; v >>= 7)
                framed[n++] = (uint8_t) ((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        for (size_t at = 0, len; at < q->len; at += len) {
                len = MIN(q->len - at, (size_t) LITERAL_MAX);
                framed[n++] = LITERAL_TAG;
                framed[n++] = (uint8_t) (len - 1);
                framed[n++] = (uint8_t) ((len - 1) >> 8);
                memcpy(framed + n, q->data + at, len);
                n += len;
        }
        free(q->data);
        q->data = framed;
        q->len = n;
        q->size = size;
        return 0;
}
