/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the clock is kept in step, how far off the kernel knows it to be, and by what it is read. */
#include "words.h"
#include "host_stat.h"

#define SOURCES "/sys/devices/system/clocksource/clocksource0"

/* Those that a program reads by itself (vDSO). Any other takes a system call each time, and a device that
 * the host of the VM answers for. */
static bool is_read_fast(const char *source) {
        static const char *const fast[] = { "tsc", "kvm-clock", "hyperv_clocksource_tsc_page",
                                            "arch_sys_counter" };

        for (size_t i = 0; i < ELEMENTSOF(fast); i++)
                if (streq(source, fast[i]))
                        return true;
        return false;
}

/* The best that the kernel offers comes first. */
static const char *fast_one(char *offered) {
        for (char *word; (word = strsep(&offered, " "));)
                if (is_read_fast(word))
                        return word;
        return NULL;
}

static void judge_source(const struct host *h, struct sink *s) {
        char now[64], offered[256] = "";
        const char *better;
        int r = host_read(h, SOURCES "/current_clocksource", now, sizeof(now), NULL);

        if (r == -ENOENT)
                return; /* a recorded machine without it */
        if (r < 0) {
                probe_tell(s, WORDS_CLOCK_SOURCE_UNREADABLE, NULL, strerror(-r), "%s", "");
                return;
        }
        (void) host_read(h, SOURCES "/available_clocksource", offered, sizeof(offered), NULL);
        better = fast_one(offered);
        probe_tell(s,
                   is_read_fast(now) ? WORDS_CLOCK_READ_FAST :
                   better            ? WORDS_CLOCK_READ_SLOW :
                                       WORDS_CLOCK_NONE_FAST,
                   NULL, better, "%s", now);
}

#define OFFSET_WARN (100 * (int64_t) USEC_PER_MSEC) /* check_words.def says it, too */

int probe_clock(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_clock k;
        int r;

        (void) c;
        judge_source(h, s);
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
