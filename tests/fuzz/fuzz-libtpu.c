/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process says on libtpu's port. First byte: what was asked (the list, the cores, or a metric). What
 * is taken is sound: labels printable and short, numbers finite, a histogram's bounds rising and its counts
 * whole.
 */
#include <assert.h>
#include <math.h>

#include "libtpu_status.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_histogram(const struct sample_histogram *h) {
        uint64_t sum = 0;

        assert(h->n_bounds <= LIBTPU_BOUNDS_MAX && isfinite(h->sum));
        assert(isnan(h->min) == isnan(h->max) && !(h->min > h->max));
        for (size_t i = 0; i <= h->n_bounds; i++) {
                sum += h->counts[i];
                if (i < h->n_bounds)
                        assert(isfinite(h->bounds[i]) && (i == 0 || h->bounds[i] > h->bounds[i - 1]));
        }
        assert(sum == h->count);
}

static void check_text(const char *s, size_t max) {
        assert(strlen(s) < max);
        for (const char *c = s; *c; c++)
                assert((unsigned char) *c >= ' ' && *c != 0x7f);
}

static void take(const struct libtpu_point *p, void *userdata) {
        struct libtpu_reading *r = userdata;

        assert(p->sample.name && p->n_attributes <= LIBTPU_ATTRIBUTES_MAX);
        for (size_t k = 0; k < LIBTPU_KEYS; k++)
                if (p->values[k])
                        check_text(p->values[k], LIBTPU_TEXT_MAX);
        if (p->sample.kind == SAMPLE_HISTOGRAM)
                check_histogram(p->sample.h);
        else
                assert(p->sample.is_int || isfinite(p->sample.d));
        for (enum libtpu_metric id = 0; id < _LIBTPU_METRIC_MAX; id++)
                libtpu_reading_take(r, id, p);
}

static void read_cores(struct libtpu_reader *r, const uint8_t *data, size_t size) {
        static struct libtpu_status s;

        s = (struct libtpu_status){ .n = 0 };
        (void) libtpu_status_read(r, data, size, &s);
        (void) libtpu_status_read(r, data, size, &s); /* as of a second process: nothing is there twice */
        assert(s.n <= LIBTPU_CORES_MAX);
        for (size_t i = 0; i < s.n; i++) {
                check_text(s.cores[i].location, LIBTPU_LOCATION_MAX);
                check_text(s.cores[i].error, LIBTPU_LOCATION_MAX);
                check_text(s.cores[i].fingerprint, LIBTPU_FINGERPRINT_MAX);
                assert(i == 0 || s.cores[i].core > s.cores[i - 1].core);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
        struct libtpu_reading reading = LIBTPU_READING_NULL;
        bool offered[_LIBTPU_METRIC_MAX];
        _cleanup_libtpu_reader_ struct libtpu_reader r;

        if (size < 1)
                return 0;
        libtpu_reader_init(&r);
        if (data[0] == 255)
                (void) libtpu_list_read(&r, data + 1, size - 1, offered);
        else if (data[0] == 254)
                read_cores(&r, data + 1, size - 1);
        else
                (void) libtpu_metric_read(&r, (enum libtpu_metric)(data[0] % _LIBTPU_METRIC_MAX), data + 1,
                                          size - 1,
                                          1795237200 * USEC_PER_SEC, take, &reading);
        assert(r.memory.total <= LIBTPU_MEMORY_MAX);
        return 0;
}
