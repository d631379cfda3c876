/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel leaves to the processes of a run: open files, tasks, ports, CPUs, TCP as a whole. */
#include "device_owners.h"
#include "intent.h"
#include "memory.h"
#include "paths.h"
#include "sysctl.h"
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

#define CPUS_ONLINE "/sys/devices/system/cpu/online"
#define STATUS_MAX 16384 /* of hundreds of CPUs the masks are long */

/* Services have the CPUs of the process that starts them. */
static void judge_cpus(const struct host *h, struct sink *s) {
        char online[256], text[STATUS_MAX];
        const char *allowed = NULL;
        unsigned all, some;
        int r = host_read(h, CPUS_ONLINE, online, sizeof(online), NULL);

        if (r == 0)
                r = host_read(h, "/proc/1/status", text, sizeof(text), NULL);
        if (r == 0)
                allowed = strstr(text, "\nCpus_allowed_list:");
        if (r < 0 || !allowed) {
                probe_tell(s, WORDS_CPUS_UNREADABLE, NULL, r < 0 ? strerror(-r) : "not told", "%s", "");
                return;
        }
        online[strcspn(online, "\n")] = '\0';
        allowed += strcspn(allowed, ":") + 1;
        all = count_ranges(online);
        some = count_ranges(allowed + strspn(allowed, " \t"));
        probe_tell(s, some < all ? WORDS_CPUS_FEW : WORDS_CPUS, NULL, online, "%u of %u", MIN(some, all),
                   all);
}

/* What a connection cannot be fast without, whatever the profile wants. */
static bool judge_switches(const struct host *h, struct sink *s) {
        static const char *const needed[] = { "tcp_window_scaling", "tcp_sack", "tcp_moderate_rcvbuf" };
        size_t good = 0;

        for (size_t i = 0; i < ELEMENTSOF(needed); i++) {
                char path[80], name[48];
                uint64_t on;
                int r;

                (void) snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", needed[i]);
                (void) snprintf(name, sizeof(name), "net.ipv4.%s", needed[i]);
                r = host_read_u64(h, path, &on);
                good += r == 0 && on != 0;
                if (r < 0)
                        probe_tell(s, WORDS_TCP_UNREADABLE, name, strerror(-r), "%s", "");
                else if (on == 0)
                        probe_tell(s, WORDS_TCP_WITHOUT, name, NULL, "0");
        }
        return good == ELEMENTSOF(needed);
}

/* Below what the kernel sets by itself, and what a run meets: guides for hardening and recipes for old
 * machines have such numbers. Of several numbers in a file the last counts, which is the most. */
static const struct tcp_floor {
        const char *name, *usual; /* usual: NULL: as tcp_memory() says */
        uint64_t least;
        unsigned share; /* of the memory, where that is less; 0: least alone */
        bool pages;     /* it counts pages */
        const char *why;
} floors[] = {
        { "ip_default_ttl", "64", 32, 0, false, "packets end after so few hops, and nobody says so" },
        { "tcp_retries2", "15", 8, 0, false,
          "connections are given up after seconds of silence, such as a live migration brings (RFC 1122: "
          "100 s at least)" },
        { "tcp_timestamps", "1", 1, 0, false,
          "segments are counted round within a second at 100 Gbit/s, and only timestamps tell old ones from "
          "new (RFC 7323)" },
        { "tcp_wmem", "4096 16384 4194304", 4194304, 256, false,
          "what a connection may send before it is acknowledged is less than a fast path holds" },
        { "tcp_mem", NULL, UINT64_MAX, 100, true,
          "all connections together may have this many pages of memory: beyond it windows shrink and "
          "connections are reset" },
};

/* As the kernel works it out (Linux, net/ipv4/tcp.c, tcp_init_mem()), of all pages. */
static void tcp_memory(uint64_t pages, char *buf, size_t size) {
        uint64_t limit = MAX(pages / 16, (uint64_t) 128);

        (void) snprintf(buf, size, "%" PRIu64 " %" PRIu64 " %" PRIu64, limit / 4 * 3, limit,
                        limit / 4 * 3 * 2);
}

static int last_number(const char *text, uint64_t *ret) {
        const char *at = strrchr(text, ' ');
        char *end;

        at = at ? at + 1 : text;
        errno = 0;
        *ret = strtoull(at, &end, 10);
        return errno != 0 || *at < '0' || *at > '9' || *end ? -EBADMSG : 0;
}

static bool judge_floor(const struct host *h, const struct tcp_floor *t, uint64_t memory, struct sink *s) {
        uint64_t unit = t->pages ? (uint64_t) sysconf(_SC_PAGESIZE) : 1, least = t->least, value = 0;
        char path[80], name[48], text[128], usual[80], wanted[24];
        struct finding f;
        int r;

        if (t->share > 0)
                least = MIN(least, memory / t->share / unit);
        (void) snprintf(path, sizeof(path), "/proc/sys/net/ipv4/%s", t->name);
        (void) snprintf(name, sizeof(name), "net.ipv4.%s", t->name);
        r = host_read(h, path, text, sizeof(text), NULL);
        if (r == -ENOENT) /* the machine's alone, of which this is a container */
                return true;
        if (r == 0) {
                intent_sysctl_normalize(text);
                r = last_number(text, &value);
        }
        if (r < 0) {
                probe_tell(s, WORDS_TCP_UNREADABLE, name, strerror(-r), "%s", "");
                return false;
        }
        if (value >= least)
                return true;
        tcp_memory(memory / unit, usual, sizeof(usual));
        (void) snprintf(wanted, sizeof(wanted), "%" PRIu64, least);
        check_tell(&f, WORDS_TCP_LOW, name, t->usual ? t->usual : usual, wanted, t->why);
        finding_set(f.found, "%s", make_printable(text));
        s->finding(s, &f);
        return false;
}

static bool is_of_profile(const struct probe_context *c, const char *name) {
        static const char folder[] = "net.ipv4.";

        for (size_t i = 0; c->intent && i < c->intent->n_sysctls; i++) {
                const char *wanted = c->intent->sysctls[i].name;

                if (startswith(wanted, folder) && streq(wanted + strlen(folder), name))
                        return true;
        }
        return false;
}

static void judge_tcp(const struct host *h, const struct probe_context *c, struct sink *s) {
        uint64_t memory = memory_total(h);
        bool good = judge_switches(h, s);

        for (size_t i = 0; i < ELEMENTSOF(floors); i++)
                if (!is_of_profile(c, floors[i].name)) /* else the probe sysctl judges it */
                        good &= judge_floor(h, &floors[i], memory, s);
        if (good)
                probe_tell(s, WORDS_TCP_WHOLE, NULL, NULL, "as the kernel sets it");
}

/* vm.overcommit_memory, which hardening guides set. */
static void judge_overcommit(const struct host *h, struct sink *s) {
        uint64_t mode;

        if (host_read_u64(h, "/proc/sys/vm/overcommit_memory", &mode) == 0 && mode == 2)
                probe_tell(s, WORDS_MEMORY_REFUSED, "vm.overcommit_memory", NULL, "2");
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

/* Of this host, where it is a container: else there are no such files. */
static const char *const own_groups[] = { "/sys/fs/cgroup", "/sys/fs/cgroup/pids" };

static bool judge_group_tasks(const struct host *h, struct sink *s) {
        bool good = true;

        for (size_t i = 0; i < ELEMENTSOF(own_groups); i++) {
                char most[64], now[64];
                uint64_t max, n;

                (void) snprintf(most, sizeof(most), "%s/pids.max", own_groups[i]);
                (void) snprintf(now, sizeof(now), "%s/pids.current", own_groups[i]);
                if (host_read_u64(h, most, &max) < 0 || host_read_u64(h, now, &n) < 0 ||
                    max >= n + TASKS_LEAST) /* "max" is no number */
                        continue;
                probe_tell(s, WORDS_TASKS_FEW_HERE, most, NULL, "%" PRIu64 " of %" PRIu64 " there", n, max);
                good = false;
        }
        return good;
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
        bool good = judge_group_tasks(h, s);
        int r = host_read(h, "/proc/loadavg", text, sizeof(text), NULL);

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
        judge_overcommit(h, s);
        judge_ports(h, s);
        judge_cpus(h, s);
        judge_tcp(h, c, s);
        return 0;
}
