/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "libtpu_reading.h"

static double number_of(const struct sample *s) {
        return s->is_int ? (double) s->i : s->d;
}

/* Held at the top: what a process says is not to be trusted. */
static int64_t sum_queued(int64_t a, int64_t b) {
        return a < 0 ? b : a > INT64_MAX - b ? INT64_MAX : a + b;
}

/* What the transport between slices says comes first: it names who is to blame. */
static void take_error(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p) {
        if (number_of(&p->sample) == 0)
                return;
        r->error = true;
        if (!r->error_type[0] || id == LIBTPU_MEGASCALE_ERROR)
                (void) snprintf(r->error_type, sizeof(r->error_type), "%s", p->values[0]);
}

void libtpu_reading_take(struct libtpu_reading *r, enum libtpu_metric id, const struct libtpu_point *p) {
        double d;

        if (p->sample.kind != SAMPLE_GAUGE)
                return;
        d = number_of(&p->sample);
        if (id == LIBTPU_DUTY_CYCLE)
                r->duty_cycle = isnan(r->duty_cycle) ? d : MIN(r->duty_cycle, d);
        else if (id == LIBTPU_IDLE)
                r->idle_seconds = isnan(r->idle_seconds) ? d : MAX(r->idle_seconds, d);
        else if (id == LIBTPU_HLO_QUEUE && p->sample.is_int && p->sample.i >= 0)
                r->queued = sum_queued(r->queued, p->sample.i);
        else if (id == LIBTPU_MEGASCALE_ERROR || id == LIBTPU_SLICE_ERROR)
                take_error(r, id, p);
}
