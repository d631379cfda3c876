/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the clock is kept in step, and how far off the kernel knows it to be. */
#include "words.h"
#include "host_stat.h"

#define OFFSET_WARN (100 * (int64_t) USEC_PER_MSEC) /* check_words.def says it, too */

int probe_clock(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_clock k;
        int r;

        (void) c;
        r = host_clock(h, &k);
        if (r < 0) {
                probe_tell(s, WORDS_CLOCK_UNREADABLE, NULL, strerror(-r), "%s", "");
                return 0;
        }
        probe_tell(s, k.synchronized ? WORDS_CLOCK_IN_STEP : WORDS_CLOCK_LOOSE, NULL, NULL, "%s",
                   k.synchronized ? "synchronized" : "not synchronized");
        put_int(s, METRIC_CLOCK_SYNCHRONIZED, k.synchronized, NULL, NULL, NULL);
        if (!k.synchronized)
                return 0; /* the offset is then nobody's statement */
        probe_tell(s,
                   k.offset_usec > OFFSET_WARN || k.offset_usec < -OFFSET_WARN ? WORDS_CLOCK_FAR :
                                                                                 WORDS_CLOCK_NEAR,
                   NULL, NULL, "%+.3f ms", (double) k.offset_usec / 1e3);
        put_double(s, METRIC_CLOCK_OFFSET, (double) k.offset_usec / 1e6, NULL, NULL, NULL);
        put_double(s, METRIC_CLOCK_ERROR, (double) k.max_error_usec / 1e6, NULL, NULL, NULL);
        return 0;
}
