/* SPDX-License-Identifier: Apache-2.0 */
/* Whether the clock is kept in step, and how far off the kernel knows it to be. */
#include "probe.h"
#include "host_stat.h"

#define OFFSET_WARN (100 * (int64_t) USEC_PER_MSEC)

static void check_synchronized(const struct host_clock *k, struct sink *s) {
        struct finding f;

        finding_init(&f, "clock.sync", NULL);
        f.verdict = k->synchronized ? VERDICT_OK : VERDICT_WARN;
        finding_set(f.found, "%s", k->synchronized ? "synchronized" : "not synchronized");
        if (!k->synchronized) {
                finding_set(f.wanted, "synchronized");
                finding_set(f.source, "records of all hosts are put in order by time");
                finding_set(f.reason, "no time daemon has told the kernel that the clock is right");
                finding_set(f.remedy,
                            "timedatectl; systemctl status chrony systemd-timesyncd (chrony: rtcsync)");
        }
        s->finding(s, &f);
}

static void check_offset(const struct host_clock *k, struct sink *s) {
        struct finding f;

        if (!k->synchronized)
                return; /* the offset is then nobody's statement */
        finding_init(&f, "clock.offset", NULL);
        finding_set(f.found, "%+.3f ms", (double) k->offset_usec / 1e3);
        finding_set(f.wanted, "within %d ms", (int) (OFFSET_WARN / (int64_t) USEC_PER_MSEC));
        finding_set(f.source, "tpu-hostd's own limit: captures of several hosts are compared by time");
        f.verdict = VERDICT_OK;
        if (k->offset_usec > OFFSET_WARN || k->offset_usec < -OFFSET_WARN) {
                f.verdict = VERDICT_WARN;
                finding_set(f.reason, "the clock is being corrected, but is far off now");
                finding_set(f.remedy, "chronyc tracking; timedatectl timesync-status");
        }
        s->finding(s, &f);
}

int probe_clock(const struct host *h, const struct probe_context *c, struct sink *s) {
        struct host_clock k;
        struct finding f;
        int r;

        (void) c;
        r = host_clock(h, &k);
        if (r < 0) {
                finding_init(&f, "clock.sync", NULL);
                finding_set(f.reason, "the kernel's clock state cannot be read: %s", strerror(-r));
                s->finding(s, &f);
                return 0;
        }
        check_synchronized(&k, s);
        check_offset(&k, s);
        put_int(s, METRIC_CLOCK_SYNCHRONIZED, k.synchronized, NULL, NULL, NULL);
        if (k.synchronized) {
                put_double(s, METRIC_CLOCK_OFFSET, (double) k.offset_usec / 1e6, NULL, NULL, NULL);
                put_double(s, METRIC_CLOCK_ERROR, (double) k.max_error_usec / 1e6, NULL, NULL, NULL);
        }
        return 0;
}
