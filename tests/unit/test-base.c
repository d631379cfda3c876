/* SPDX-License-Identifier: Apache-2.0 */
#include <sys/sysmacros.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "clock.h"
#include "fnv.h"
#include "grow.h"
#include "texts.h"
#include "io.h"
#include "finding.h"
#include "host.h"
#include "options.h"
#include "report.h"
#include "host_stat.h"
#include "scratch.h"
#include "test.h"

static void test_clock(void) {
        struct clock_fixed at = { .boot = 7, .real = 1795237200ULL * USEC_PER_SEC + 123456 };
        struct clock c = clock_from(&at);
        static const char *const no_times[] = { "", "2h", "-1", "2026-11-21T05:00:00",
                                                "2026-11-21T05:00:00+01:00",
                                                "1960-11-21T05:00:00Z", "253402300801",
                                                "99999999999999999999", "1 " };
        usec_t t;
        char buf[CLOCK_TEXT_MAX];

        ASSERT_EQ(clock_boot(&c), 7);
        ASSERT_STREQ(clock_text(clock_real(&c), buf), "2026-11-21T05:00:00.123Z");
        ASSERT_STREQ(clock_text(UINT64_MAX, buf), "-");
        ASSERT_OK(clock_parse("2026-11-21T05:00:00Z", &t));
        ASSERT_EQ(t, 1795237200ULL * USEC_PER_SEC);
        ASSERT_OK(clock_parse("2026-11-21T05:00:00.1234567Z", &t));
        ASSERT_EQ(t, 1795237200ULL * USEC_PER_SEC + 123456);
        ASSERT_OK(clock_parse("1795237200", &t));
        ASSERT_EQ(t, 1795237200ULL * USEC_PER_SEC);
        for (size_t i = 0; i < ELEMENTSOF(no_times); i++)
                ASSERT_EQ(clock_parse(no_times[i], &t), -EINVAL);
}

static void test_mountinfo(void) {
        struct mount_entry m;
        char longer[400];

        ASSERT_TRUE(mountinfo_parse("36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw\n", &m));
        ASSERT_STREQ(m.point, "/mnt2");
        ASSERT_STREQ(m.type, "ext3");
        ASSERT_STREQ(m.source, "/dev/root");
        ASSERT_EQ(m.device, makedev(98, 0));
        ASSERT_TRUE(mountinfo_parse("36 35 0:9 / /tmp/de\\040bugging rw - fuse.sshfs a@b:/ rw", &m));
        ASSERT_STREQ(m.point, "/tmp/de bugging");
        ASSERT_STREQ(m.type, "fuse.sshfs");
        ASSERT_FALSE(mountinfo_parse("36 35 98:0 / /mnt rw", &m));
        ASSERT_FALSE(mountinfo_parse(" - ", &m));
        ASSERT_FALSE(mountinfo_parse("36 35 98:0 / /a\\04 rw - ext4 x rw", &m));
        (void) snprintf(longer, sizeof(longer), "36 35 98:0 / /%0300d rw - ext4 x rw", 0);
        ASSERT_FALSE(mountinfo_parse(longer, &m));
}

static void test_hex_and_hash(void) {
        _cleanup_free_ char *text = hex_encode("\x00\xff" "a", 3);

        ASSERT_STREQ(text, "00ff61");
        ASSERT_TRUE(fnv_text(FNV_BEGIN, "") == UINT64_C(0xcbf29ce484222325)); /* of the draft */
        ASSERT_TRUE(fnv_text(FNV_BEGIN, "a") == UINT64_C(0xaf63dc4c8601ec8c));
        ASSERT_TRUE(fnv_text(FNV_BEGIN, "foobar") == UINT64_C(0x85944171f73967e8));
}

static void test_host_read(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char buf[16];
        uint64_t v;

        scratch_write(&s, "proc/short", "42 \n");
        scratch_write(&s, "proc/hex", "0x1ae0\n");
        scratch_write(&s, "proc/negative", "-1\n");
        scratch_write(&s, "proc/huge", "99999999999999999999999");
        scratch_write(&s, "proc/long", "0123456789abcdef");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_FALSE(h.real_root);
        ASSERT_OK(host_read(&h, "/proc/short", buf, sizeof(buf), NULL));
        ASSERT_STREQ(buf, "42");
        ASSERT_OK(host_read_u64(&h, "/proc/hex", &v));
        ASSERT_EQ(v, 0x1ae0);
        ASSERT_EQ(host_read_u64(&h, "/proc/negative", &v), -EBADMSG);
        ASSERT_EQ(host_read_u64(&h, "/proc/huge", &v), -ERANGE);
        ASSERT_EQ(host_read(&h, "/proc/long", buf, sizeof(buf), NULL), -E2BIG);
        ASSERT_EQ(host_read(&h, "/proc/none", buf, sizeof(buf), NULL), -ENOENT);
}

/* A tree of fixtures must never show the machine that the test runs on. */
static void test_host_stays_inside(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char buf[64];

        scratch_write(&s, "etc/inside", "inside");
        scratch_link(&s, "absolute", "/etc/inside");
        scratch_link(&s, "up", "../../../../../../../../etc/passwd");
        scratch_link(&s, "driver", "../../bus/pci/drivers/gve");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_read(&h, "/absolute", buf, sizeof(buf), NULL));
        ASSERT_STREQ(buf, "inside");
        ASSERT_EQ(host_read(&h, "/up", buf, sizeof(buf), NULL), -ENOENT);
        ASSERT_OK(host_link_name(&h, "/driver", buf, sizeof(buf)));
        ASSERT_STREQ(buf, "gve");
        ASSERT_EQ(host_link_name(&h, "/etc/inside", buf, sizeof(buf)), -EINVAL);
}

static int collect(const char *name, void *userdata) {
        strcat(strcat(userdata, name), " ");
        return 0;
}

static void test_host_list(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char names[64] = "";

        scratch_write(&s, "d/b", "");
        scratch_write(&s, "d/a", "");
        scratch_write(&s, "d/c", "");
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_list(&h, "/d", collect, names));
        ASSERT_STREQ(names, "a b c ");
        ASSERT_EQ(host_list(&h, "/none", collect, names), -ENOENT);
}

static void test_host_fifo(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char path[300], buf[8];

        (void) snprintf(path, sizeof(path), "%s/fifo", s.path);
        ASSERT_OK(mkfifo(path, 0600));
        ASSERT_OK(host_open(s.path, &h));
        ASSERT_OK(host_read(&h, "/fifo", buf, sizeof(buf), NULL)); /* must return, not wait for a writer */
        ASSERT_STREQ(buf, "");
}

static void test_verdicts(void) {
        enum verdict v;

        ASSERT_EQ(verdict_worse(VERDICT_UNKNOWN, VERDICT_WARN), VERDICT_WARN);
        ASSERT_EQ(verdict_worse(VERDICT_FAIL, VERDICT_UNKNOWN), VERDICT_FAIL);
        ASSERT_EQ(verdict_worse(VERDICT_OK, VERDICT_UNKNOWN), VERDICT_UNKNOWN);
        ASSERT_EQ(verdict_exit_code(VERDICT_UNKNOWN), 3);
        ASSERT_EQ(verdict_gravity(VERDICT_OK), 0);
        ASSERT_EQ(verdict_gravity(VERDICT_UNKNOWN), 1);
        ASSERT_EQ(verdict_gravity(VERDICT_WARN), 2);
        ASSERT_EQ(verdict_gravity(VERDICT_FAIL), 3); /* of max() over many */
        ASSERT_OK(verdict_parse("FAIL", &v));
        ASSERT_EQ(v, VERDICT_FAIL);
        ASSERT_EQ(verdict_parse("fail", &v), -EINVAL);
}

static void test_finding_is_cut_visibly(void) {
        struct finding f;
        char text[300];

        memset(text, 'x', sizeof(text) - 1);
        text[sizeof(text) - 1] = '\0';
        finding_init(&f, "nic.mtu", "eth0");
        finding_set(f.found, "%s", text);
        ASSERT_TRUE(strlen(f.found) < sizeof(f.found));
        ASSERT_STREQ(f.found + strlen(f.found) - 3, "…");
}

static void test_report(void) {
        _cleanup_finding_list_ struct finding_list l = FINDING_LIST_NULL;
        _cleanup_free_ char *text = NULL;
        struct finding f;
        size_t len;
        FILE *out;

        finding_init(&f, "sysctl", "net.ipv4.tcp_rmem");
        f.verdict = VERDICT_OK;
        finding_set(f.found, "4096 41943040 314572800");
        finding_set(f.wanted, "4096 41943040 314572800");
        ASSERT_OK(finding_list_add(&l, &f));
        finding_init(&f, "nic.mtu", "eth0");
        f.verdict = VERDICT_FAIL;
        finding_set(f.found, "1460");
        finding_set(f.wanted, "8896");
        finding_set(f.source, "profile v6e");
        finding_set(f.remedy, "ip link set eth0 mtu 8896");
        ASSERT_OK(finding_list_add(&l, &f));
        out = open_memstream(&text, &len);
        ASSERT_OK(report_print_text(out, &l));
        fclose(out);
        ASSERT_STREQ(text, "FAIL     nic.mtu  eth0               1460                     wanted 8896\n"
                           "         source: profile v6e\n"
                           "         to do:  ip link set eth0 mtu 8896\n"
                           "OK       sysctl   net.ipv4.tcp_rmem  4096 41943040 314572800\n");
        ASSERT_EQ(finding_list_worst(&l), VERDICT_FAIL);
}

static void test_durable(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_close_ int dir = open(s.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_free_ char *text = NULL;
        size_t len;

        ASSERT_OK(durable_write(dir, "cursor", "one", 3, 0600));
        ASSERT_OK(durable_write(dir, "cursor", "second", 6, 0600));
        ASSERT_OK(durable_read(dir, "cursor", 100, &text, &len));
        ASSERT_EQ(len, 6);
        ASSERT_STREQ(text, "second");
        ASSERT_EQ(durable_read(dir, "cursor", 5, &text, &len), -E2BIG);
        ASSERT_EQ(durable_write(dir, "a/b", "x", 1, 0600), -EINVAL);
        ASSERT_EQ(faccessat(dir, ".cursor.new", F_OK, 0), -1);
}

static void test_read_whole(void) {
        _cleanup_free_ char *text = NULL;
        char *more = NULL;
        size_t len;
        int p[2];

        ASSERT_OK(pipe(p));
        ASSERT_OK(io_write_all(p[1], "secret", 6));
        ASSERT_EQ(close_fd(p[1]), -1);
        ASSERT_OK(io_read_whole(p[0], 6, &text, &len)); /* what is no regular file has no size */
        ASSERT_EQ(len, 6);
        ASSERT_STREQ(text, "secret");
        ASSERT_EQ(close_fd(p[0]), -1);
        ASSERT_OK(pipe(p));
        ASSERT_OK(io_write_all(p[1], "secret", 6));
        ASSERT_EQ(io_read_whole(p[0], 5, &more, &len), -E2BIG);
        ASSERT_TRUE(!more);
        ASSERT_EQ(close_fd(p[0]) + close_fd(p[1]), -2);
        ASSERT_EQ(io_read_whole(-1, 5, &more, &len), -EBADF);
}

static void test_options(void) {
        const char *name = NULL;
        bool once = false;
        const struct option_def defs[] = {
                { .name = "name", .argument = "N", .help = "", .value = &name },
                { .name = "once", .help = "", .flag = &once },
        };
        struct options o = { .program = "test", .defs = defs, .n_defs = 2 };
        char *good[] = { (char[]) { "t" }, (char[]) { "--once" }, (char[]) { "--name=a" },
                         (char[]) { "--root" }, (char[]) { "/x" },
                         (char[]) { "--" }, (char[]) { "--name" }, NULL };
        char *bad[] = { (char[]) { "t" }, (char[]) { "--onc" }, NULL };
        char *missing[] = { (char[]) { "t" }, (char[]) { "--name" }, NULL };

        ASSERT_EQ(options_parse(&o, 7, good), 6);
        ASSERT_TRUE(once);
        ASSERT_STREQ(name, "a");
        ASSERT_STREQ(o.root, "/x");
        ASSERT_EQ(options_exit(options_parse(&o, 2, bad)), EXIT_USAGE);
        ASSERT_EQ(options_exit(options_parse(&o, 2, missing)), EXIT_USAGE);
}

/* What is shown and then ends, in every form that people type; and what only looks like it. */
static void test_options_that_show(void) {
        static const char *const shows[] = { "-h", "-V", "--help", "--version", "help" },
                                 *const wrong[] = { "-x", "-xroot", "-hroot", "-", "--hepl" };

        for (size_t i = 0; i < ELEMENTSOF(shows); i++) {
                struct options o = { .program = "test", .synopsis = "", .summary = "" };
                char *argv[] = { (char[]) { "t" }, strdup(shows[i]), NULL };

                ASSERT_EQ(options_parse(&o, 2, argv), -ECANCELED);
                free(argv[1]);
        }
        for (size_t i = 0; i < ELEMENTSOF(wrong); i++) {
                struct options o = { .program = "test", .synopsis = "", .summary = "" };
                char *argv[] = { (char[]) { "t" }, strdup(wrong[i]), NULL };

                ASSERT_EQ(options_parse(&o, 2, argv), streq(wrong[i], "-") ? 1 : -EINVAL);
                free(argv[1]);
        }
        for (int further = 0; further < 2; further++) {
                struct options o = { .program = "test", .synopsis = "", .summary = "", .further = further };
                char *argv[] = { (char[]) { "t" }, (char[]) { "help" }, (char[]) { "me" }, NULL };

                ASSERT_EQ(options_parse(&o, 3, argv), 1);
                ASSERT_EQ(options_parse(&o, 2, argv), further ? 1 : -ECANCELED);
        }
}

/* openat2(2) answers EAGAIN when something is renamed anywhere while it resolves "..": that is no answer
 * about the file. */
static void host_open_while_others_rename(void) {
        _cleanup_scratch_ struct scratch s = scratch_new();
        _cleanup_host_ struct host h = HOST_NULL;
        char a[512], b[512];
        pid_t child;

        scratch_write(&s, "one/file", "x");
        scratch_link(&s, "two/link", "../one/../one/../one/file");
        scratch_path(&s, "from", a);
        scratch_path(&s, "to", b);
        ASSERT_OK(mkdir(a, 0700));
        ASSERT_OK(host_open(s.path, &h));
        child = fork();
        ASSERT_TRUE(child >= 0);
        while (child == 0)
                if (rename(a, b) < 0 || rename(b, a) < 0)
                        _exit(1);
        for (unsigned i = 0; i < 20000; i++) {
                int fd = host_open_file(&h, "/two/link", O_RDONLY);

                if (fd < 0)
                        (void) kill(child, SIGKILL);
                ASSERT_TRUE(fd >= 0);
                (void) close(fd);
        }
        (void) kill(child, SIGKILL);
        ASSERT_EQ(waitpid(child, NULL, 0), child);
}

static void test_placeholders(void) {
        char text[32] = "logs NAME; stop NAME", small[8] = "";

        placeholder_fill(text, sizeof(text), "NAME", "train");
        ASSERT_STREQ(text, "logs train; stop train");
        placeholder_fill(text, sizeof(text), "PID", "7");
        ASSERT_STREQ(text, "logs train; stop train");
        placeholder_fill(text, sizeof(text), "train", "");
        ASSERT_STREQ(text, "logs ; stop ");
        /* what was filled in is not looked at again */
        placeholder_fill(text, sizeof(text), "logs", "logs logs");
        ASSERT_STREQ(text, "logs logs ; stop ");
        memcpy(small, "a NAME", 7);
        placeholder_fill(small, sizeof(small), "NAME", "0123456789");
        ASSERT_STREQ(small, "a 01234");
}

/* Numbers come in any order, and each has its place: no two of the same. */
static void test_sorted(void) {
        static const int come[] = { 5, 1, 9, 5, 0, 9, 4, 1, 7 }, want[] = { 0, 1, 4, 5, 7, 9 };
        int *list = NULL;
        size_t n = 0, size = 0;

        for (size_t k = 0; k < ELEMENTSOF(come); k++) {
                size_t at = SORTED_PLACE(n, i, list[i] < come[k]);

                if (at < n && list[at] == come[k])
                        continue;
                ASSERT_OK(grow_at(&list, &size, &n, at, sizeof(*list)));
                list[at] = come[k];
        }
        ASSERT_EQ(n, ELEMENTSOF(want));
        ASSERT_EQ(memcmp(list, want, sizeof(want)), 0);
        free(list);
}

TEST_MAIN(test_placeholders, test_sorted, host_open_while_others_rename, test_clock, test_mountinfo,
          test_hex_and_hash, test_host_read, test_host_stays_inside, test_host_list, test_host_fifo,
          test_verdicts, test_finding_is_cut_visibly, test_report, test_durable, test_read_whole,
          test_options, test_options_that_show)
