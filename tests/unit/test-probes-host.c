/* SPDX-License-Identifier: Apache-2.0 */
/* The probes of the host and its chips, each on a good machine, and where what it reads is missing, garbage
 * or huge. */
#include "device_owners.h"
#include "intent.h"
#include "machine.h"
#include "probe-support.h"
#include "sysctl.h"
#include "wheels.h"

static const struct probe_context nothing = { 0 };

/* The verdict of the one finding (check, subject) on the machine at root. */
static enum verdict verdict_of(const char *root, const char *name, const struct probe_context *c,
                               const char *check, const char *subject) {
        _cleanup_collected_ struct collected got;

        (void) probe(root, name, c, &got);
        return find(&got, check, subject)->verdict;
}

static void good(void) {
        static const char *const names[] = { "lockfile", "disk",  "clock",    "thp",      "limits",
                                             "cmdline",  "proxy", "tpu_logs", "tcmalloc", "fingerprint" };

        for (size_t i = 0; i < ELEMENTSOF(names); i++) {
                _cleanup_collected_ struct collected got;

                ASSERT_OK(probe(GOOD, names[i], &nothing, &got));
                ASSERT_TRUE(got.findings.n > 0);
                if (finding_list_worst(&got.findings) != VERDICT_OK)
                        test_fail(__FILE__, __LINE__, "%s: %s", names[i], got.findings.items[0].reason);
        }
}

static void one_chip(const struct scratch *s) {
        add_device(s, "0000:00:04.0", "0x1ae0", "0x006f", "0x120000", "vfio-pci");
        scratch_link(s, "sys/bus/pci/devices/0000:00:04.0/iommu_group",
                     "../../../../kernel/iommu_groups/17");
}

/* What TPUs want is wanted only where there are TPUs. */
static void thp(void) {
        static const char path[] = "sys/kernel/mm/transparent_hugepage/enabled";
        static const struct {
                const char *value;
                enum verdict with, without;
        } cases[] = {
                { "[always] madvise never\n", VERDICT_OK, VERDICT_OK },
                { "always [madvise] never\n", VERDICT_WARN, VERDICT_OK },
                { "[always] madvise  never\n", VERDICT_WARN, VERDICT_OK }, /* JAX compares the whole line */
                { "", VERDICT_WARN, VERDICT_OK },
                { "\033[2J\xff", VERDICT_WARN, VERDICT_OK },
        };
        static char huge[4096];

        memset(huge, 'x', sizeof(huge) - 1);
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch tpu = scratch_new(), plain = scratch_new();
                _cleanup_collected_ struct collected got;

                one_chip(&tpu);
                scratch_write(&plain, "sys/bus/pci/devices/x", "");
                scratch_write(&tpu, path, cases[i].value);
                scratch_write(&plain, path, cases[i].value);
                ASSERT_EQ(verdict_of(tpu.path, "thp", &nothing, "thp", ""), cases[i].with);
                ASSERT_EQ(verdict_of(plain.path, "thp", &nothing, "thp", ""), cases[i].without);
                ASSERT_OK(probe(tpu.path, "thp", &nothing, &got));
                ASSERT_TRUE(!strchr(got.findings.items[0].found, '\033') &&
                            !strchr(got.findings.items[0].found, '\xff'));
                scratch_write(&tpu, path, huge);
                ASSERT_EQ(verdict_of(tpu.path, "thp", &nothing, "thp", ""), VERDICT_UNKNOWN);
        }
}

/* The word of the size counts, if it has one. */
static void thp_by_size(void) {
        static const struct {
                const char *size, *value;
                enum verdict verdict;
        } cases[] = {
                { "2097152\n", "always [inherit] madvise never\n", VERDICT_OK },
                { "2097152\n", "[always] inherit madvise never\n", VERDICT_OK },
                { "2097152\n", "always inherit [madvise] never\n", VERDICT_WARN },
                { "2097152\n", "always inherit madvise [never]\n", VERDICT_WARN },
                { "33554432\n", "always inherit madvise [never]\n", VERDICT_OK }, /* no such folder */
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                one_chip(&s);
                scratch_write(&s, "sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
                scratch_write(&s, "sys/kernel/mm/transparent_hugepage/hpage_pmd_size", cases[i].size);
                scratch_write(&s, "sys/kernel/mm/transparent_hugepage/hugepages-64kB/enabled",
                              "always inherit madvise [never]\n"); /* as shipped */
                scratch_write(&s, "sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled",
                              cases[i].value);
                ASSERT_OK(probe(s.path, "thp", &nothing, &got));
                ASSERT_EQ(got.findings.n, 1);
                ASSERT_EQ(find(&got, "thp", "")->verdict, cases[i].verdict);
                if (cases[i].verdict == VERDICT_WARN)
                        ASSERT_STREQ(find(&got, "thp", "")->remedy,
                                     "echo inherit | sudo tee "
                                     "/sys/kernel/mm/transparent_hugepage/hugepages-2048kB/enabled");
        }
}

static void clock_sources(void) {
#define SOURCES "sys/devices/system/clocksource/clocksource0/"
        static const struct {
                const char *now, *offered;
                enum verdict verdict;
                const char *remedy;
        } cases[] = {
                { "tsc\n", "tsc kvm-clock acpi_pm \n", VERDICT_OK, "" },
                { "kvm-clock\n", "kvm-clock tsc\n", VERDICT_OK, "" },
                { "acpi_pm\n", "kvm-clock tsc acpi_pm \n", VERDICT_WARN, "echo kvm-clock | sudo tee /sys/" },
                { "hpet\n", "hpet acpi_pm \n", VERDICT_WARN, "sudo dmesg | grep " },
                { "hpet\n", "", VERDICT_WARN, "sudo dmesg | grep " },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, SOURCES "current_clocksource", cases[i].now);
                scratch_write(&s, SOURCES "available_clocksource", cases[i].offered);
                ASSERT_OK(probe(s.path, "clock", &nothing, &got));
                ASSERT_EQ(find(&got, "clock.source", "")->verdict, cases[i].verdict);
                ASSERT_HAS(find(&got, "clock.source", "")->remedy, cases[i].remedy);
        }
}

static void clock_state(void) {
        static const struct {
                const char *text;
                enum verdict sync;
                int offset; /* a verdict, or -1: nothing is said about it */
        } cases[] = {
                { "1 -99999 16000\n", VERDICT_OK, VERDICT_OK },
                { "1 100001 16000\n", VERDICT_OK, VERDICT_WARN },
                { "1 -100001 16000\n", VERDICT_OK, VERDICT_WARN },
                { "0 0 16000000\n", VERDICT_WARN, -1 },
                { "garbage\n", VERDICT_UNKNOWN, -1 },
                { "1 2\n", VERDICT_UNKNOWN, -1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "kernel/clock", cases[i].text);
                ASSERT_OK(probe(s.path, "clock", &nothing, &got));
                ASSERT_EQ(find(&got, "clock.sync", "")->verdict, cases[i].sync);
                ASSERT_EQ(got.findings.n, cases[i].offset < 0 ? 1 : 2);
                if (cases[i].offset >= 0)
                        ASSERT_EQ((int) find(&got, "clock.offset", "")->verdict, cases[i].offset);
        }
}

static void disk(void) {
        static const struct {
                const char *root; /* after "/ 1 " */
                enum verdict space;
                int inodes;
        } cases[] = {
                { "1000 50 1000 50", VERDICT_OK, VERDICT_OK },
                { "1000 49 1000 9", VERDICT_WARN, VERDICT_FAIL },
                { "1000 9 1000 49", VERDICT_FAIL, VERDICT_WARN },
                { "1000 500 0 0", VERDICT_OK, VERDICT_OK }, /* btrfs */
                { "1000 1001 10 5", VERDICT_UNKNOWN, -1 },
                { "0 0 0 0", VERDICT_UNKNOWN, -1 },
                { "much", VERDICT_UNKNOWN, -1 },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                char text[256];

                (void) snprintf(text, sizeof(text), "/ 1 %s\n/var/lib/tpu-hostd 2 1000 900 1000 900\n",
                                cases[i].root);
                scratch_write(&s, "kernel/space", text);
                ASSERT_OK(probe(s.path, "disk", &nothing, &got));
                ASSERT_EQ(find(&got, "disk.space", "/")->verdict, cases[i].space);
                ASSERT_EQ(find(&got, "disk.space", "/var/lib/tpu-hostd")->verdict, VERDICT_OK);
                if (cases[i].inodes >= 0)
                        ASSERT_EQ((int) find(&got, "disk.inodes", "/")->verdict, cases[i].inodes);
        }
}

/* One file system is told once. */
static void disk_shared(void) {
        _cleanup_collected_ struct collected got;

        ASSERT_OK(probe(GOOD, "disk", &nothing, &got));
        ASSERT_EQ(got.findings.n, 3); /* and where a run writes */
        ASSERT_HAS(got.samples, "system.filesystem.limit{system.filesystem.mountpoint=/} 107374182400\n");
        ASSERT_HAS(got.samples,
                   "system.filesystem.usage{system.filesystem.mountpoint=/,system.filesystem.state=used} "
                                "21474836480\n");
}

static void disk_others(void) {
        static const char mountinfo[] = "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
                                        "26 25 8:1 /x /var/x rw - ext4 /dev/sda1 rw\n"
                                        "27 25 0:30 / /nfs rw - nfs server:/a rw\n"
                                        "28 25 8:17 / /mnt/a\\040b rw,noatime master:1 - xfs /dev/sdb1 rw\n"
                                        "29 25 8:33 / /home rw - ext4 /dev/sdc1 rw\n"
                                        "garbage\n - \n1 2 3:4 / /a\\ rw - ext4 /dev/sdd rw\n"
                                        "1 2 3 - ext4 /dev/x\n";
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, "proc/self/mountinfo", mountinfo);
        /* 2049, 2065, 2081: makedev(8, 1), (8, 17), (8, 33); what lies over /home is another device. */
        scratch_write(&s, "kernel/space", "/ 2049 1000 600 10 5 700\n/var/lib/tpu-hostd 2049 1000 600 10 5 "
                                          "700\n/var/x 2049 1000 600 10 5\n/nfs 7 9 9 9 9\n"
                                          "/mnt/a\\040b 1 1 1 1 1\n/mnt/a b 2065 2000 100 10 5\n"
                                          "/home 99 5 5 5 5\n");
        ASSERT_OK(probe(s.path, "disk", &nothing, &got));
        ASSERT_EQ(got.findings.n, 3); /* of "/" alone, and where a run writes */
        ASSERT_HAS(got.samples, "{system.filesystem.mountpoint=/,system.filesystem.state=used} 300\n");
        ASSERT_HAS(got.samples, "{system.filesystem.mountpoint=/,system.filesystem.state=free} 600\n");
        ASSERT_HAS(got.samples, "{system.filesystem.mountpoint=/,system.filesystem.state=reserved} 100\n");
        ASSERT_TRUE(!strstr(got.samples, "/nfs") && !strstr(got.samples, "/home") &&
                    !strstr(got.samples, "/var/x"));
}

/* Where a run writes: what is mounted there, in a sandbox, too, and who may write. */
static void places(void) {
#define ROOT "25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
#define SANDBOX "25 1 8:1 / / ro - ext4 /dev/sda1 rw\n"
#define STAT "/tmp d 1777 0 0\n/var/tmp d 1777 0 0\n/dev/null c 0666 0 0\n"
        static const struct {
                const char *mounts, *stat, *subject, *found, *remedy;
                enum verdict verdict;
        } cases[] = {
                { ROOT, STAT, "", "can be written", "", VERDICT_OK },
                { "25 1 8:1 / / ro - ext4 /dev/sda1 ro,errors=remount-ro\n", STAT, "/", "read-only",
                  "remount,rw /", VERDICT_FAIL },
                { SANDBOX "26 25 0:9 / /tmp ro - tmpfs tmpfs ro,size=1k\n", STAT, "/tmp", "read-only",
                  "sudo mount -o remount,rw /tmp", VERDICT_FAIL },
                { ROOT "26 25 0:9 / /tmp ro - tmpfs tmpfs rw\n", STAT, "/tmp", "read-only", "",
                  VERDICT_FAIL },
                { SANDBOX "26 25 0:9 / /tmp ro - tmpfs tmpfs rw\n", STAT, "", "can be written", "",
                  VERDICT_OK },
                { SANDBOX "26 25 0:9 / /dev/shm ro - tmpfs tmpfs ro\n", STAT, "/dev/shm", "read-only", "",
                  VERDICT_FAIL },
                { ROOT "26 25 0:9 / /tmp ro - tmpfs a ro\n27 25 0:8 / /tmp rw - tmpfs b rw\n", STAT, "",
                  "can be written", "", VERDICT_OK },
                { ROOT "26 25 0:9 / /tmp rw,nosuid,noexec - tmpfs tmpfs rw\n", STAT, "/tmp", "noexec",
                  "sudo mount -o remount,exec /tmp", VERDICT_WARN },
                { ROOT "26 25 0:9 / /dev/shm rw,noexec - tmpfs tmpfs rw\n", STAT, "", "can be written", "",
                  VERDICT_OK },
                { ROOT, "/tmp d 0755 0 0\n", "/tmp", "mode 0755", "sudo chmod 1777 /tmp", VERDICT_FAIL },
                { ROOT, "/dev/null c 0600 0 0\n", "/dev/null", "mode 0600", "sudo chmod 0666 /dev/null",
                  VERDICT_FAIL },
                { ROOT, "/dev/null - 0644 0 0\n", "/dev/null", "no device", "mknod -m 0666 /dev/null c 1 3",
                  VERDICT_FAIL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                const struct finding *f;

                scratch_write(&s, "proc/self/mountinfo", cases[i].mounts);
                scratch_write(&s, "kernel/stat", cases[i].stat);
                ASSERT_OK(probe(s.path, "disk", &nothing, &got));
                f = find(&got, "disk.places", cases[i].subject);
                ASSERT_EQ(f->verdict, cases[i].verdict);
                ASSERT_STREQ(f->found, cases[i].found);
                ASSERT_HAS(f->remedy, cases[i].remedy);
        }
}

/* Each line that a daemon does not obey is said once, whoever reads it; with its place and a remedy. */
static void configuration(void) {
        static const char said[] =
                "tpu-hostd: /etc/tpu-hostd/hostd.conf.d/90-x.conf:2: unknown key 'Nosuch' in section "
                "[Hostd], ignored\n"
                "tpu-hostd: /etc/tpu-hostd/identity.conf.d/1.conf:3: no number\n"
                "tpu-launchd: /etc/tpu-hostd/identity.conf.d/1.conf:3: no number\n"
                "tpu-launchd: /etc/tpu-hostd/authority.conf cannot be read, ignored: Permission denied\n"
                "tpu-netcfg: /etc/tpu-hostd/netcfg.bak is not read: netcfg.conf and "
                "netcfg.conf.d/*.conf are\n";
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got, good;
        const struct finding *f;

        scratch_write(&s, "systemd/config", said);
        ASSERT_OK(probe(s.path, "config", &nothing, &got));
        ASSERT_EQ(got.findings.n, 3);
        f = find(&got, "config", "90-x.conf:2");
        ASSERT_EQ(f->verdict, VERDICT_WARN);
        ASSERT_STREQ(f->found, "/etc/tpu-hostd/hostd.conf.d/90-x.conf:2");
        ASSERT_STREQ(f->reason, "unknown key 'Nosuch' in section [Hostd], ignored");
        ASSERT_HAS(f->remedy, "sudo sed -i '2s/^/#/' /etc/tpu-hostd/hostd.conf.d/90-x.conf; sudo systemctl "
                              "restart tpu-hostd");
        ASSERT_STREQ(find(&got, "config", "1.conf:3")->reason, "no number");
        ASSERT_HAS(find(&got, "config", "tpu-netcfg")->reason, "netcfg.bak is not read");
        ASSERT_OK(probe(GOOD, "config", &nothing, &good));
        ASSERT_EQ(find(&good, "config", "")->verdict, VERDICT_OK);
}

static void limits_of_tasks(void) {
        static const struct {
                const char *load, *pids, *threads, *group, *subject;
                enum verdict verdict;
        } cases[] = {
                { "0 0 0 1/900 7\n", "4194304\n", "50000\n", "max\n", "", VERDICT_OK },
                { "0 0 0 1/900 7\n", "4995\n", "50000\n", "max\n", "kernel.pid_max", VERDICT_WARN },
                { "0 0 0 1/900 7\n", "4996\n", "4995\n", "max\n", "kernel.threads-max", VERDICT_WARN },
                { "0 0 0 1/900 7\n", "4996\n", "4996\n", "4195\n", "/sys/fs/cgroup/pids.max", VERDICT_WARN },
                { "0 0 0 1/900 7\n", "4996\n", "4996\n", "4196\n", "", VERDICT_OK },
                { "none\n", "4996\n", "4996\n", "max\n", "/proc/loadavg", VERDICT_UNKNOWN },
                { "0 0 0 1/900 7\n", "many\n", "4996\n", "max\n", "/proc/sys/kernel/pid_max",
                  VERDICT_UNKNOWN },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();

                scratch_write(&s, "proc/loadavg", cases[i].load);
                scratch_write(&s, "proc/sys/kernel/pid_max", cases[i].pids);
                scratch_write(&s, "proc/sys/kernel/threads-max", cases[i].threads);
                scratch_write(&s, "sys/fs/cgroup/pids.max", cases[i].group);
                scratch_write(&s, "sys/fs/cgroup/pids.current", "100\n");
                ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.tasks", cases[i].subject),
                          cases[i].verdict);
        }
}

static void limits(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, "proc/sys/fs/nr_open", "1048576\n");
        ASSERT_OK(probe(s.path, "limits", &nothing, &got));
        ASSERT_STREQ(find(&got, "limits.nofile", "")->found, "100000 in a run");
        scratch_write(&s, "proc/sys/fs/nr_open", "65536\n");
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.nofile", ""), VERDICT_WARN);
        scratch_write(&s, "proc/sys/fs/nr_open", "many\n");
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.nofile", ""), VERDICT_UNKNOWN);
}

/* What old guides set for all programs together, on a machine that has memory for more. */
static void limits_of_all_files(void) {
        static const struct {
                const char *most, *memory;
                enum verdict verdict;
        } cases[] = { { "9223372036854775807\n", "MemTotal: 1000000 kB\n", VERDICT_OK },
                      { "65535\n", "MemTotal: 700000000 kB\n", VERDICT_WARN },
                      { "99999\n", "MemTotal: 2000000 kB\n", VERDICT_WARN },
                      { "50000\n", "MemTotal: 500000 kB\n", VERDICT_OK }, /* as the kernel itself does */
                      { "65535\n", "none\n", VERDICT_OK } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();

                scratch_write(&s, "proc/sys/fs/nr_open", "1048576\n");
                scratch_write(&s, "proc/sys/fs/file-max", cases[i].most);
                scratch_write(&s, "proc/meminfo", cases[i].memory);
                ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.nofile", ""), cases[i].verdict);
        }
}

static void limits_of_memory(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();

        scratch_write(&s, "proc/sys/vm/overcommit_memory", "2\n");
        scratch_write(&s, "proc/sys/vm/max_map_count", "65529\n");
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.memory", "vm.overcommit_memory"),
                  VERDICT_WARN);
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.memory", "vm.max_map_count"), VERDICT_WARN);
}

static void limits_of_ports(void) {
        static const struct {
                const char *range, *kept;
                enum verdict verdict;
        } cases[] = { { "32768\t60999\n", "\n", VERDICT_OK },
                      { "1024\t65535\n", "\n", VERDICT_WARN },
                      { "8400\t8440\n", "8431-8438\n", VERDICT_OK },
                      { "1024\t65535\n", "80,8431-8438,8471,8476-8482\n", VERDICT_WARN },
                      { "1024\t65535\n", "80,8431-8438,8471,8476-8483,9000\n", VERDICT_OK },
                      { "all\n", "\n", VERDICT_UNKNOWN } };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                scratch_write(&s, "proc/sys/net/ipv4/ip_local_port_range", cases[i].range);
                scratch_write(&s, "proc/sys/net/ipv4/ip_local_reserved_ports", cases[i].kept);
                ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.ports", ""), cases[i].verdict);
        }
        /* What is reserved stays so. */
        scratch_write(&s, "proc/sys/net/ipv4/ip_local_port_range", "1024 65535\n");
        scratch_write(&s, "proc/sys/net/ipv4/ip_local_reserved_ports", "9000\n");
        (void) probe(s.path, "limits", &nothing, &got);
        ASSERT_HAS(find(&got, "limits.ports", "")->remedy, "reserved_ports=9000,8431-8438,8471,8476-8483 ");
}

static void cmdline(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        static char huge[8192];
        _cleanup_collected_ struct collected got;

        add_device(&s, "0000:00:04.0", "0x1ae0", "0x0076", "0x120000", "vfio-pci");
        scratch_write(&s, "proc/cmdline", "root=x idle=poll quiet intel_iommu=on,sm_on\n");
        ASSERT_OK(probe(s.path, "cmdline", &nothing, &got));
        ASSERT_EQ(got.findings.items[0].verdict, VERDICT_OK);
        ASSERT_STREQ(got.findings.items[0].found, "idle=poll intel_iommu=on,sm_on");
        scratch_write(&s, "proc/cmdline", "root=x intel_iommu=on,sm_on2\n");
        ASSERT_EQ(verdict_of(s.path, "cmdline", &nothing, "cmdline", ""), VERDICT_WARN);
        memset(huge, 'a', sizeof(huge) - 1);
        scratch_write(&s, "proc/cmdline", huge);
        ASSERT_EQ(verdict_of(s.path, "cmdline", &nothing, "cmdline", ""), VERDICT_UNKNOWN);
}

/* What is inherited and leads away from the TPUs. */
static void platform(void) {
        static const struct {
                const char *file, *manager, *subject, *remedy;
        } cases[] = {
                { " export JAX_PLATFORMS=\"cpu\"\n", "", "/etc/environment",
                  "sudo sed -Ei '/^\\s*(export )?JAX_PLATFORMS=/d' /etc/environment" },
                { "", "PJRT_DEVICE=CPU\n", "systemd", "sudo systemctl unset-environment PJRT_DEVICE" },
                { "JAX_PLATFORMS=tpu,cpu\nPJRT_DEVICE=\"\"\n", "PJRT_DEVICE=TPU\n", NULL, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;

                scratch_write(&s, "etc/environment", cases[i].file);
                scratch_write(&s, "systemd/environment", cases[i].manager);
                ASSERT_OK(probe(s.path, "proxy", &nothing, &got));
                ASSERT_EQ(got.findings.n, cases[i].subject ? 3 : 2);
                if (cases[i].subject)
                        ASSERT_HAS(find(&got, "platform", cases[i].subject)->remedy, cases[i].remedy);
        }
}

/* A proxy's password is never told. */
static void proxy(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got, quiet;

        scratch_write(&s, "etc/environment",
                      "# HTTP_PROXY=x\nexport "
                      "https_proxy=http://u:secret@p:1\nno_proxy=localhost\nALL_PROXY=\nmy_proxyx=1\n");
        scratch_write(&s, "systemd/environment",
                      "PATH=/bin\nHTTPS_PROXY=http://u:secret@p\nhttp_proxy=http://p\n");
        ASSERT_OK(probe(s.path, "proxy", &nothing, &got));
        ASSERT_EQ(find(&got, "proxy", "/etc/environment")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "proxy", "/etc/environment")->found, "https_proxy");
        ASSERT_STREQ(find(&got, "proxy", "systemd")->found, "HTTPS_PROXY, http_proxy");
        ASSERT_HAS(find(&got, "proxy", "systemd")->remedy,
                   "sudo systemctl unset-environment HTTPS_PROXY http_proxy;");
        for (size_t i = 0; i < got.findings.n; i++)
                ASSERT_TRUE(!strstr(got.findings.items[i].reason, "secret") &&
                            !strstr(got.findings.items[i].remedy, "secret"));
        scratch_write(&s, "etc/environment", "PATH=/bin\n");
        scratch_write(&s, "systemd/environment", "no_proxy=*\n");
        ASSERT_OK(probe(s.path, "proxy", &nothing, &quiet));
        ASSERT_EQ(finding_list_worst(&quiet.findings), VERDICT_OK);
}

static void tcmalloc(void) {
        static const char path[] = "usr/lib/x86_64-linux-gnu/libtcmalloc.so.4";
        _cleanup_scratch_ struct scratch tpu = scratch_new(), plain = scratch_new();

        one_chip(&tpu);
        scratch_write(&plain, "sys/bus/pci/devices/x", "");
        ASSERT_EQ(verdict_of(tpu.path, "tcmalloc", &nothing, "tcmalloc", ""), VERDICT_WARN);
        ASSERT_EQ(verdict_of(plain.path, "tcmalloc", &nothing, "tcmalloc", ""), VERDICT_OK);
        scratch_write(
                &tpu, path,
                "\177ELF\001: the library of a 32-bit program, as its class byte says, and more bytes here");
        scratch_write(&plain, path, "text");
        ASSERT_EQ(verdict_of(tpu.path, "tcmalloc", &nothing, "tcmalloc", ""), VERDICT_WARN);
        ASSERT_EQ(verdict_of(plain.path, "tcmalloc", &nothing, "tcmalloc", ""),
                  VERDICT_WARN); /* broken is broken */
}

static void tpu_logs(void) {
        _cleanup_scratch_ struct scratch s = scratch_new(), none = scratch_new(), many = scratch_new();
        _cleanup_collected_ struct collected got;
        char path[512];

        scratch_write(&none, "tmp/x", "");
        ASSERT_EQ(verdict_of(none.path, "tpu_logs", &nothing, "tpu_logs", ""), VERDICT_OK);
        scratch_write(&s, "tmp/tpu_logs/a/tpu_driver.1", "");
        scratch_path(&s, "tmp/tpu_logs/a/tpu_driver.1", path);
        ASSERT_OK(truncate(path, (off_t) 5 << 30)); /* a hole: it takes no room */
        scratch_link(&s, "tmp/tpu_logs/a/tpu_driver.INFO", "tpu_driver.1");
        scratch_link(&s, "tmp/tpu_logs/loop", ".");
        ASSERT_OK(probe(s.path, "tpu_logs", &nothing, &got));
        ASSERT_EQ(got.findings.items[0].verdict, VERDICT_WARN);
        ASSERT_HAS(got.findings.items[0].found, "5.0 GiB"); /* the link does not count twice */
        for (unsigned i = 0; i < HOST_LIST_MAX + 1; i++) {
                (void) snprintf(path, sizeof(path), "tmp/tpu_logs/%u", i);
                scratch_write(&many, path, "");
        }
        ASSERT_EQ(verdict_of(many.path, "tpu_logs", &nothing, "tpu_logs", ""), VERDICT_WARN);
}

static void lockfile(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        static struct device_owners free_ = { 0 },
                                    held = { .n = 1, .owners = { { .device = "/dev/vfio/17", .pid = 7 } } },
                                    away = { .error = -ECONNREFUSED, .why = "away" },
                                    part = { .incomplete = true };
        const struct {
                const struct device_owners *owners;
                enum verdict verdict;
        } cases[] = { { &free_, VERDICT_WARN },
                      { &held, VERDICT_OK },
                      { &away, VERDICT_UNKNOWN },
                      { &part, VERDICT_UNKNOWN },
                      { NULL, VERDICT_UNKNOWN } };

        scratch_write(&s, "tmp/libtpu_lockfile", "");
        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                const struct probe_context c = { .owners = cases[i].owners };

                ASSERT_EQ(verdict_of(s.path, "lockfile", &c, "lockfile", ""), cases[i].verdict);
        }
}

/* A vfio node is named by its IOMMU group. */
static void owners(void) {
        static struct device_owners o = { .n = 2,
                                          .owners = { { .device = "/dev/vfio/17",
                                                        .pid = 812,
                                                        .unit = "tpu-run-a.service",
                                                        .command = "python3 train.py" },
                                                      { .device = "/dev/vfio/17", .pid = 813 } } };
        static struct device_owners away = { .error = -ECONNREFUSED,
                                             .why = "tpu-launchd: Connection refused" };
        const struct probe_context with = { .owners = &o }, without = { .owners = &away };
        _cleanup_scratch_ struct scratch s = scratch_new(), plain = scratch_new();
        _cleanup_collected_ struct collected got, unknown;

        one_chip(&s);
        add_device(&s, "0000:00:01.0", "0x15b3", "0xa2d6", "0x020000",
                   "vfio-pci"); /* a BlueField's group is nobody's */
        scratch_link(&s, "sys/bus/pci/devices/0000:00:01.0/iommu_group",
                     "../../../../kernel/iommu_groups/96");
        ASSERT_OK(probe(s.path, "owners", &with, &got));
        ASSERT_EQ(got.findings.n, 2); /* and that the ports of a run are free */
        ASSERT_STREQ(find(&got, "owners", "/dev/vfio/17")->found,
                     "pid 812 tpu-run-a.service: python3 train.py");
        ASSERT_HAS(find(&got, "owners", "/dev/vfio/17")->reason, "1 more");
        ASSERT_OK(probe(s.path, "owners", &without, &unknown));
        ASSERT_EQ(find(&unknown, "owners", "")->verdict, VERDICT_UNKNOWN);
        ASSERT_HAS(find(&unknown, "owners", "")->reason, "Connection refused");
        scratch_write(&plain, "sys/bus/pci/devices/x", "");
        ASSERT_EQ(verdict_of(plain.path, "owners", &without, "owners", ""), VERDICT_OK);
}

/* Services have the CPUs of the process that starts them. */
static void limits_of_cpus(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.cpus", ""), VERDICT_UNKNOWN);
        scratch_write(&s, "sys/devices/system/cpu/online", "0-3,6\n");
        scratch_write(&s, "proc/1/status", "Name:\tsystemd\nCpus_allowed:\t4f\nCpus_allowed_list:\t0-3,6\n"
                                           "X:\t9\n");
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.cpus", ""), VERDICT_OK);
        scratch_write(&s, "proc/1/status", "Name:\tsystemd\nCpus_allowed_list:\t1\n");
        (void) probe(s.path, "limits", &nothing, &got);
        ASSERT_EQ(find(&got, "limits.cpus", "")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "limits.cpus", "")->found, "1 of 5");
        ASSERT_HAS(find(&got, "limits.cpus", "")->remedy, "taskset -cp 0-3,6 1");
}

static void limits_of_tcp(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();

        ASSERT_EQ(verdict_of(GOOD, "limits", &nothing, "limits.tcp", ""), VERDICT_OK);
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.tcp", "net.ipv4.tcp_sack"),
                  VERDICT_UNKNOWN);
        scratch_write(&s, "proc/sys/net/ipv4/tcp_sack", "0\n");
        ASSERT_EQ(verdict_of(s.path, "limits", &nothing, "limits.tcp", "net.ipv4.tcp_sack"), VERDICT_WARN);
}

/* Numbers that are below the kernel's own. */
static void limits_of_tcp_numbers(void) {
        static const struct {
                const char *name, *value;
                enum verdict verdict; /* OK: nothing is said of it */
                const char *remedy;
        } cases[] = {
                { "net.ipv4.ip_default_ttl", "64\n", VERDICT_OK, NULL },
                { "net.ipv4.ip_default_ttl", "4\n", VERDICT_WARN,
                  "sudo sysctl -w net.ipv4.ip_default_ttl='64'" },
                { "net.ipv4.tcp_retries2", "15\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_retries2", "3\n", VERDICT_WARN, "net.ipv4.tcp_retries2='15'" },
                { "net.ipv4.tcp_timestamps", "2\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_timestamps", "0\n", VERDICT_WARN, "net.ipv4.tcp_timestamps='1'" },
                { "net.ipv4.tcp_wmem", "4096\t16384\t4194304\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_wmem", "4096\t16384\t65536\n", VERDICT_WARN,
                  "tcp_wmem='4096 16384 4194304'" },
                { "net.ipv4.tcp_wmem", "4096\tmuch\n", VERDICT_UNKNOWN, "" },
                { "net.ipv4.tcp_rmem", "4096\t131072\t6291456\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_rmem", "4096\t131072\t262144\n", VERDICT_WARN,
                  "tcp_rmem='4096 131072 6291456'" },
                { "net.ipv4.tcp_limit_output_bytes", "262144\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_limit_output_bytes", "4096\n", VERDICT_WARN, "output_bytes='1048576'" },
                { "net.ipv4.neigh.default.gc_thresh3", "1024\n", VERDICT_OK, NULL },
                { "net.ipv4.neigh.default.gc_thresh3", "8\n", VERDICT_WARN,
                  "sudo sysctl -w net.ipv4.neigh.default.gc_thresh3='1024'" },
                { "net.core.netdev_max_backlog", "1000\n", VERDICT_OK, NULL },
                { "net.core.netdev_max_backlog", "10\n", VERDICT_WARN, "netdev_max_backlog='1000'" },
                { "net.ipv4.tcp_congestion_control", "cubic\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_congestion_control", "bbr3\n", VERDICT_OK, NULL },
                { "net.ipv4.tcp_congestion_control", "lp\n", VERDICT_WARN,
                  "sudo sysctl -w net.ipv4.tcp_congestion_control=reno" },
                { "net.ipv4.tcp_mem", "50576\t64768\t98152\n", VERDICT_WARN,
                  "net.ipv4.tcp_mem='9216000 12288000 18432000' #" },
                { "net.ipv4.tcp_mem", "9216000\t12288000\t18432000\n", VERDICT_OK, NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_collected_ struct collected got;
                const char *name = cases[i].name;
                char path[128];
                bool said = false;

                ASSERT_OK(intent_sysctl_path(name, path, sizeof(path)));
                scratch_write(&s, path + 1, cases[i].value);
                scratch_write(&s, "proc/meminfo", "MemTotal: 786432000 kB\n");
                ASSERT_OK(probe(s.path, "limits", &nothing, &got));
                for (size_t k = 0; k < got.findings.n; k++)
                        said |= streq(got.findings.items[k].subject, name);
                ASSERT_EQ(said, cases[i].verdict != VERDICT_OK);
                if (!said)
                        continue;
                ASSERT_EQ(find(&got, "limits.tcp", name)->verdict, cases[i].verdict);
                ASSERT_HAS(find(&got, "limits.tcp", name)->remedy, cases[i].remedy);
        }
}

/* What the profile wants of one is the probe sysctl's to judge. */
static void limits_of_tcp_by_profile(void) {
        static const struct intent wanted = {
                .n_sysctls = 1, .sysctls = { { .name = "net.ipv4.tcp_wmem", .value = "4096 16384 65536" } }
        };
        const struct probe_context c = { .intent = &wanted };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, "proc/sys/net/ipv4/tcp_wmem", "4096\t16384\t65536\n");
        scratch_write(&s, "proc/meminfo", "MemTotal: 786432000 kB\n");
        ASSERT_OK(probe(s.path, "limits", &c, &got));
        for (size_t k = 0; k < got.findings.n; k++)
                ASSERT_FALSE(streq(got.findings.items[k].subject, "net.ipv4.tcp_wmem"));
}

static void shm(void) {
        static const struct {
                const char *space;
                enum verdict verdict;
        } cases[] = { { "/ 1 10 9 10 9\n/dev/shm 3 51200 51200 9 9\n", VERDICT_OK },
                      { "/ 1 10 9 10 9\n/dev/shm 3 51100 51100 9 9\n", VERDICT_WARN },
                      { "/ 1 10 9 10 9\n/dev/shm 3 512000 25000 9 9\n", VERDICT_WARN } };

        for (size_t i = 0; i < ELEMENTSOF(cases); i++) {
                _cleanup_scratch_ struct scratch s = scratch_new();

                scratch_write(&s, "proc/meminfo", "MemTotal:       1000 kB\nMemFree: 9 kB\n");
                scratch_write(&s, "kernel/space", cases[i].space);
                ASSERT_EQ(verdict_of(s.path, "disk", &nothing, "disk.shm", "/dev/shm"), cases[i].verdict);
        }
}

/* Who has the chips may have the ports of a run. */
static void owners_of_ports(void) {
        static struct device_owners o = { .n_ports = 4,
                                          .ports = { { .port = 8476, .pid = 20, .unit = "web.service",
                                                       .command = "web -p" },
                                                     { .port = 8476, .pid = 20, .unit = "web.service" },
                                                     { .port = 8471, .pid = 21, .unit = "session-1.scope" },
                                                     { .port = 8431, .uid = 7 } } };
        const struct probe_context c = { .owners = &o };
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got, held;

        one_chip(&s);
        ASSERT_OK(probe(s.path, "owners", &c, &got));
        ASSERT_EQ(got.findings.n, 4); /* the chip, and three ports */
        ASSERT_EQ(find(&got, "owners.port", "8476")->verdict, VERDICT_WARN);
        ASSERT_STREQ(find(&got, "owners.port", "8476")->found, "pid 20 web.service: web -p");
        ASSERT_HAS(find(&got, "owners.port", "8476")->remedy, "sudo systemctl stop web.service");
        ASSERT_STREQ(find(&got, "owners.port", "8471")->remedy, "sudo kill 21");
        ASSERT_HAS(find(&got, "owners.port", "8431")->remedy, "sport = :8431");
        o.n = 1;
        o.owners[0] = (struct device_owner){ .device = "/dev/vfio/17", .pid = 7 };
        ASSERT_OK(probe(s.path, "owners", &c, &held));
        ASSERT_EQ(find(&held, "owners.port", "")->verdict, VERDICT_OK);
        ASSERT_EQ(held.findings.n, 2);
}

static void access_to_nodes(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        const struct probe_context c = { .chips_wanted = 1 };

        one_chip(&s);
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.access", ""), VERDICT_FAIL); /* udev made no node */
        scratch_write(&s, "kernel/stat", "/dev/vfio/17 c 0600 0 0\n/dev/vfio/1 c 0666 0 0\n");
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.access", ""), VERDICT_WARN);
        scratch_write(&s, "kernel/stat", "/dev/vfio/17 c 0666 0 0\n");
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.access", ""), VERDICT_OK);
        scratch_write(&s, "kernel/stat", "/dev/vfio/17 what\n");
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.access", ""), VERDICT_UNKNOWN);
}

static void machines(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        struct probe_context c = { .machine_type = "ct6e-standard-1t" };
        const struct machine_type told = { .generation = "v6e", .chips = 1, .source = "told" };

        one_chip(&s);
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.machine", ""), VERDICT_OK);
        c.machine_type = "ct6e-standard-4t";
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.machine", ""), VERDICT_FAIL);
        c.machine = &told; /* then the file is not asked */
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.machine", ""), VERDICT_OK);
        c.machine = NULL;
        c.machine_type = "ct5lp-hightpu-1t";
        ASSERT_EQ(verdict_of(s.path, "tpu", &c, "tpu.machine", ""), VERDICT_FAIL); /* another generation */
}

static void fingerprint(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, "proc/sys/kernel/osrelease", "6.8.0\n");
        scratch_write(&s, "home/a/.local/lib/python3.11/site-packages/libtpu-0.0.20.dist-info/METADATA",
                      "Metadata-Version: 2.1\nName: libtpu\nVersion: 0.0.20.dev1\n\nVersion: 9\n");
        scratch_write(&s, "home/a/.local/lib/python3.11/site-packages/libtpu-0.0.21.dist-info/RECORD", "");
        scratch_write(&s, "opt/venv/lib/python3.12/site-packages/Torch_XLA-2.8.0+libtpu.dist-info/METADATA",
                      "garbage\377");
        scratch_write(&s, "usr/lib/python3/dist-packages/jaxtyping-1.dist-info/METADATA", "Version: 1\n");
        scratch_write(&s, "etc/environment", "LIBTPU_INIT_ARGS=\"--a=b\033[2J --c\"\nSECRET_TOKEN=x\n");
        ASSERT_OK(probe(s.path, "fingerprint", &nothing, &got));
        ASSERT_HAS(find(&got, "fingerprint.wheel", "libtpu")->found, "0.0.20.dev1 in /home/a/.local");
        ASSERT_HAS(find(&got, "fingerprint.wheel", "libtpu")->found, "0.0.21 in ");
        ASSERT_EQ(find(&got, "fingerprint.wheel", "libtpu")->verdict,
                  VERDICT_WARN); /* two in one directory */
        ASSERT_HAS(find(&got, "fingerprint.wheel", "torch_xla")->found, "2.8.0+libtpu in /opt/venv");
        ASSERT_STREQ(find(&got, "fingerprint.flags", "LIBTPU_INIT_ARGS")->found, "--a=b?[2J --c");
        ASSERT_EQ(got.findings.n, 4);
}

static void fingerprint_huge(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_collected_ struct collected got;

        scratch_write(&s, "proc/sys/kernel/osrelease", "6.8.0\n");
        for (unsigned i = 0; i < WHEELS_MAX + 1; i++) {
                char path[128];

                (void) snprintf(path, sizeof(path),
                                "opt/v%u/lib/python3.12/site-packages/jax-0.%u.dist-info/METADATA", i, i);
                scratch_write(&s, path, "Name: jax\nVersion: 1\n");
        }
        ASSERT_OK(probe(s.path, "fingerprint", &nothing, &got));
        ASSERT_EQ(find(&got, "fingerprint.wheel", "")->verdict, VERDICT_UNKNOWN);
}

TEST_MAIN(good, thp, thp_by_size, clock_state, clock_sources, disk, disk_shared, disk_others,
          places, configuration, limits, limits_of_tasks, limits_of_all_files, limits_of_memory,
          limits_of_ports, limits_of_cpus, limits_of_tcp, limits_of_tcp_numbers, limits_of_tcp_by_profile,
          shm, cmdline, proxy, platform, tcmalloc, tpu_logs, lockfile, owners, owners_of_ports,
          access_to_nodes, machines, fingerprint, fingerprint_huge)
