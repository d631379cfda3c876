/* SPDX-License-Identifier: Apache-2.0 */
#include "process_cost.h"

int process_cost_parse_stat(const char *text, uint64_t *ret_user, uint64_t *ret_system) {
        const char *p = strrchr(text, ')'); /* the command's name may hold anything, also ")" */
        uint64_t user, system;

        if (!p || sscanf(p + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %" SCNu64 " %" SCNu64, &user,
                         &system) != 2)
                return -EBADMSG;
        *ret_user = user;
        *ret_system = system;
        return 0;
}

int process_cost_read(const struct host *h, struct process_cost *ret) {
        uint64_t user, system, pages;
        char text[1024];
        int r;

        r = host_read(h, "/proc/self/stat", text, sizeof(text), NULL);
        if (r >= 0)
                r = process_cost_parse_stat(text, &user, &system);
        if (r < 0)
                return r;
        r = host_read(h, "/proc/self/statm", text, sizeof(text), NULL);
        if (r < 0)
                return r;
        if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
                return -EBADMSG;
        *ret = (struct process_cost) {
                .cpu_seconds = ((double) user + (double) system) / (double) sysconf(_SC_CLK_TCK),
                .resident_memory = pages * (uint64_t) sysconf(_SC_PAGESIZE),
        };
        return 0;
}
