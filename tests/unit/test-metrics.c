/* SPDX-License-Identifier: Apache-2.0 */
/* The host's numbers out of a folder: right, named as and nothing where the files are missing, garbage or
 * huge. */
#include <math.h>

#include "cgroup_files.h"
#include "system.h"
#include "host_metrics.h"
#include "scratch.h"

#define MACHINE FIXTURES "/machine-metrics"
#define RUN_GROUP "sys/fs/cgroup/tpu.slice/tpu-run.slice/tpu-run-my_run.slice/"

/* --- Counting allocations ------------------------------------------------------------------------------ */

static size_t allocations;
void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *p, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *p, size_t n);

void *__wrap_malloc(size_t n) {
        allocations++;
        return __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t size) {
        allocations++;
        return __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n) {
        allocations++;
        return __real_realloc(p, n);
}

/* --- A sink that keeps everything as text -------------------------------------------------------------- */

struct kept {
        struct sink sink;
        size_t n, len;
        char text[64 * 1024]; /* "NAME{value,value} NUMBER\n" */
};

static void keep_finding(struct sink *s, const struct finding *f) {
        (void) s;
        test_fail(__FILE__, __LINE__, "a finding: %s", f->check);
}

static void keep_sample(struct sink *s, const struct sample *m) {
        struct kept *k = (struct kept *) s;
        size_t room = sizeof(k->text) - k->len;
        int n = snprintf(k->text + k->len, room, "%s{%s%s%s%s%s} ", m->name,
                         m->values[0] ? m->values[0] : "",
                         m->keys[1] ? "," : "", m->values[1] ? m->values[1] : "", m->keys[2] ? "," : "",
                         m->values[2] ? m->values[2] : "");

        for (size_t i = 0; i < ELEMENTSOF(m->keys); i++)
                ASSERT_EQ(m->keys[i] != NULL, m->values[i] != NULL);
        ASSERT_TRUE(m->is_int || isfinite(m->d));
        k->len += (size_t) n;
        room -= (size_t) n;
        n = m->is_int ? snprintf(k->text + k->len, room, "%" PRId64 "\n", m->i)
                      : snprintf(k->text + k->len, room, "%g\n", m->d);
        k->len += (size_t) n;
        ASSERT_TRUE(k->len < sizeof(k->text));
        k->n++;
}

static void count_sample(struct sink *s, const struct sample *m) {
        (void) m;
        ((struct kept *) s)->n++;
}

static const char *look(struct host_metrics *m, struct kept *k) {
        *k = (struct kept){ .sink = { keep_finding, keep_sample } };
        host_metrics_look(m, 100 * USEC_PER_SEC, &k->sink);
        return k->text;
}

static const char *look_at_run(struct host_metrics *m, struct kept *k) {
        *k = (struct kept){ .sink = { keep_finding, keep_sample } };
        host_metrics_look_at_run(m, "my-run", NULL, &k->sink);
        host_metrics_runs_end(m);
        return k->text;
}

#define ASSERT_LINE(text, line) \
        (has_line((text), (line)) ? (void) 0 \
                                  : test_fail(__FILE__, __LINE__, "no \"%s\" in:\n%s", (line), (text)))

static bool has_line(const char *text, const char *line) {
        size_t n = strlen(line);

        for (const char *p = text; (p = strstr(p, line)); p++)
                if ((p == text || p[-1] == '\n') && p[n] == '\n')
                        return true;
        return false;
}

/* --- A whole machine ----------------------------------------------------------------------------------- */

static const char *const wanted[] = {
        "system.uptime{} 100",
        "system.cpu.time{user} 1",
        "system.cpu.time{softirq} 7",
        "system.cpu.time{steal} 8",
        "system.cpu.logical.count{} 16",
        "tpu.pressure.stall_time{cpu,some} 1.25",
        "tpu.pressure.stall_time{memory,full} 0.25",
        "tpu.pressure.stall_time{irq,full} 0.5",
        "system.memory.limit{} 1024000000",
        "system.memory.usage{free} 409600000",
        "system.memory.usage{used} 307200000",
        "system.memory.linux.available{} 716800000",
        "system.memory.linux.slab.usage{unreclaimable} 2048000",
        "tpu.memory.unwritten{writeback} 4096",
        "system.paging.usage{used} 10240000",
        "system.paging.faults{minor} 900",
        "system.paging.faults{major} 100",
        "system.paging.operations{out} 22",
        "tpu.memory.oom_kills{} 7",
        "tpu.memory.allocation_stalls{} 6",
        "system.network.io{eth0,receive} 123456789",
        "system.network.io{eth1,transmit} 6000000000",
        "system.network.packet.count{eth0,transmit} 87654",
        "system.network.errors{eth0,receive} 1",
        "system.network.packet.dropped{eth0,receive} 2",
        "system.network.packet.dropped{eth0,transmit} 4",
        "tpu.softnet.packets{processed} 768",
        "tpu.softnet.packets{dropped} 17",
        "tpu.softnet.packets{flow_limit} 51",
        "tpu.softnet.squeezed{} 34",
        "tpu.tcp.established{} 50",
        "tpu.tcp.segments{received} 60000",
        "tpu.tcp.segments{sent_again} 80",
        "tpu.tcp.resets{receive} 40",
        "tpu.tcp.resets{transmit} 100",
        "tpu.tcp.timeouts{} 11",
        "tpu.tcp.errors{lost_retransmit} 12",
        "tpu.tcp.errors{abort_memory} 17",
        "tpu.udp.errors{receive_buffer} 5",
        "tpu.conntrack.entries{} 16",
        "tpu.conntrack.limit{} 262144",
        "tpu.conntrack.dropped{drop} 51",
        "tpu.conntrack.dropped{early_drop} 68",
        "system.disk.io{sda,read} 1024000",
        "system.disk.io{nvme0n1,write} 25600",
        "system.disk.operations{sda,write} 200",
        "system.disk.operation_time{sda,write} 2.5",
        "system.disk.io_time{sda} 3.5",
        "tpu.agent.cpu.time{tpu-netcfg.service,user} 0.02",
};

static const char *const wanted_of_run[] = {
        "tpu.run.cpu.time{my-run,user} 2",
        "tpu.run.cpu.time{my-run,system} 1",
        "tpu.run.cpu.throttled_time{my-run} 0.5",
        "tpu.run.memory.usage{my-run} 123456",
        "tpu.run.memory.part{my-run,anonymous} 100000",
        "tpu.run.oom_kills{my-run} 2",
        "tpu.run.memory.major_faults{my-run} 41",
        "tpu.run.memory.refaults{my-run} 42",
        "tpu.run.memory.direct_reclaim{my-run} 43",
        "tpu.run.tasks{my-run} 17",
        "tpu.run.disk.io{my-run,read} 1010",
        "tpu.run.disk.io{my-run,write} 2020",
        "tpu.run.pressure.stall_time{my-run,cpu,full} 0.125",
        "tpu.run.pressure.stall_time{my-run,io,some} 0.75",
};

static void machine(void) {
        static const char *const unwanted[] = { "docker0", "{lo,", "sda1", "loop0", "nvme}", "{cpu,full}" };
        _cleanup_(host_metrics_freep) struct host_metrics *m = NULL;
        _cleanup_host_ struct host h = HOST_NULL;
        static struct kept all, run;

        ASSERT_OK(host_open(MACHINE, &h));
        ASSERT_OK(host_metrics_new(&h, &m));
        (void) look(m, &all);
        for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                ASSERT_LINE(all.text, wanted[i]);
        ASSERT_LINE(all.text, "tpu.agent.memory.usage{tpu-hostd.service} 4096000");
        for (size_t i = 0; i < ELEMENTSOF(unwanted); i++)
                ASSERT_TRUE(strstr(all.text, unwanted[i]) == NULL);
        (void) look_at_run(m, &run);
        for (size_t i = 0; i < ELEMENTSOF(wanted_of_run); i++)
                ASSERT_LINE(run.text, wanted_of_run[i]);
        for (enum metric_id id = 0; id < _METRIC_MAX; id++) {
                char name[80];

                if (id == METRIC_KERNEL_FAULTS || id == METRIC_KERNEL_LOG_LOST ||
                    id == METRIC_KERNEL_LOG_READABLE)
                        continue; /* of the real machine only: test-kernel-log.c */
                if (startswith(metric_def(id)->name, "tpu.net."))
                        continue; /* of its runs' sockets: test-flows.c */
                if (id >= METRIC_NIC_UP && id <= METRIC_LOGS_SIZE)
                        continue; /* by probes: test-probes.c, test-probes-host.c */
                if (id >= METRIC_HOST_STATE)
                        /* tpu-hostd of itself: hostd/test_hostd.py, hostd/test_progress.py,
                         * wire/test_fields.py */
                        continue;
                (void) snprintf(name, sizeof(name), "%s{", metric_def(id)->name);
                if (!strstr(all.text, name) && !strstr(run.text, name))
                        test_fail(__FILE__, __LINE__, "%s is never measured", metric_def(id)->name);
        }
}

static void nothing_is_allocated(void) {
        static struct kept k = { .sink = { keep_finding, count_sample } };
        _cleanup_(host_metrics_freep) struct host_metrics *folder = NULL, *real = NULL;
        _cleanup_host_ struct host h = HOST_NULL, here = HOST_NULL;
        size_t before;

        ASSERT_OK(host_open(MACHINE, &h));
        ASSERT_OK(host_open(NULL, &here));
        ASSERT_OK(host_metrics_new(&h, &folder));
        ASSERT_OK(host_metrics_new(&here, &real));
        ASSERT_TRUE(allocations > 0); /* they are counted */
        host_metrics_look(real, 1, &k.sink);
        before = allocations;
        for (unsigned i = 0; i < 20; i++) {
                host_metrics_look(real, 1, &k.sink);
                host_metrics_look(folder, 1, &k.sink);
                host_metrics_look_at_run(folder, "my-run", NULL, &k.sink);
                host_metrics_runs_end(folder);
        }
        ASSERT_EQ(allocations - before, 0);
        ASSERT_TRUE(k.n > 20 * (ELEMENTSOF(wanted) + ELEMENTSOF(wanted_of_run)));
}

/* --- Missing, garbage, huge ---------------------------------------------------------------------------- */

static const char *const files[] = {
        "proc/stat",
        "proc/pressure/cpu",
        "proc/pressure/memory",
        "proc/pressure/io",
        "proc/meminfo",
        "proc/vmstat",
        "proc/net/dev",
        "proc/net/softnet_stat",
        "proc/net/snmp",
        "proc/net/netstat",
        "proc/net/stat/nf_conntrack",
        "proc/sys/net/netfilter/nf_conntrack_count",
        "proc/diskstats",
        "sys/devices/system/cpu/online",
        RUN_GROUP "cpu.stat",
        RUN_GROUP "memory.current",
        RUN_GROUP "memory.stat",
        RUN_GROUP "memory.events",
        RUN_GROUP "pids.current",
        RUN_GROUP "io.stat",
        RUN_GROUP "cpu.pressure",
};

/* A host whose every file is text: what it says of itself, and of its run. */
static const char *said(const char *text) {
        _cleanup_(host_metrics_freep) struct host_metrics *m = NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        static struct kept k;

        for (size_t i = 0; text && i < ELEMENTSOF(files); i++)
                scratch_write(&s, files[i], text);
        scratch_write(&s, "sys/fs/cgroup/cgroup.controllers", "");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_metrics_new(&h, &m));
        (void) look(m, &k);
        host_metrics_look_at_run(m, "my-run", NULL, &k.sink);
        return k.text;
}

static void garbage(void) {
        static const char *const texts[] = {
                "",
                "\n\n\n",
                "garbage",
                "cpu \nTcp:\nTcp:\n eth0:\n 8 0 sda\n some total=\nMemTotal: kB\n",
                "cpu  -1 -2\nMemTotal: -5 kB\nTcp: CurrEstab\nTcp: -1\neth0: -1\n8 0 sda -1\nsome "
                "total=-1\n",
                "cpu  99999999999999999999\nMemTotal: 99999999999999999999 kB\n"
                "pgfault 99999999999999999999\n"
                "Tcp: CurrEstab\nTcp: 99999999999999999999\nsome avg10=0 total=99999999999999999999\n"
                "user_usec 99999999999999999999\n8:0 rbytes=99999999999999999999\n",
                "Tcp: InSegs\nUdp: 5\nMemTotal: 5\npgfault 5x\nuser_usec 1x\n",
                "\xff\xfe:\x01\x02 \x80\n\x7f",
        };
        static char huge[3 * 1024 * 1024];

        ASSERT_STREQ(said(NULL), "system.uptime{} 100\n");
        for (size_t i = 0; i < ELEMENTSOF(texts); i++) {
                const char *text = said(texts[i]);
                const char *rest = text + strlen("system.uptime{} 100\n");

                ASSERT_TRUE(startswith(text, "system.uptime{} 100\n"));
                /* An empty list of disks is a measured zero. */
                if (!streq(rest, "") &&
                    !streq(rest, "tpu.run.disk.io{my-run,read} 0\ntpu.run.disk.io{my-run,write} 0\n"))
                        test_fail(__FILE__, __LINE__, "text %zu gave:\n%s", i, text);
        }
        memset(huge, '7', sizeof(huge) - 1); /* one line without an end */
        ASSERT_TRUE(startswith(said(huge), "system.uptime{} 100\n"));
        for (size_t i = 0; i + 6 < sizeof(huge); i += 6)
                memcpy(huge + i, "a: 1 \n", 6); /* and half a million of lines */
        ASSERT_TRUE(startswith(said(huge), "system.uptime{} 100\n"));
}

static void pure(void) {
        int64_t v;

        ASSERT_EQ(cpu_list_count("0\n"), 1);
        ASSERT_EQ(cpu_list_count("0-3,8"), 5);
        ASSERT_EQ(cpu_list_count("3-0"), 0);
        ASSERT_EQ(cpu_list_count("0-99999999999"), 0);
        ASSERT_EQ(cpu_list_count("0-3;"), 0);
        ASSERT_EQ(cpu_list_count(""), 0);
        ASSERT_TRUE(pressure_total("some avg10=1.00 total=5\nfull avg10=0 total=6\n", "full", &v));
        ASSERT_EQ(v, 6);
        ASSERT_FALSE(pressure_total("some avg10=1.00\nfull total=6\n", "some", &v));
        ASSERT_FALSE(pressure_total("awesome total=6\n", "some", &v));
        ASSERT_EQ(sum_held(INT64_MAX, 1), INT64_MAX);
}

/* Lines that end, or not, at each place around the end of the buffer come whole. */
static void long_files(void) {
        for (size_t first = LINES_BUFFER - 8; first < LINES_BUFFER + 8; first++) {
                _cleanup_scratch_ struct scratch s = scratch_new();
                _cleanup_host_ struct host h = HOST_NULL;
                struct source file = SOURCE_NULL;
                char text[LINES_BUFFER + 64];
                static struct lines l;
                char *line;

                memset(text, 'x', first);
                (void) snprintf(text + first, sizeof(text) - first, "\nsecond\nlast");
                scratch_write(&s, "f", text);
                ASSERT_OK(host_open(s.path, &h));
                ASSERT_OK(lines_begin(&l, &file, &h, "/f"));
                line = lines_next(&l);
                if (first < LINES_BUFFER - 1) {
                        ASSERT_EQ(strlen(line), first);
                        line = lines_next(&l);
                }
                ASSERT_STREQ(line, "second");
                ASSERT_STREQ(lines_next(&l), "last");
                ASSERT_TRUE(lines_next(&l) == NULL);
                source_close(&file);
        }
}

/* --- What comes and goes ------------------------------------------------------------------------------- */

static void run_again(void) {
        _cleanup_(host_metrics_freep) struct host_metrics *m = NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        static struct kept k;
        char path[512];

        scratch_write(&s, "sys/fs/cgroup/cgroup.controllers", "");
        scratch_write(&s, RUN_GROUP "cpu.stat", "user_usec 7000000\n");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_metrics_new(&h, &m));
        ASSERT_LINE(look_at_run(m, &k), "tpu.run.cpu.time{my-run,user} 7");
        /* A run that is not looked at is forgotten; the next of its name is another control group. */
        host_metrics_runs_end(m);
        host_metrics_runs_end(m);
        scratch_path(&s, RUN_GROUP "cpu.stat", path);
        ASSERT_OK(remove(path));
        ASSERT_STREQ(look_at_run(m, &k), "");
        scratch_write(&s, RUN_GROUP "cpu.stat", "user_usec 1000000\n");
        ASSERT_LINE(look_at_run(m, &k), "tpu.run.cpu.time{my-run,user} 1");
        k = (struct kept){ .sink = { keep_finding, keep_sample } };
        host_metrics_look_at_run(m, "../../../../etc", NULL, &k.sink);
        host_metrics_look_at_run(m, "", NULL, &k.sink);
        ASSERT_STREQ(k.text, "");
}

static void nics_come_and_go(void) {
        static const char head[] = "Inter-|\n face |bytes\n", row[] = ": 1 2 3 4 0 0 0 0 5 6 7 8 0 0 0 0\n";
        _cleanup_(host_metrics_freep) struct host_metrics *m = NULL;
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        static struct kept k;
        char text[8192];
        int n;

        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_metrics_new(&h, &m));
        (void) snprintf(text, sizeof(text), "%s host0%s    lo%s", head, row, row);
        scratch_write(&s, "proc/net/dev", text);
        ASSERT_LINE(look(m, &k), "system.network.io{host0,transmit} 5"); /* a container's: no device */
        ASSERT_TRUE(strstr(k.text, "{lo,") == NULL);
        scratch_write(&s, "sys/class/net/eth0/device/x", "");
        (void) snprintf(text, sizeof(text), "%s host0%s  eth0%s", head, row, row);
        scratch_write(&s, "proc/net/dev", text);
        ASSERT_LINE(look(m, &k), "system.network.io{eth0,transmit} 5");
        ASSERT_TRUE(strstr(k.text, "host0") == NULL);
        n = snprintf(text, sizeof(text), "%s", head);
        for (unsigned i = 0; i < 100; i++)
                n += snprintf(text + n, sizeof(text) - (size_t) n, "v%u%s", i, row);
        scratch_write(&s, "proc/net/dev", text);
        (void) look(m, &k); /* more than there is room for */
        ASSERT_TRUE(strstr(k.text, "{v99,") == NULL);
        (void) snprintf(text, sizeof(text), "%s  eth0%s", head, row);
        scratch_write(&s, "proc/net/dev", text);
        ASSERT_TRUE(strstr(look(m, &k), "{v") == NULL);
}

TEST_MAIN(machine, nothing_is_allocated, garbage, pure, long_files, run_again, nics_come_and_go)
