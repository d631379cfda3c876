/* SPDX-License-Identifier: Apache-2.0 */
#include "cost.h"

int cost_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system) {
        const char *p = strrchr(text, ')'); /* the command's name may hold anything, also ")" */
        uint64_t user, system;

        if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user,
                         &system) != 2)
                return -EBADMSG;
        *ret_user = user;
        *ret_system = system;
        return 0;
}

static double seconds_of(uint64_t ticks) {
        return (double) ticks / (double) sysconf(_SC_CLK_TCK);
}

int cost_sample(const struct host *h, struct sink *s) {
        uint64_t user, system, pages;
        char text[1024];
        int r;

        r = host_read(h, "/proc/self/stat", text, sizeof(text), NULL);
        if (r >= 0)
                r = cost_parse_stat(text, &user, &system);
        if (r < 0)
                return r;
        put_double(s, METRIC_PROCESS_CPU, seconds_of(user), "user", NULL, NULL);
        put_double(s, METRIC_PROCESS_CPU, seconds_of(system), "system", NULL, NULL);
        r = host_read(h, "/proc/self/statm", text, sizeof(text), NULL);
        if (r < 0)
                return r;
        if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
                return -EBADMSG;
        put_uint(s, METRIC_PROCESS_MEMORY, pages * (uint64_t) sysconf(_SC_PAGESIZE), NULL, NULL, NULL);
        return 0;
}
