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

static void put_cpu(struct sink *s, const char *mode, uint64_t ticks) {
        const struct sample m = {
                .name = "process.cpu.time",
                .unit = "s",
                .description = "CPU time of the host agent",
                .kind = SAMPLE_COUNTER,
                .d = (double) ticks / (double) sysconf(_SC_CLK_TCK),
                .keys = { "cpu.mode" },
                .values = { mode },
        };

        s->sample(s, &m);
}

int cost_sample(const struct host *h, struct sink *s) {
        uint64_t user, system, pages;
        struct sample memory = {
                .name = "process.memory.usage",
                .unit = "By",
                .description = "Resident memory of the host agent",
                .is_int = true,
        };
        char text[1024];
        int r;

        r = host_read(h, "/proc/self/stat", text, sizeof(text), NULL);
        if (r < 0)
                return r;
        r = cost_parse_stat(text, &user, &system);
        if (r < 0)
                return r;
        put_cpu(s, "user", user);
        put_cpu(s, "system", system);
        r = host_read(h, "/proc/self/statm", text, sizeof(text), NULL);
        if (r < 0)
                return r;
        if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
                return -EBADMSG;
        memory.i = (int64_t) (pages * (uint64_t) sysconf(_SC_PAGESIZE));
        s->sample(s, &memory);
        return 0;
}
