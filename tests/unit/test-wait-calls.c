/* SPDX-License-Identifier: Apache-2.0 */
/* What a system call waits for by its arguments; addresses of sockets; which mount a path lies on. */
#include <arpa/inet.h>
#include <linux/futex.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>

#include "captured_waits.h"
#include "control_group.h"
#include "sockets.h"
#include "test.h"
#include "wait_call.h"

static struct call_wait wait_of(const char *wchan, long number, uint64_t a, uint64_t b, uint64_t c,
                                uint64_t d, uint64_t e) {
        struct task_call call = { .number = number, .arguments = { a, b, c, d, e } };
        struct call_wait w;

        call_wait_of(&call, wchan, &w);
        return w;
}

static void test_calls(void) {
        struct call_wait w = wait_of("", __NR_read, 5, 0, 0, 0, 0);

        ASSERT_TRUE(w.kind == CALL_FD && w.fd == 5 && !w.writes && w.fd_in == WAIT_FD_NONE && !w.limited);
        w = wait_of("", __NR_sendfile, 6, 7, 0, 0, 0);
        ASSERT_TRUE(w.kind == CALL_FD && w.fd == 6 && w.writes && w.fd_in == 7);
        w = wait_of("", __NR_splice, 1, 0, 3, 0, 0);
        ASSERT_TRUE(w.fd == 3 && w.writes && w.fd_in == 1);
        w = wait_of("", __NR_poll, 0x1000, 3, 0xFFFFFFFF, 0, 0);
        ASSERT_TRUE(w.kind == CALL_POLL && w.address == 0x1000 && w.n == 3 && !w.limited);
        w = wait_of("", __NR_poll, 0x1000, 3, 500, 0, 0);
        ASSERT_TRUE(w.limited);
        w = wait_of("", __NR_ppoll, 0x1000, 3, 0, 0, 0);
        ASSERT_TRUE(w.kind == CALL_POLL && !w.limited);
        w = wait_of("", __NR_pselect6, 8, 1, 2, 3, 4);
        ASSERT_TRUE(w.kind == CALL_SELECT && w.n == 8 && w.address == 1 && w.write_set == 2 && w.limited);
        w = wait_of("", __NR_epoll_wait, 4, 0x1000, 10, (uint64_t) -1, 0);
        ASSERT_TRUE(w.kind == CALL_EPOLL && w.fd == 4 && !w.limited);
        w = wait_of("", __NR_futex, 0x2000, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG | FUTEX_CLOCK_REALTIME, 2,
                    0, 0);
        ASSERT_TRUE(w.kind == CALL_FUTEX && w.operation == FUTEX_WAIT_BITSET && !w.shared && w.value == 2);
        w = wait_of("", __NR_futex, 0x2000, FUTEX_LOCK_PI, 0, 0x3000, 0);
        ASSERT_TRUE(w.operation == FUTEX_LOCK_PI && w.shared && w.limited);
        w = wait_of("", __NR_wait4, (uint64_t) -1, 0, 0, 0, 0);
        ASSERT_TRUE(w.kind == CALL_CHILD && w.child == 0);
        w = wait_of("", __NR_wait4, 77, 0, 0, 0, 0);
        ASSERT_EQ(w.child, 77);
        w = wait_of("", __NR_openat, 0xFFFFFF9C, 0x5000, 0, 0, 0);
        ASSERT_TRUE(w.kind == CALL_PATH && w.address == 0x5000 && (int32_t) w.fd == -100);
        w = wait_of("", __NR_fcntl, 3, 7, 0, 0, 0);
        ASSERT_TRUE(w.kind == CALL_LOCKS_FILE && w.fd == 3);
        w = wait_of("", __NR_fcntl, 3, 3, 0, 0, 0);
        ASSERT_EQ(w.kind, CALL_FD);
        w = wait_of("", 100000, 3, 3, 0, 0, 0);
        ASSERT_EQ(w.kind, CALL_OTHER);
}

/* Stopped and let go on, a call has lost its number. */
static void test_restarted(void) {
        struct call_wait w = wait_of("do_poll.constprop.0", __NR_restart_syscall, 0x1000, 2, 10, 0, 0);

        ASSERT_TRUE(w.kind == CALL_POLL && w.address == 0x1000 && w.n == 2);
        ASSERT_EQ(wait_of("hrtimer_nanosleep", __NR_restart_syscall, 0, 0, 0, 0, 0).kind, CALL_SLEEP);
        ASSERT_EQ(wait_of("futex_wait_queue", __NR_restart_syscall, 8, 0, 0, 0, 0).kind, CALL_FUTEX);
        ASSERT_EQ(wait_of("", __NR_restart_syscall, 8, 0, 0, 0, 0).kind, CALL_OTHER);
}

static bool finds_nothing(long number, uint64_t a, int64_t result) {
        struct task_call call = { .number = number, .arguments = { a, 1 } };

        return call_found_nothing(&call, result);
}

/* Who runs and whose call says that there is nothing yet waits for it all the same. */
static void test_looks(void) {
        ASSERT_TRUE(finds_nothing(__NR_poll, 0x1000, 0) && finds_nothing(__NR_epoll_wait, 4, 0) &&
                    finds_nothing(__NR_pselect6, 8, 0));
        ASSERT_FALSE(finds_nothing(__NR_poll, 0x1000, 1)); /* something is ready */
        ASSERT_FALSE(finds_nothing(__NR_poll, 0x1000, -EINTR));
        ASSERT_TRUE(finds_nothing(__NR_recvfrom, 5, -EAGAIN));
        ASSERT_FALSE(finds_nothing(__NR_recvfrom, 5, 0)); /* the end of what was sent */
        ASSERT_FALSE(finds_nothing(__NR_read, 5, 100));
        ASSERT_FALSE(finds_nothing(__NR_futex, 0x2000, -EAGAIN));
        ASSERT_FALSE(finds_nothing(__NR_sched_yield, 0, 0));
}

static void expect_address(const void *a, size_t len, const char *wanted) {
        char text[SOCKET_ADDRESS_MAX];

        socket_address_text(a, len, text);
        ASSERT_STREQ(text, wanted);
}

static void test_addresses(void) {
        struct sockaddr_in v4 = { .sin_family = AF_INET, .sin_port = htons(29500) };
        struct sockaddr_in6 v6 = { .sin6_family = AF_INET6, .sin6_port = htons(80) };
        struct sockaddr_un local = { .sun_family = AF_UNIX };
        size_t path = offsetof(struct sockaddr_un, sun_path);

        ASSERT_EQ(inet_pton(AF_INET, "10.0.0.2", &v4.sin_addr), 1);
        expect_address(&v4, sizeof(v4), "10.0.0.2:29500");
        expect_address(&v4, 3, "");
        ASSERT_EQ(inet_pton(AF_INET6, "fd00::1", &v6.sin6_addr), 1);
        expect_address(&v6, sizeof(v6), "[fd00::1]:80");
        ASSERT_EQ(inet_pton(AF_INET6, "::ffff:10.0.0.2", &v6.sin6_addr), 1);
        expect_address(&v6, sizeof(v6), "10.0.0.2:80");
        expect_address(&local, path, ""); /* it has no name */
        memcpy(local.sun_path, "\0x\xffy", 4);
        expect_address(&local, path + 4, "@x?y");
        memset(local.sun_path, 'p', sizeof(local.sun_path));
        ASSERT_TRUE(sizeof(local) - path < SOCKET_ADDRESS_MAX);
        expect_address(&local, sizeof(local) + 50, (char[109]){ [0 ... 107] = 'p' });
        expect_address("", 0, "");
}

static void test_mounts(void) {
        struct mount items[] = { { .id = 1, .words = "ext4 /", .point = 5 },
                                 { .id = 2, .words = "fuse.x /mnt/data", .point = 7, .remote = true },
                                 { .id = 3, .words = "tmpfs /mnt/data/a", .point = 6 } };
        const struct mounts m = { .items = items, .n = ELEMENTSOF(items) };

        ASSERT_EQ(mounts_of_path(&m, "/etc/x")->id, 1);
        ASSERT_EQ(mounts_of_path(&m, "/mnt/data")->id, 2);
        ASSERT_EQ(mounts_of_path(&m, "/mnt/data/ab")->id, 2);
        ASSERT_EQ(mounts_of_path(&m, "/mnt/data/a/b")->id, 3);
        ASSERT_EQ(mounts_of_path(&m, "/mnt/database")->id, 1);
        ASSERT_TRUE(mounts_find(&m, 0) == NULL && mounts_find(&m, 3) == &items[2]);
}

static void test_groups(void) {
        ASSERT_TRUE(control_group_freezes("do_freezer_trap") && control_group_freezes("__refrigerator"));
        ASSERT_TRUE(control_group_reclaims("mem_cgroup_handle_over_high"));
        ASSERT_FALSE(control_group_freezes("futex_do_wait") || control_group_reclaims(""));
}

int main(void) {
        test_calls();
        test_restarted();
        test_looks();
        test_addresses();
        test_mounts();
        test_groups();
        return 0;
}
