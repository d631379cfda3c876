/* SPDX-License-Identifier: Apache-2.0 */
#include "proc_pid.h"

int proc_pid_stat_parse(const char *text, struct proc_pid_stat *ret) {
        const char *open = strchr(text, '('), *close = strrchr(text, ')');
        struct proc_pid_stat s = { .n = 3 };
        const char *at;
        char *end;

        if (!open || !close || close < open || close[1] != ' ' || close[2] == '\0')
                return -EBADMSG;
        (void) snprintf(s.name, sizeof(s.name), "%.*s", (int) (close - open - 1), open + 1);
        s.state = close[2];
        for (at = close + 3; s.n + 1 < PROC_PID_FIELDS; at = end) {
                uint64_t number = strtoull(at, &end, 10);

                if (end == at)
                        break;
                s.field[++s.n] = number;
        }
        *ret = s;
        return 0;
}

int proc_pid_stat_read(const struct host *h, uint32_t pid, struct proc_pid_stat *ret) {
        char path[64], text[1024];
        int r;

        (void) snprintf(path, sizeof(path), "/proc/%" PRIu32 "/stat", pid);
        r = host_read(h, path, text, sizeof(text), NULL);
        return r < 0 ? r : proc_pid_stat_parse(text, ret);
}

/* Of "0::/a.slice/b.service" or "1:name=systemd:/…". */
void proc_pid_group(const struct host *h, uint32_t pid, char ret[static PROC_PID_GROUP_MAX]) {
        char path[64], text[4096], *save = NULL;

        ret[0] = '\0';
        (void) snprintf(path, sizeof(path), "/proc/%" PRIu32 "/cgroup", pid);
        if (host_read(h, path, text, sizeof(text), NULL) < 0)
                return;
        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
                const char *named = strstr(line, ":name=systemd:");
                const char *group = named                    ? named + strlen(":name=systemd:")
                                    : startswith(line, "0::") ? line + strlen("0::")
                                                              : NULL;

                if (group && strlen(group) < PROC_PID_GROUP_MAX && (named || !ret[0] || streq(ret, "/")))
                        (void) snprintf(ret, PROC_PID_GROUP_MAX, "%s", group);
        }
}

int process_cost_read(const struct host *h, struct process_cost *ret) {
        struct proc_pid_stat s;
        char text[1024];
        uint64_t pages;
        int r;

        r = host_read(h, "/proc/self/stat", text, sizeof(text), NULL);
        if (r >= 0)
                r = proc_pid_stat_parse(text, &s);
        if (r < 0)
                return r;
        if (s.n < 15)
                return -EBADMSG;
        r = host_read(h, "/proc/self/statm", text, sizeof(text), NULL);
        if (r < 0)
                return r;
        if (sscanf(text, "%*u %" SCNu64, &pages) != 1)
                return -EBADMSG;
        *ret = (struct process_cost) {
                .cpu_seconds = ((double) s.field[14] + (double) s.field[15]) / (double) sysconf(_SC_CLK_TCK),
                .resident_memory = pages * (uint64_t) sysconf(_SC_PAGESIZE),
        };
        return 0;
}
