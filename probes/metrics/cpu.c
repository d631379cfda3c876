/* SPDX-License-Identifier: Apache-2.0 */
#include "cpu.h"

#define CPUS_MAX 65536

/* The columns of the line "cpu" (proc(5)), USER_HZ each. The conventions know no softirq: the value is our
 * own, because it is where a host's network receives. guest is part of user. */
static const char *const modes[] = { "user",   "nice",      "system",  "idle",
                                     "iowait", "interrupt", "softirq", "steal" };
_Static_assert(ELEMENTSOF(modes) == CPU_MODES, "a column a mode");

static void look_at_time(struct cpu_state *c, const struct look *l) {
        double hz = (double) sysconf(_SC_CLK_TCK);
        char text[512]; /* the line is the file's first; the others are not wanted */
        const char *p = text;

        if (source_read(&c->stat, l->host, "/proc/stat", text, sizeof(text)) < 0 ||
            !startswith(text, "cpu "))
                return;
        p += strlen("cpu");
        for (size_t i = 0; i < CPU_MODES; i++) {
                int64_t ticks;

                if (!take_number(&p, &ticks))
                        return;
                c->held[i] = MAX(c->held[i], ticks);
                put_double(l->sink, METRIC_CPU_TIME, (double) c->held[i] / hz, modes[i], NULL, NULL);
        }
}

int64_t cpu_list_count(const char *text) {
        int64_t n = 0;

        for (const char *p = text;; p++) {
                int64_t first, last;

                if (!take_number(&p, &first))
                        return 0;
                last = first;
                if (*p == '-') {
                        p++;
                        if (!take_number(&p, &last))
                                return 0;
                }
                if (last < first || last >= CPUS_MAX)
                        return 0;
                n += last - first + 1;
                if (*p != ',')
                        return (*p == 0 || *p == '\n') && n <= CPUS_MAX ? n : 0;
        }
}

void cpu_look(struct cpu_state *c, const struct look *l) {
        char text[1024];
        int64_t n;

        put_double(l->sink, METRIC_UPTIME, (double) l->now / (double) USEC_PER_SEC, NULL, NULL, NULL);
        look_at_time(c, l);
        if (source_read(&c->online, l->host, "/sys/devices/system/cpu/online", text, sizeof(text)) < 0)
                return;
        n = cpu_list_count(text);
        if (n > 0)
                put_int(l->sink, METRIC_CPU_COUNT, n, NULL, NULL, NULL);
}

void cpu_close(struct cpu_state *c) {
        source_close(&c->stat);
        source_close(&c->online);
}
