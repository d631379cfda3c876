/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The middle of some values and how far they usually lie from it. values is sorted, then overwritten. */
#include <math.h>
#include <stdlib.h>

/* A normal distribution's standard deviation is this many median absolute deviations. */
#define NORMAL_MAD 1.4826

static inline int compare_numbers(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return x < y ? -1 : x > y;
}

/* 0 of none. */
static inline double median_of(double *values, size_t n) {
        qsort(values, n, sizeof(*values), compare_numbers);
        if (n == 0)
                return 0;
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static inline double deviation_of(double *values, size_t n, double middle) {
        for (size_t i = 0; i < n; i++)
                values[i] = fabs(values[i] - middle);
        return median_of(values, n) * NORMAL_MAD;
}
