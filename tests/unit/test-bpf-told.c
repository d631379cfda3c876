/* SPDX-License-Identifier: Apache-2.0 */
/* A loader that ends: its descriptor can be taken out of an epoll afterwards, though a child has a copy of
 * it. */
#include <signal.h>
#include <sys/epoll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bpf_sets.h"
#include "test.h"

/* A child as probes have them, before it closes what it does not need. */
static pid_t hold_copies(void) {
        pid_t pid = fork();

        if (pid == 0)
                for (;;)
                        (void) pause();
        return pid;
}

static int take_all(struct bpf_sets *s, int epoll) {
        struct epoll_event e;
        int r;

        do
                r = epoll_wait(epoll, &e, 1, -1) < 0 ? -errno : bpf_sets_take(s);
        while (r == 0 || r == -EINTR);
        return r;
}

static void nothing_is_left_in_epoll(void) {
        struct bpf_sets *s = NULL;
        struct epoll_event e = { .events = EPOLLIN };
        int epoll = epoll_create1(EPOLL_CLOEXEC), fd;
        pid_t child;

        ASSERT_OK(bpf_sets_start("/bin/true", &s)); /* a loader without a word */
        fd = bpf_sets_fd(s);
        ASSERT_OK(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &e));
        child = hold_copies();
        ASSERT_TRUE(child > 0);
        ASSERT_EQ(take_all(s, epoll), 1);
        ASSERT_OK(epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL));
        ASSERT_EQ(epoll_wait(epoll, &e, 1, 0), 0);
        ASSERT_EQ(bpf_sets_count(s), 0);
        s = bpf_sets_free(s);
        ASSERT_OK(kill(child, SIGKILL));
        ASSERT_EQ(waitpid(child, NULL, 0), child);
        close_fd(epoll);
}

TEST_MAIN(nothing_is_left_in_epoll)
