/* SPDX-License-Identifier: Apache-2.0 */
#include "control_group.h"

#include "utf8.h"

#define THROTTLED_MIN                                                                                       \
        10.0 /* of a hundred: the share of the last ten seconds in which none of it could run */

bool control_group_freezes(const char *wchan) {
        return streq(wchan, "do_freezer_trap") || streq(wchan, "__refrigerator") ||
               streq(wchan, "freezer_fork");
}

bool control_group_reclaims(const char *wchan) {
        return startswith(wchan, "mem_cgroup_handle_over_high") || startswith(wchan, "mem_cgroup_oom") ||
               startswith(wchan, "try_to_free_mem_cgroup");
}

/* The path behind "\nID:CONTROLLERS:" of /proc/PID/cgroup. */
static bool group_of(const char *text, const char *controllers, char buf[static CONTROL_GROUP_MAX]) {
        for (const char *line = text; line; line = strchr(line, '\n')) {
                const char *colon;

                line += *line == '\n';
                colon = strchr(line, ':');
                if (!colon || !startswith(colon + 1, controllers) || colon[1 + strlen(controllers)] != ':')
                        continue;
                colon += 2 + strlen(controllers);
                (void) snprintf(buf, CONTROL_GROUP_MAX, "%.*s",
                                (int) MIN(strcspn(colon, "\n"), (size_t) 400), colon);
                return strcspn(colon, "\n") < 400;
        }
        return false;
}

static bool read_group_file(const struct host *h, const char *group, const char *file, char *buf,
                            size_t size) {
        static const char *const places[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/unified" };
        char path[CONTROL_GROUP_MAX + 64];

        for (size_t i = 0; i < ELEMENTSOF(places); i++) {
                (void) snprintf(path, sizeof(path), "%s%s/%s", places[i], group, file);
                if (host_read(h, path, buf, size, NULL) >= 0)
                        return true;
        }
        return false;
}

/* "full avg10=97.21 avg60=…" */
static double full_share(const struct host *h, const char *group, const char *file) {
        char text[512];
        const char *at;

        if (!read_group_file(h, group, file, text, sizeof(text)) || !(at = strstr(text, "full avg10=")))
                return 0;
        return strtod(at + strlen("full avg10="), NULL);
}

void control_group_read(const struct host *h, const struct process *p, struct control_group *ret) {
        char text[4096], file[512], freezer[CONTROL_GROUP_MAX];
        double share;

        *ret = (struct control_group){ .frozen = false };
        if (process_read(p, "cgroup", text, sizeof(text), NULL) < 0)
                return;
        if (group_of(text, "freezer", freezer) && !streq(freezer, "/")) {
                char path[CONTROL_GROUP_MAX + 64];

                (void) snprintf(path, sizeof(path), "/sys/fs/cgroup/freezer%s/freezer.state", freezer);
                ret->frozen = host_read(h, path, file, sizeof(file), NULL) >= 0 && !streq(file, "THAWED");
                if (ret->frozen)
                        memcpy(ret->name, freezer, sizeof(freezer));
        }
        if (ret->frozen || !group_of(text, "", ret->name))
                return;
        utf8_mend(ret->name);
        ret->frozen = read_group_file(h, ret->name, "cgroup.events", file, sizeof(file)) &&
                      strstr(file, "frozen 1") != NULL;
        if (read_group_file(h, ret->name, "cpu.max", file, sizeof(file)) && !startswith(file, "max") &&
            (share = full_share(h, ret->name, "cpu.pressure")) >= THROTTLED_MIN)
                (void) snprintf(ret->why, sizeof(ret->why), "(cpu.max: no CPU in %.0f %% of the last 10 s)",
                                share);
        else if (read_group_file(h, ret->name, "memory.high", file, sizeof(file)) &&
                 !startswith(file, "max") &&
                 (share = full_share(h, ret->name, "memory.pressure")) >= THROTTLED_MIN)
                (void) snprintf(ret->why, sizeof(ret->why),
                                "(memory.high: reclaims in %.0f %% of the last 10 s)", share);
}
