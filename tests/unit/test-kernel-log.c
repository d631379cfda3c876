/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel log: its records, what is a fault, and that no flood blinds us. A pipe of packets stands for
 * /dev/kmsg. */
#include <fcntl.h>

#include "kernel_log.h"
#include "test.h"

/* --- Records and rules --------------------------------------------------------------------------------- */

static void records(void) {
        static const char *const wrong[] = { "", "6", "6,1", "6,1,2", "6,1,2,", "6,1,2,-", "x,1,2,-;t",
                                             "6,,2,-;t",
                                             "6,1,-;t", "70000,1,2,-;t", "6,99999999999999999999999,2,-;t",
                                             "-6,1,2,-;t" };
        static const char good[] = "27,123,456789,c;text; with more\n SUBSYSTEM=pci\n";
        struct kmsg_record r;

        ASSERT_OK(kmsg_parse(good, strlen(good), &r));
        ASSERT_EQ(r.level, 3);
        ASSERT_EQ(r.facility, 3);
        ASSERT_EQ(r.seq, 123);
        ASSERT_EQ(r.at, 456789);
        ASSERT_EQ(r.len, strlen("text; with more"));
        ASSERT_EQ(strncmp(r.text, "text; with more", r.len), 0);
        ASSERT_OK(kmsg_parse("6,1,2,-,caller=T1;", 18, &r)); /* CONFIG_PRINTK_CALLER */
        ASSERT_EQ(r.len, 0);
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++)
                ASSERT_EQ(kmsg_parse(wrong[i], strlen(wrong[i]), &r), -EBADMSG);
}

/* Lines as kernels print them. */
static void rules(void) {
        static const struct {
                unsigned level;
                const char *text, *fault; /* NULL: none */
        } lines[] = {
                { 3, "pcieport 0000:00:1c.0: AER: Uncorrected (Fatal) error received: 0000:01:00.0",
                  "pcie_uncorrected" },
                { 3, "vfio-pci 0000:00:05.0: PCIe Bus Error: severity=Uncorrected (Non-Fatal), "
                     "type=Transaction Layer, (Requester ID)",
                  "pcie_uncorrected" },
                { 4, "pcieport 0000:00:1c.0: AER: Corrected error received: 0000:01:00.0",
                  "pcie_corrected" },
                { 4, "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, "
                     "(Receiver ID)", "pcie_corrected" },
                { 6, "pcieport 0000:00:1c.0: AER: enabled with IRQ 24", NULL },
                { 6, "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug SHPCHotplug PME AER "
                     "PCIeCapability LTR]", NULL },
                { 0, "mce: [Hardware Error]: CPU 2: Machine Check Exception: 5 Bank 4: be00000000800400",
                  "machine_check" },
                { 6, "mce: [Hardware Error]: Machine check events logged", "machine_check" },
                { 3, "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0", "machine_check" },
                { 6, "mce: CPU0: Thermal monitoring enabled (TM1)", NULL },
                { 3, "INFO: task python3:1234 blocked for more than 120 seconds.", "hung_task" },
                { 0, "watchdog: BUG: soft lockup - CPU#3 stuck for 22s! [python3:1234]", "lockup" },
                { 3, "rcu: INFO: rcu_preempt self-detected stall on CPU", "lockup" },
                { 3, "Out of memory: Killed process 1234 (python3) total-vm:1kB", "oom" },
                { 3, "Memory cgroup out of memory: Killed process 1234 (python3) total-vm:1kB", "oom" },
                /* told by the line above */
                { 6, "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)", NULL },
                { 4, "vfio-pci 0000:00:05.0: vfio_bar_restore: reset recovery - restoring BARs", "vfio" },
                { 6, "vfio-pci 0000:00:05.0: enabling device (0000 -> 0002)", NULL },
                { 3, "DMAR: DRHD: handling fault status reg 2", "iommu" },
                { 3, "vfio-pci 0000:00:05.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0001]", "vfio" },
                { 4, "NETDEV WATCHDOG: eth0 (gve): transmit queue 3 timed out 5000 ms", "nic_reset" },
                { 6, "gve 0000:00:08.0: Performing reset", "nic_reset" },
                { 6, "gve 0000:00:08.0 eth0: Device link is up.", NULL },
                { 3, "I/O error, dev sda, sector 2048 op 0x0:(READ) flags 0x0 phys_seg 1 prio class 2",
                  "disk" },
                { 2, "EXT4-fs error (device sda1): ext4_lookup:1855: inode #2: comm ls", "disk" },
                { 2, "EXT4-fs (sda1): Remounting filesystem read-only", "disk" },
                { 4, "nf_conntrack: nf_conntrack: table full, dropping packet", "conntrack_full" },
                { 2, "CPU3: Core temperature above threshold, cpu clock throttled (total events = 1)",
                  "thermal" },
                { 1, "BUG: unable to handle page fault for address: ffff8881", "kernel_bug" },
                { 0, "general protection fault, probably for non-canonical address: 0000 [#1] SMP",
                  "kernel_bug" },
                { 6, "traps: python3[77] general protection fault ip:7f sp:7f error:0", NULL },
                { 6, "eth0: renamed from veth12", NULL },
                { 6, "", NULL },
        };

        for (size_t i = 0; i < ELEMENTSOF(lines); i++) {
                const struct kmsg_record r = { .level = lines[i].level, .text = lines[i].text,
                                               .len = strlen(lines[i].text) };
                enum kernel_fault f = kernel_fault_of(&r);
                const char *name = f == _KERNEL_FAULT_MAX ? "none" : kernel_fault_name(f);

                if (!streq(name, lines[i].fault ? lines[i].fault : "none"))
                        test_fail(__FILE__, __LINE__, "'%s' is %s", lines[i].text, name);
        }
}

/* --- The reader ---------------------------------------------------------------------------------------- */

struct bench {
        int in;
        struct kernel_log *log;
        unsigned told;
        struct kernel_fault_report last;
        char text[KERNEL_FAULT_TEXT_MAX];
};

static struct bench bench_new(uint64_t after) {
        struct bench b = { 0 };
        int fds[2];

        ASSERT_OK(pipe2(fds, O_DIRECT | O_NONBLOCK | O_CLOEXEC)); /* a write is a read */
        (void) fcntl(fds[0], F_SETPIPE_SZ, 1024 * 1024);
        ASSERT_OK(kernel_log_new(fds[0], after, &b.log));
        b.in = fds[1];
        return b;
}

static void bench_free(struct bench *b) {
        b->log = kernel_log_free(b->log);
        b->in = close_fd(b->in);
}

static void say(const struct bench *b, uint64_t seq, const char *text) {
        char record[4096];
        int n = snprintf(record, sizeof(record), "3,%" PRIu64 ",1000,-;%s\n", seq, text);

        ASSERT_EQ(write(b->in, record, (size_t) n), n);
}

static void keep(const struct kernel_fault_report *r, void *userdata) {
        struct bench *b = userdata;

        b->told++;
        b->last = *r;
        (void) snprintf(b->text, sizeof(b->text), "%s", r->text);
}

static unsigned tell(struct bench *b, usec_t now, bool all) {
        b->told = 0;
        ASSERT_EQ(kernel_log_tell(b->log, now, all, keep, b), b->told);
        return b->told;
}

static int64_t number, faults_of_kind;
static void take_number_of(struct sink *s, const struct sample *m) {
        (void) s;
        if (streq(m->name, "tpu.kernel.log.lost"))
                number = m->i;
        if (streq(m->name, "tpu.kernel.faults") && streq(m->values[0], "oom"))
                faults_of_kind = m->i;
        if (streq(m->name, "tpu.kernel.log.readable"))
                ASSERT_EQ(m->i, 1);
}

static int64_t lost(const struct bench *b) {
        struct sink s = { .sample = take_number_of };

        kernel_log_sample(b->log, &s);
        return number;
}

#define OOM "Out of memory: Killed process 1 (a)"
#define HUNG "INFO: task a:1 blocked for more than 120 seconds."

static void once_a_minute(void) {
        _cleanup_(bench_free) struct bench b = bench_new(UINT64_MAX);

        say(&b, 10, "nothing of note");
        say(&b, 11, OOM " first\x1b[2J\xff");
        say(&b, 12, OOM " second");
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 1000, false), 1);
        ASSERT_EQ(b.last.lines, 2);
        ASSERT_EQ(b.last.fault, KERNEL_FAULT_OOM);
        ASSERT_EQ(b.last.seq, 11);
        ASSERT_TRUE(b.last.by_kernel);
        ASSERT_TRUE(startswith(b.text, OOM " first") && !strchr(b.text, '\x1b') && !strchr(b.text, '\xff'));
        ASSERT_EQ(kernel_log_seq(b.log), 12);
        say(&b, 13, OOM);
        say(&b, 14, HUNG);
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 2000, false), 1); /* another kind at once, the same not before its time */
        ASSERT_EQ(b.last.fault, KERNEL_FAULT_HUNG_TASK);
        ASSERT_EQ(tell(&b, 999 + KERNEL_FAULT_QUIET, false), 0);
        ASSERT_EQ(tell(&b, 1000 + KERNEL_FAULT_QUIET, false), 1);
        ASSERT_EQ(b.last.lines, 1);
        say(&b, 15, OOM);
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 1001 + KERNEL_FAULT_QUIET, true), 1); /* at the end: all */
        ASSERT_EQ(lost(&b), 0);
        ASSERT_EQ(faults_of_kind, 4);
}

static void where_it_was_left(void) {
        _cleanup_(bench_free) struct bench b = bench_new(20);

        say(&b, 19, OOM);
        say(&b, 20, OOM);
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 1, true), 0);
        say(&b, 25, OOM); /* 21 to 24 were overwritten while nobody looked */
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 1, true), 1);
        ASSERT_EQ(lost(&b), 4);
}

/* The one line that counts in a flood of others, and of its own kind. */
static void flood(void) {
        _cleanup_(bench_free) struct bench b = bench_new(UINT64_MAX);
        uint64_t seq = 1;
        unsigned told = 0;

        for (unsigned round = 0; round < 400; round++) {
                for (unsigned i = 0; i < 100; i++)
                        say(&b, seq++, round == 200 &&
                            i == 50 ? HUNG : i % 2 ? OOM : "some noise of a driver");
                ASSERT_EQ(kernel_log_read(b.log), 0);
                told += tell(&b, 1 + round * (KERNEL_FAULT_QUIET / 100), false);
        }
        ASSERT_EQ(told, 5); /* four minutes of OOM, told at 0, 1, 2, 3, and the hung task */
        ASSERT_EQ(tell(&b, 1 + 400 * (KERNEL_FAULT_QUIET / 100), true), 1);
        ASSERT_EQ(b.last.lines, 99 * 50);
        ASSERT_EQ(lost(&b), 0);
        ASSERT_EQ(faults_of_kind, 400 * 50);
}

/* A batch is bounded, and what is no record is left out. */
static void bounds(void) {
        _cleanup_(bench_free) struct bench b = bench_new(UINT64_MAX);
        static char overlong[4000];
        unsigned written = 0;

        ASSERT_EQ(write(b.in, "garbage", 7), 7);
        memset(overlong, 'x', sizeof(overlong) - 1);
        memcpy(overlong, OOM, strlen(OOM));
        say(&b, 1, overlong);
        ASSERT_EQ(kernel_log_read(b.log), 0);
        ASSERT_EQ(tell(&b, 1, true), 1);
        ASSERT_EQ(strlen(b.text), KERNEL_FAULT_TEXT_MAX - 1);
        for (; written < KERNEL_LOG_BATCH + 1 && write(b.in, "6,1,1,-;x\n", 10) == 10; written++)
                ;
        if (written > KERNEL_LOG_BATCH) { /* the pipe may be smaller here */
                ASSERT_EQ(kernel_log_read(b.log), 1);
                ASSERT_EQ(kernel_log_read(b.log), 0);
        }
        b.in = close_fd(b.in);
        while (kernel_log_read(b.log) == 1)
                ;
        ASSERT_EQ(kernel_log_read(b.log), -ENODATA);
}

TEST_MAIN(records, rules, once_a_minute, where_it_was_left, flood, bounds)
