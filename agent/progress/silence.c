/* SPDX-License-Identifier: Apache-2.0 */
#include "silence.h"

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
