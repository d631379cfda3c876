/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "libtpu_answer.h"

/* --- Bounds -------------------------------------------------------------------------------------------- */

/* Adds one; false: it does not rise, is no number, or there are too many. */
static bool add_bound(struct libtpu_reader *r, double bound, double factor) {
        size_t *n = &r->histogram.n_bounds;

        bound *= factor;
        if (!isfinite(bound) || *n >= LIBTPU_BOUNDS_MAX || (*n > 0 && bound <= r->bounds[*n - 1]))
                return false;
        r->bounds[(*n)++] = bound;
        return true;
}

static bool linear(struct libtpu_reader *r, int32_t finite, double width, double offset, double factor) {
        if (finite < 0 || finite >= LIBTPU_BOUNDS_MAX)
                return false;
        for (int32_t i = 0; i <= finite; i++)
                if (!add_bound(r, offset + width * i, factor))
                        return false;
        return true;
}

static bool exponential(struct libtpu_reader *r, const Libtpu__Exponential *e, double factor) {
        double bound = e->scale;

        if (e->num_finite_buckets < 0 || e->num_finite_buckets >= LIBTPU_BOUNDS_MAX)
                return false;
        for (int32_t i = 0; i <= e->num_finite_buckets; i++, bound *= e->growth_factor)
                if (!add_bound(r, bound, factor))
                        return false;
        return true;
}

/* The deprecated form: one bound is a linear sequence, several are each bucket's width behind the one
 * before. */
static bool regular(struct libtpu_reader *r, const Libtpu__Regular *g, double factor) {
        if (g->n_bounds == 0)
                return false;
        if (g->n_bounds == 1)
                return linear(r, g->num_finite_buckets, g->bounds[0]->width, g->bounds[0]->offset, factor);
        for (size_t i = 0; i < g->n_bounds; i++)
                if (!add_bound(r, g->bounds[i]->offset, factor))
                        return false;
        return add_bound(r, g->bounds[g->n_bounds - 1]->offset + g->bounds[g->n_bounds - 1]->width, factor);
}

static bool read_bounds(struct libtpu_reader *r, const Libtpu__BucketOptions *o, double factor) {
        r->histogram.n_bounds = 0;
        if (!o)
                return true;             /* one bucket that takes all */
        switch ((int) o->options_case) { /* protobuf-c's padding member has another name before 1.4 */
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_REGULAR_BUCKETS:
                return regular(r, o->regular_buckets, factor);
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPONENTIAL_BUCKETS:
                return exponential(r, o->exponential_buckets, factor);
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_LINEAR_BUCKETS:
                return linear(r, o->linear_buckets->num_finite_buckets, o->linear_buckets->width,
                              o->linear_buckets->offset, factor);
        case LIBTPU__BUCKET_OPTIONS__OPTIONS_EXPLICIT_BUCKETS:
                for (size_t i = 0; i < o->explicit_buckets->n_bounds; i++)
                        if (!add_bound(r, o->explicit_buckets->bounds[i], factor))
                                return false;
                return true;
        default:
                break;
        }
        return true;
}

/* --- Distributions ------------------------------------------------------------------------------------- */

/* Counts behind the last one that is not zero may be left out. Their sum has to be the count. */
static bool read_counts(struct libtpu_reader *r, const Libtpu__Distribution *d) {
        size_t n = r->histogram.n_bounds + 1;
        uint64_t sum = 0;

        memset(r->counts, 0, n * sizeof(*r->counts));
        if (d->n_bucket_counts == 0) {
                if (r->histogram.n_bounds > 0)
                        return d->count == 0;
                r->counts[0] = (uint64_t) d->count;
                return true;
        }
        if (d->n_bucket_counts > n)
                return false;
        for (size_t i = 0; i < d->n_bucket_counts; i++) {
                if (d->bucket_counts[i] < 0 || d->bucket_counts[i] > d->count - (int64_t) sum)
                        return false;
                r->counts[i] = (uint64_t) d->bucket_counts[i];
                sum += r->counts[i];
        }
        return sum == (uint64_t) d->count;
}

bool libtpu_distribution_read(struct libtpu_reader *r, const Libtpu__Distribution *d, double factor) {
        struct sample_histogram *h = &r->histogram;
        double sum = d->mean * (double) d->count * factor;

        if (d->count < 0 || !isfinite(sum) || !read_bounds(r, d->bucket_options, factor) ||
            !read_counts(r, d))
                return false;
        h->count = (uint64_t) d->count;
        h->sum = sum;
        h->min = h->max = NAN;
        if (d->count > 0 && isfinite(d->min) && isfinite(d->max) && d->min <= d->max &&
            (d->min != 0 || d->max != 0)) {
                h->min = d->min * factor;
                h->max = d->max * factor;
        }
        h->bounds = r->bounds;
        h->counts = r->counts;
        return true;
}

/* --- Summaries ----------------------------------------------------------------------------------------- */

/* Values at most that of quantile q: q of all. Two quantiles of one value are one bound, with the greater
 * share. */
static bool add_quantile(struct libtpu_reader *r, const Libtpu__Quantile *q, uint64_t count, double factor,
                         uint64_t *below) {
        size_t n = r->histogram.n_bounds;
        uint64_t share;

        if (!(q->quantile >= 0 && q->quantile <= 1) || !isfinite(q->value * factor))
                return false;
        share = (uint64_t) (q->quantile * (double) count);
        share = MIN(share, count);
        if (share < *below)
                return false;
        if (n > 0 && q->value * factor == r->bounds[n - 1])
                n--;
        else if (!add_bound(r, q->value, factor))
                return false;
        else
                r->counts[n] = 0;
        r->counts[n] += share - *below;
        *below = share;
        return true;
}

bool libtpu_summary_read(struct libtpu_reader *r, const Libtpu__Summary *s, double factor) {
        struct sample_histogram *h = &r->histogram;
        uint64_t below = 0;

        if (!isfinite(s->sample_sum * factor) || s->sample_count > INT64_MAX)
                return false;
        h->n_bounds = 0;
        for (size_t i = 0; i < s->n_quantile; i++)
                if (!add_quantile(r, s->quantile[i], s->sample_count, factor, &below))
                        return false;
        r->counts[h->n_bounds] = s->sample_count - below;
        h->count = s->sample_count;
        h->sum = s->sample_sum * factor;
        h->min = h->max = NAN;
        h->bounds = r->bounds;
        h->counts = r->counts;
        return true;
}
