/* SPDX-License-Identifier: Apache-2.0 */
#include "activity.h"

#define CORES_MORE 1.5 /* a compiler takes so many more than steps do, */
#define CORES_TIMES 1.5
#define WRITTEN_MORE (4.0 * 1024 * 1024) /* bytes a second: far above what a log takes, */
#define WRITTEN_TIMES 4.0
#define NET_TELLS 50e3 /* bytes a second: below, the network says nothing of a run */
#define LATELY (10 * USEC_PER_SEC)

static double rate(int64_t from, int64_t to, usec_t span) {
        return from < 0 || to < from ? -1 : (double) (to - from) * USEC_PER_SEC / (double) span;
}

struct activity_rate activity_between(const struct activity_reading *from, const struct activity_reading *to) {
        usec_t span = to->at > from->at ? to->at - from->at : 0;
        struct activity_rate r = { .cores = -1, .written = -1, .net = -1 };

        if (from->at == 0 || span == 0)
                return r;
        r.cores = rate(from->cpu_usec, to->cpu_usec, span);
        if (r.cores > 0)
                r.cores /= USEC_PER_SEC;
        r.written = rate(from->written_bytes, to->written_bytes, span);
        r.net = rate(from->net_bytes, to->net_bytes, span);
        return r;
}

void activity_take(struct activity *a, const struct activity_reading *r, bool calm) {
        if (calm && a->last.at > 0 && r->at > a->last.at) {
                a->pending = activity_between(&a->last, r);
                a->pends = true;
        }
        if (a->mark.at == 0)
                a->mark = a->mid = *r;
        else if (r->at >= a->mid.at + LATELY) {
                a->mark = a->mid;
                a->mid = *r;
        }
        a->last = *r;
}

void activity_stepped(struct activity *a, bool in_time) {
        if (a->pends && in_time) {
                a->usual[a->next] = a->pending;
                a->next = (a->next + 1) % ACTIVITY_KEPT;
                a->n = MIN(a->n + 1, ACTIVITY_KEPT);
        }
        a->pends = false;
        a->mark.at = 0;
}

struct activity_rate activity_since(const struct activity *a) {
        return activity_between(&a->mark, &a->last);
}

static int compare(const void *a, const void *b) {
        double x = *(const double *) a, y = *(const double *) b;

        return x < y ? -1 : x > y;
}

/* Of what is known among one column of the rates. */
static double median(const struct activity *a, size_t offset) {
        double known[ACTIVITY_KEPT];
        size_t n = 0;

        for (uint32_t i = 0; i < a->n; i++) {
                double v = *(const double *) (const void *) ((const char *) &a->usual[i] + offset);

                if (v >= 0)
                        known[n++] = v;
        }
        if (n < ACTIVITY_ENOUGH)
                return -1;
        qsort(known, n, sizeof(known[0]), compare);
        return known[n / 2];
}

struct activity_rate activity_usual(const struct activity *a) {
        return (struct activity_rate){ .cores = median(a, offsetof(struct activity_rate, cores)),
                                       .written = median(a, offsetof(struct activity_rate, written)),
                                       .net = median(a, offsetof(struct activity_rate, net)) };
}

static bool about(double usual, double now) {
        return usual >= 0 && now >= usual / 4 && now <= usual * 4;
}

static bool as_usual(const struct activity_rate *usual, const struct activity_rate *now) {
        return usual->net >= NET_TELLS && about(usual->net, now->net) && about(usual->cores, now->cores);
}

bool activity_is_work(const struct activity_rate *usual, const struct activity_rate *now) {
        bool cores = now->cores >= 0 && usual->cores >= 0 && now->cores >= usual->cores + CORES_MORE &&
                     now->cores >= usual->cores * CORES_TIMES;

        return cores || as_usual(usual, now) || (now->written >= WRITTEN_MORE && now->written >= WRITTEN_TIMES * MAX(usual->written, 0));
}

/* --- Silence ------------------------------------------------------------------------------------------- */

#define NET_USUAL 100e3 /* bytes a second: below that the network says nothing */
#define NET_SHARE 0.1
#define IDLE_SHARE 0.1
#define IDLE_CORES 0.05
#define CHANGED 2.0 /* times more, or less, than usual */
#define FLAT_SHARE 0.05
#define FLAT_CORES 0.02
#define DEVICE_IDLE 10.0

static bool cpu_is_silent(const struct silence *s, double usual, double cores) {
        double low = s->since > 0 ? MIN(s->low, cores) : cores, high = s->since > 0 ? MAX(s->high, cores) : cores;

        if (usual < 0 || cores < 0)
                return false;
        if (high <= MAX(usual * IDLE_SHARE, IDLE_CORES))
                return true;
        return high - low <= MAX(high * FLAT_SHARE, FLAT_CORES) && (low >= usual * CHANGED || high <= usual / CHANGED);
}

bool silence_take(struct silence *s, const struct activity *a, const struct activity_rate *window, usec_t began, usec_t now,
                  usec_t line_at, double idle) {
        struct activity_rate usual = activity_usual(a);
        bool silent = a->n >= SILENCE_WINDOWS && usual.net >= NET_USUAL && window->net >= 0 &&
                      window->net <= usual.net * NET_SHARE && now - MIN(now, line_at) >= SILENCE_LOG &&
                      (idle < 0 || idle >= DEVICE_IDLE) && cpu_is_silent(s, usual.cores, window->cores);

        if (!silent) {
                s->since = 0;
                return false;
        }
        s->low = s->since > 0 ? MIN(s->low, window->cores) : window->cores;
        s->high = s->since > 0 ? MAX(s->high, window->cores) : window->cores;
        if (s->since == 0)
                s->since = began;
        return true;
}

usec_t silence_due(const struct silence *s) {
        return s->since > 0 ? s->since + SILENCE_SPAN : USEC_INFINITY;
}
