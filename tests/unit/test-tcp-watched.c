/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Connections that are watched, over loopback in a network namespace of the test's own: which readings are
 * dumps of the whole table, and what is seen. Counts, no times.
 */
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "host.h"
#include "tcp_figures.h"
#include "tcp_watched.h"
#include "test.h"

#define PAIRS_MAX 400u

static const struct tcp_query query = {
        .states = TCP_SOCKET_STATES, .with_info = true, .with_memory = true, .max = 1 << 24
};

static struct bench {
        struct host host;
        struct tcp_watched *watched;
        int listener, ends[PAIRS_MAX][2];
        size_t n;
        uint16_t port;
        usec_t now;
        unsigned whole, only_known; /* readings */
        unsigned seen, with_info;   /* connections to our port, in the last one */
} b;

/* Of a connection the end that connected. */
static int take(const struct tcp_connection *c, void *userdata) {
        (void) userdata;
        if (c->peer_port != b.port)
                return 0;
        b.seen++;
        b.with_info += c->info && c->memory && c->info_size > 100;
        return 1;
}

static void look(bool whole) {
        int r;

        b.seen = b.with_info = 0;
        b.now += 10 * USEC_PER_SEC;
        r = tcp_watched_read(b.watched, &b.host, &query, b.now, take, NULL);
        ASSERT_TRUE(r >= 0);
        ASSERT_EQ(r, (int) whole);
        b.whole += r == 1;
        b.only_known += r == 0;
        ASSERT_EQ(b.with_info, b.seen);
}

static void open_pair(int family) {
        struct sockaddr_storage at = { .ss_family = (sa_family_t) family };
        struct sockaddr_in6 *six = (struct sockaddr_in6 *) &at;
        struct sockaddr_in *four = (struct sockaddr_in *) &at;

        if (family == AF_INET6) {
                six->sin6_addr = (struct in6_addr) IN6ADDR_LOOPBACK_INIT;
                six->sin6_port = htons(b.port);
        } else {
                four->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
                four->sin_port = htons(b.port);
        }
        ASSERT_TRUE(b.n < PAIRS_MAX);
        b.ends[b.n][0] = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_OK(connect(b.ends[b.n][0], (struct sockaddr *) &at, sizeof(at)));
        b.ends[b.n][1] = accept(b.listener, NULL, NULL);
        ASSERT_TRUE(b.ends[b.n][1] >= 0);
        b.n++;
}

static void close_pair(void) {
        b.n--;
        for (size_t i = 0; i < 2; i++)
                ASSERT_OK(close(b.ends[b.n][i]));
}

static void set_up(void) {
        struct sockaddr_in6 at = { .sin6_family = AF_INET6 };
        struct ifreq lo = { .ifr_name = "lo", .ifr_flags = IFF_UP };
        socklen_t len = sizeof(at);
        int off = 0;

        b = (struct bench){ 0 };
        ASSERT_OK(host_open(NULL, &b.host));
        ASSERT_OK(tcp_watched_new(&b.watched));
        b.listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_TRUE(b.listener >= 0);
        ASSERT_OK(ioctl(b.listener, SIOCSIFFLAGS, &lo));
        ASSERT_OK(setsockopt(b.listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)));
        ASSERT_OK(bind(b.listener, (struct sockaddr *) &at, sizeof(at)));
        ASSERT_OK(listen(b.listener, PAIRS_MAX));
        ASSERT_OK(getsockname(b.listener, (struct sockaddr *) &at, &len));
        b.port = ntohs(at.sin6_port);
}

static void tear_down(void) {
        while (b.n > 0)
                close_pair();
        ASSERT_OK(close(b.listener));
        b.watched = tcp_watched_free(b.watched);
        host_close(&b.host);
}

/* While connections stay, the table is walked once; each of them is told each time, IPv4, IPv6 and IPv4 in
 * IPv6 alike. */
static void test_what_stays_costs_no_dump(void) {
        set_up();
        for (int i = 0; i < 8; i++)
                open_pair(i % 2 ? AF_INET6 : AF_INET);
        look(true);
        ASSERT_EQ(b.seen, 8);
        for (unsigned i = 0; i < 28; i++) {
                look(false);
                ASSERT_EQ(b.seen, 8);
        }
        ASSERT_EQ(b.whole, 1);
        ASSERT_EQ(b.only_known, 28);
        tear_down();
}

static void test_new_and_closed_ones_are_seen_at_once(void) {
        set_up();
        open_pair(AF_INET);
        look(true);
        look(false);
        open_pair(AF_INET6);
        look(true);
        ASSERT_EQ(b.seen, 2);
        look(false);
        close_pair();
        look(true);
        ASSERT_EQ(b.seen, 1);
        close_pair(); /* one goes and another comes: they are as many */
        open_pair(AF_INET6);
        look(false);
        ASSERT_EQ(b.seen, 0);
        look(true);
        ASSERT_EQ(b.seen, 1);
        tear_down();
}

static void test_a_dump_now_and_then(void) {
        set_up();
        open_pair(AF_INET);
        look(true);
        b.now += TCP_WATCHED_DUMP_AGAIN - 20 * USEC_PER_SEC;
        look(false);
        look(true);
        look(false);
        tcp_watched_forget(b.watched);
        look(true);
        tear_down();
}

/* More than are worth asking for. */
static void test_too_many(void) {
        set_up();
        for (unsigned i = 0; i < TCP_WATCHED_MAX; i++)
                open_pair(AF_INET);
        look(true);
        look(false);
        ASSERT_EQ(b.seen, TCP_WATCHED_MAX);
        open_pair(AF_INET);
        for (unsigned i = 0; i < 3; i++) {
                look(true);
                ASSERT_EQ(b.seen, TCP_WATCHED_MAX + 1);
        }
        close_pair();
        look(true);
        look(false);
        tear_down();
}

int main(void) {
        if (unshare(geteuid() == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) < 0) {
                fprintf(stderr, "no network namespace of its own is permitted here\n");
                return 77;
        }
        test_what_stays_costs_no_dump();
        test_new_and_closed_ones_are_seen_at_once();
        test_a_dump_now_and_then();
        test_too_many();
        return 0;
}
