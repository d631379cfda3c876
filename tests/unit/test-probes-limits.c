/* SPDX-License-Identifier: Apache-2.0 */
/* What the kernel, a packet filter and control groups leave to a run: the probe "limits". */
#include "probe-support.h"

static const struct probe_context nothing = { 0 };

/* As long as the kernel offers cubic, which is its own choice. */
static void limits_of_congestion(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;
        const struct finding *f;

        scratch_write(&s, "proc/sys/net/ipv4/tcp_congestion_control", "vegas\n");
        scratch_write(&s, "proc/sys/net/ipv4/tcp_available_congestion_control", "reno cubic vegas\n");
        ASSERT_OK(probe(s.path, "limits", &nothing, &got));
        f = find(&got, "limits.tcp", "net.ipv4.tcp_congestion_control");
        ASSERT_STREQ(f->found, "vegas");
        ASSERT_HAS(f->remedy, "sudo sysctl -w net.ipv4.tcp_congestion_control=cubic #");
}

static void limits_of_tracked_connections(void) {
        static const struct {
                const char *n, *most;
                int verdict; /* -1: nothing is said */
                const char *remedy;
        } cases[] = {
                { NULL, NULL, -1, NULL }, /* not loaded */
                { "0\n", "1024\n", -1, NULL },
                { "300\n", "0\n", -1, NULL }, /* as many as there are */
                { "300\n", "262144\n", VERDICT_OK, "" },
                { "229376\n", "262144\n", VERDICT_OK, "" },
                { "229377\n", "262144\n", VERDICT_WARN, "nf_conntrack_max=1048576 #" },
                { "1\n", "1024\n", VERDICT_WARN, "sudo sysctl -w net.netfilter.nf_conntrack_max=262144 #" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                bool said = false;

                if (cases[i].n) {
                        scratch_write(&s, "proc/sys/net/netfilter/nf_conntrack_count", cases[i].n);
                        scratch_write(&s, "proc/sys/net/netfilter/nf_conntrack_max", cases[i].most);
                }
                ASSERT_OK(probe(s.path, "limits", &nothing, &got));
                for (size_t k = 0; k < got.findings.n; k++)
                        said |= streq(got.findings.items[k].check, "limits.conntrack");
                ASSERT_EQ(said, cases[i].verdict >= 0);
                if (!said)
                        continue;
                ASSERT_EQ((int) find(&got, "limits.conntrack", "")->verdict, cases[i].verdict);
                ASSERT_HAS(find(&got, "limits.conntrack", "")->remedy, cases[i].remedy);
        }
}

/* Above each run, whoever wrote it: systemd need not know. */
static void limits_of_groups(void) {
#define RUNS "sys/fs/cgroup/tpu.slice/tpu-run.slice/"
        static const struct {
                const char *file, *text, *check;
                bool low;
                const char *found, *remedy;
        } cases[] = {
                { RUNS "cpu.max", "max 100000\n", "limits.cpus", false, NULL, NULL },
                { RUNS "cpu.max", "400000 100000\n", "limits.cpus", false, NULL, NULL },
                { RUNS "cpu.max", "10000 100000\n", "limits.cpus", true, "the time of 0.10 CPUs",
                  "echo max | sudo tee /sys/fs/cgroup/tpu.slice/tpu-run.slice/cpu.max #" },
                { "sys/fs/cgroup/cpu.max", "350000 100000\n", "limits.cpus", true, "the time of 3.50 CPUs",
                  "echo max | sudo tee /sys/fs/cgroup/cpu.max #" },
                { RUNS "cpuset.cpus.effective", "0-3\n", "limits.cpus", false, NULL, NULL },
                { RUNS "cpuset.cpus.effective", "0\n", "limits.cpus", true, "1 of 4",
                  "echo 0-3 | sudo tee /sys/fs/cgroup/tpu.slice/tpu-run.slice/cpuset.cpus #" },
                { RUNS "memory.high", "max\n", "limits.memory", false, NULL, NULL },
                { "sys/fs/cgroup/tpu.slice/memory.high", "1048576\n", "limits.memory", true, "1048576 bytes",
                  "echo max | sudo tee /sys/fs/cgroup/tpu.slice/memory.high #" },
                { "sys/fs/cgroup/memory.max", "1048576\n", "limits.memory", false, NULL, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                const struct finding *f = NULL;

                scratch_write(&s, "proc/meminfo", "MemTotal: 4194304 kB\n");
                scratch_write(&s, "sys/devices/system/cpu/online", "0-3\n");
                scratch_write(&s, "sys/devices/system/cpu/present", "0-3\n");
                scratch_write(&s, "proc/1/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");
                scratch_write(&s, cases[i].file, cases[i].text);
                ASSERT_OK(probe(s.path, "limits", &nothing, &got));
                for (size_t k = 0; k < got.findings.n; k++)
                        if (streq(got.findings.items[k].check, cases[i].check) &&
                            got.findings.items[k].verdict != VERDICT_OK)
                                f = &got.findings.items[k];
                ASSERT_EQ(f != NULL, cases[i].low);
                if (!f)
                        continue;
                ASSERT_EQ(f->verdict, VERDICT_WARN);
                ASSERT_STREQ(f->found, cases[i].found);
                ASSERT_HAS(f->remedy, cases[i].remedy);
        }
}

static void limits_of_tasks_of_groups(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, RUNS "pids.max", "5000\n");
        scratch_write(&s, RUNS "pids.current", "905\n");
        ASSERT_OK(probe(s.path, "limits", &nothing, &got));
        ASSERT_STREQ(find(&got, "limits.tasks", "/" RUNS "pids.max")->found, "905 of 5000 there");
}

static void cpus_that_are_off(void) {
        static const struct {
                const char *present, *smt, *remedy; /* NULL: nothing is said */
        } cases[] = {
                { "0-3\n", "on\n", NULL },
                { "0-7\n", "on\n", "echo 1 | sudo tee /sys/devices/system/cpu/cpu*/online #" },
                { "0-7\n", "off\n", "echo on | sudo tee /sys/devices/system/cpu/smt/control" },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "sys/devices/system/cpu/online", "0-3\n");
                scratch_write(&s, "sys/devices/system/cpu/present", cases[i].present);
                scratch_write(&s, "sys/devices/system/cpu/smt/control", cases[i].smt);
                scratch_write(&s, "proc/1/status", "Name:\tx\nCpus_allowed_list:\t0-3\n");
                ASSERT_OK(probe(s.path, "limits", &nothing, &got));
                ASSERT_EQ(find(&got, "limits.cpus", "")->verdict, VERDICT_OK);
                if (!cases[i].remedy)
                        continue;
                ASSERT_STREQ(find(&got, "limits.cpus", "online")->found, "4 of 8");
                ASSERT_HAS(find(&got, "limits.cpus", "online")->remedy, cases[i].remedy);
        }
}

TEST_MAIN(limits_of_congestion, limits_of_tracked_connections, limits_of_groups, limits_of_tasks_of_groups,
          cpus_that_are_off)
