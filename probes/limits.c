/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel leaves to the processes of a run: open files, tasks, ports, CPUs, TCP as a whole. */
#include "device_owners.h"
#include "limits_tcp.h"
#include "memory.h"
#include "paths.h"
#include "texts.h"
#include "words.h"

#define PORT_RANGE "/proc/sys/net/ipv4/ip_local_port_range"
#define PORTS_KEPT "/proc/sys/net/ipv4/ip_local_reserved_ports"
#define PORTS_TEXT_MAX 4096

static bool is_in_ranges(const char *list, unsigned port) {
        uint64_t first, last;

        while (range_next(&list, &first, &last) > 0)
                if (port >= first && port <= last)
                        return true;
        return false;
}

static unsigned count_ranges(const char *list) {
        uint64_t first, last;
        unsigned n = 0;

        while (range_next(&list, &first, &last) > 0)
                n += (unsigned) (last - first + 1);
        return n;
}

/* The kernel gives the ports of its range to whoever connects: one that a run binds may be gone. */
static void judge_ports(const struct host *h, struct sink *s) {
        char range[64], kept[PORTS_TEXT_MAX] = "", wanted[PORTS_TEXT_MAX + 64];
        unsigned first, last, open = 0;
        int r = host_read(h, PORT_RANGE, range, sizeof(range), NULL);

        if (r == 0 && sscanf(range, "%u %u", &first, &last) != 2)
                r = -EBADMSG;
        if (r == 0)
                r = host_read(h, PORTS_KEPT, kept, sizeof(kept), NULL);
        if (r < 0) {
                probe_tell(s, WORDS_PORTS_UNREADABLE, NULL, strerror(-r), "%s", "");
                return;
        }
        kept[strcspn(kept, "\n")] = '\0';
        for (unsigned port = first; port <= last && port <= UINT16_MAX; port++)
                open += port_is_of_runs(port) && !is_in_ranges(kept, port);
        (void) snprintf(wanted, sizeof(wanted), "%s%s" RUN_PORTS, kept, kept[0] ? "," : "");
        if (open > 0)
                probe_tell(s, WORDS_PORTS_OPEN, NULL, wanted, "%u-%u", first, last);
        else
                probe_tell(s, WORDS_PORTS_KEPT, NULL, NULL, "%u-%u", first, last);
}

/* Of this host, where it is a container, and those that all runs are in, whoever limits them. Which do not
 * exist have no such files. */
static const char *const groups[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/tpu.slice",
                                      "/sys/fs/cgroup/tpu.slice/tpu-run.slice" };

/* A number of a group's file, or two; what says "max" has none. */
static bool read_group(const struct host *h, const char *group, const char *file, char path[static 128],
                       uint64_t *ret, uint64_t *ret_second) {
        char text[64];

        (void) snprintf(path, 128, "%s/%s", group, file);
        return host_read(h, path, text, sizeof(text), NULL) == 0 &&
               sscanf(text, "%" SCNu64 " %" SCNu64, ret, ret_second) >= 1;
}

#define CPUS "/sys/devices/system/cpu"
#define STATUS_MAX 16384 /* of hundreds of CPUs the masks are long */

static void judge_cpus_of_groups(const struct host *h, const char *online, struct sink *s) {
        unsigned all = count_ranges(online), some;
        char path[128], allowed[256];
        uint64_t quota, period = 0;

        for (size_t i = 0; i < ELEMENTSOF(groups); i++)
                if (read_group(h, groups[i], "cpu.max", path, &quota, &period) && period > 0 &&
                    quota / period < all)
                        probe_tell(s, WORDS_CPUS_QUOTA, path, NULL, "the time of %.2f CPUs",
                                   (double) quota / (double) period);
        for (size_t i = 1; i < ELEMENTSOF(groups); i++) { /* the CPUs of the first are those of process 1 */
                (void) snprintf(path, sizeof(path), "%s/cpuset.cpus.effective", groups[i]);
                if (host_read(h, path, allowed, sizeof(allowed), NULL) < 0)
                        continue;
                some = count_ranges(allowed);
                (void) snprintf(path, sizeof(path), "%s/cpuset.cpus", groups[i]);
                if (some >= all)
                        continue;
                probe_tell(s, WORDS_CPUS_OF_GROUP, path, online, "%u of %u", some, all);
                return; /* those below have no more */
        }
}

/* Those that somebody switched off, and no program sees. */
static void judge_cpus_that_are_off(const struct host *h, const char *online, struct sink *s) {
        char there[256], smt[32] = "";
        unsigned on = count_ranges(online);

        if (host_read(h, CPUS "/present", there, sizeof(there), NULL) < 0 || on >= count_ranges(there))
                return;
        (void) host_read(h, CPUS "/smt/control", smt, sizeof(smt), NULL);
        probe_tell(s, streq(smt, "off") ? WORDS_CPUS_SMT_OFF : WORDS_CPUS_OFF, "online", NULL, "%u of %u",
                   on, count_ranges(there));
}

/* Services have the CPUs of the process that starts them. */
static void judge_cpus(const struct host *h, struct sink *s) {
        char online[256], text[STATUS_MAX];
        const char *allowed = NULL;
        unsigned all, some;
        int r = host_read(h, CPUS "/online", online, sizeof(online), NULL);

        if (r == 0)
                r = host_read(h, "/proc/1/status", text, sizeof(text), NULL);
        if (r == 0)
                allowed = strstr(text, "\nCpus_allowed_list:");
        if (r < 0 || !allowed) {
                probe_tell(s, WORDS_CPUS_UNREADABLE, NULL, r < 0 ? strerror(-r) : "not told", "%s", "");
                return;
        }
        judge_cpus_of_groups(h, online, s);
        judge_cpus_that_are_off(h, online, s);
        allowed += strcspn(allowed, ":") + 1;
        all = count_ranges(online);
        some = count_ranges(allowed + strspn(allowed, " \t"));
        probe_tell(s, some < all ? WORDS_CPUS_FEW : WORDS_CPUS, NULL, online, "%u of %u", MIN(some, all),
                   all);
}

/* The first is left out: what a container may have is what its host was given. */
static void judge_memory_of_groups(const struct host *h, struct sink *s) {
        static const char *const files[] = { "memory.high", "memory.max" };
        uint64_t memory = memory_total(h), most, none;
        char path[128];

        for (size_t i = 1; i < ELEMENTSOF(groups); i++)
                for (size_t k = 0; k < ELEMENTSOF(files); k++)
                        if (read_group(h, groups[i], files[k], path, &most, &none) && most < memory / 2)
                                probe_tell(s, WORDS_MEMORY_OF_GROUP, path, NULL, "%" PRIu64 " bytes", most);
}

#define MAPS_LEAST 65530 /* the kernel's own; check_words.def says it, too */

/* vm.overcommit_memory and vm.max_map_count, which hardening guides set. */
static void judge_memory(const struct host *h, struct sink *s) {
        uint64_t mode, maps;

        if (host_read_u64(h, "/proc/sys/vm/overcommit_memory", &mode) == 0 && mode == 2)
                probe_tell(s, WORDS_MEMORY_REFUSED, "vm.overcommit_memory", NULL, "2");
        if (host_read_u64(h, "/proc/sys/vm/max_map_count", &maps) == 0 && maps < MAPS_LEAST)
                probe_tell(s, WORDS_MAPS_FEW, "vm.max_map_count", NULL, "%" PRIu64, maps);
        judge_memory_of_groups(h, s);
}

#define TRACKED "/proc/sys/net/netfilter/nf_conntrack_"
#define TRACKED_LEAST 4096    /* check_words.def says it, too */
#define TRACKED_USUAL 262144  /* of a machine with much memory */

/* Where a packet filter looks at connections: the kernel keeps a table of them. */
static void judge_conntrack(const struct host *h, struct sink *s) {
        uint64_t most, n;
        char wanted[24];
        bool full;

        if (host_read_u64(h, TRACKED "max", &most) < 0 || host_read_u64(h, TRACKED "count", &n) < 0 ||
            n == 0 || most == 0) /* not loaded, nothing tracked, or without a limit */
                return;
        full = n + MAX(most / 8, (uint64_t) TRACKED_LEAST) > most;
        (void) snprintf(wanted, sizeof(wanted), "%" PRIu64, MAX(most * 4, (uint64_t) TRACKED_USUAL));
        probe_tell(s, full ? WORDS_CONNTRACK_FULL : WORDS_CONNTRACK, NULL, wanted,
                   "%" PRIu64 " of %" PRIu64, n, most);
}

#define FILES_SHARE 20480 /* bytes of memory for a file: the kernel's own fs.file-max has one for 10 KiB */

static void judge_files(const struct host *h, struct sink *s) {
        uint64_t most, all, least = MIN((uint64_t) RUN_NOFILE, memory_total(h) / FILES_SHARE);
        int r = host_read_u64(h, "/proc/sys/fs/nr_open", &most);

        if (host_read_u64(h, "/proc/sys/fs/file-max", &all) == 0 && all < least) {
                probe_tell(s, WORDS_NOFILE_ALL, NULL, NULL, "%" PRIu64 " of all programs together", all);
                return;
        }
        if (r < 0)
                probe_tell(s, WORDS_NOFILE_UNREADABLE, NULL, strerror(-r), "%s", "");
        else if (most < RUN_NOFILE)
                probe_tell(s, WORDS_NOFILE_LOW, NULL, NULL, "%" PRIu64, most);
        else
                probe_tell(s, WORDS_NOFILE, NULL, NULL, "%d in a run", RUN_NOFILE);
}

#define TASKS_LEAST 4096 /* check_words.def says it, too */

static bool judge_tasks_of_group(const struct host *h, const char *group, struct sink *s) {
        char most[128], now[128];
        uint64_t max, n, none;

        if (!read_group(h, group, "pids.max", most, &max, &none) ||
            !read_group(h, group, "pids.current", now, &n, &none) || max >= n + TASKS_LEAST)
                return true;
        probe_tell(s, WORDS_TASKS_FEW_HERE, most, NULL, "%" PRIu64 " of %" PRIu64 " there", n, max);
        return false;
}

/* "0.00 0.01 0.05 2/345 678": there are 345 processes and threads. */
static void judge_tasks(const struct host *h, struct sink *s) {
        static const struct {
                const char *path, *name, *usual;
        } limits[] = {
                { "/proc/sys/kernel/pid_max", "kernel.pid_max", "4194304" },
                { "/proc/sys/kernel/threads-max", "kernel.threads-max", "4194304" },
        };
        char text[128];
        uint64_t max[ELEMENTSOF(limits)], n = 0;
        bool good = judge_tasks_of_group(h, "/sys/fs/cgroup/pids", s); /* of version 1 */
        int r = host_read(h, "/proc/loadavg", text, sizeof(text), NULL);

        for (size_t i = 0; i < ELEMENTSOF(groups); i++)
                good &= judge_tasks_of_group(h, groups[i], s);
        if (r == 0 && sscanf(text, "%*s %*s %*s %*u/%" SCNu64, &n) != 1)
                r = -EBADMSG;
        if (r < 0)
                probe_tell(s, WORDS_TASKS_UNREADABLE, "/proc/loadavg", strerror(-r), "%s", "");
        for (size_t i = 0; r == 0 && i < ELEMENTSOF(limits); i++) {
                r = host_read_u64(h, limits[i].path, &max[i]);
                if (r < 0)
                        probe_tell(s, WORDS_TASKS_UNREADABLE, limits[i].path, strerror(-r), "%s", "");
                else if (max[i] < n + TASKS_LEAST) {
                        probe_tell(s, WORDS_TASKS_FEW, limits[i].name, limits[i].usual,
                                   "%" PRIu64 " of %" PRIu64 " there", n, max[i]);
                        good = false;
                }
        }
        if (r == 0 && good)
                probe_tell(s, WORDS_TASKS, NULL, NULL, "room for %" PRIu64,
                           MIN(max[0], max[1]) - MIN(n, MIN(max[0], max[1])));
}

int probe_limits(const struct host *h, const struct probe_context *c, struct sink *s) {
        judge_files(h, s);
        judge_tasks(h, s);
        judge_memory(h, s);
        judge_ports(h, s);
        judge_cpus(h, s);
        limits_judge_tcp(h, c, s);
        judge_conntrack(h, s);
        return 0;
}
