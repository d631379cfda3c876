/* SPDX-License-Identifier: Apache-2.0 */
/* One exchange at a time: what could not be started holds up nothing, and no more of an answer is kept than
 * is wanted. */
#include <netinet/in.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "exchange.h"
#include "test.h"

static void on_done(const struct exchange_answer *a, void *userdata) {
        ASSERT_TRUE(a->failed);
        (*(unsigned *) userdata)++;
}

/* No process for looking the name up can be made (here: for want of descriptors); the next try is not turned
 * away for it. */
static void test_what_was_not_started_blocks_nothing(void) {
        const struct exchange_request q = { .path = "/x", .body = "{}", .len = 2,
                                            .timeout = 30 * USEC_PER_SEC };
        struct rlimit files, none;
        struct exchange *x = NULL;
        sd_event *e = NULL;
        unsigned done = 0;
        char why[256];

        ASSERT_TRUE(sd_event_new(&e) >= 0);
        ASSERT_OK(exchange_new(e,
                               &(struct exchange_options){ .url = "http://nobody.invalid:1",
                                                           .answer_max = 100, .user_agent = "test",
                                                           .name = "test",
                                                              .done = on_done, .userdata = &done }, &x,
                               why));
        ASSERT_TRUE(getrlimit(RLIMIT_NOFILE, &files) == 0);
        none = (struct rlimit) { .rlim_cur = 0, .rlim_max = files.rlim_max };
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &none) == 0);
        for (unsigned i = 0; i < 3; i++) {
                ASSERT_EQ(exchange_start(x, &q), -EMFILE);
                ASSERT_FALSE(exchange_at_work(x));
        }
        ASSERT_TRUE(setrlimit(RLIMIT_NOFILE, &files) == 0);
        ASSERT_OK(exchange_start(x, &q));
        ASSERT_TRUE(exchange_at_work(x));
        ASSERT_EQ(exchange_start(x, &q), -EBUSY);
        while (done == 0)
                ASSERT_TRUE(sd_event_run(e, 60 * USEC_PER_SEC) > 0);
        ASSERT_FALSE(exchange_at_work(x));
        x = exchange_free(x);
        (void) sd_event_unref(e);
}

#define LONG 100000

/* A server in a child, which answers twice with LONG bytes. Returns its port. */
static uint16_t serve(pid_t *ret) {
        struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t size = sizeof(at);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        char text[LONG + 100] = "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 100000\r\n\r\n";
        size_t head = strlen(text);

        ASSERT_TRUE(fd >= 0 && bind(fd, (struct sockaddr *) &at, size) == 0 && listen(fd, 2) == 0);
        ASSERT_TRUE(getsockname(fd, (struct sockaddr *) &at, &size) == 0);
        memset(text + head, 'a', LONG);
        *ret = fork();
        ASSERT_TRUE(*ret >= 0);
        for (unsigned i = 0; *ret == 0 && i < 2; i++) {
                int c = accept(fd, NULL, NULL);
                char asked[1000];

                (void) signal(SIGPIPE, SIG_IGN); /* who has enough hangs up */
                if (c >= 0 && read(c, asked, sizeof(asked)) > 0)
                        (void) !write(c, text, head + LONG);
                (void) close(c);
        }
        if (*ret == 0)
                _exit(0);
        (void) close(fd);
        return ntohs(at.sin_port);
}

struct heard {
        bool done, failed;
        size_t len;
        char what[64];
};

static void on_long(const struct exchange_answer *a, void *userdata) {
        struct heard *h = userdata;

        *h = (struct heard){ .done = true, .failed = a->failed, .len = a->len };
        (void) snprintf(h->what, sizeof(h->what), "%s", a->what);
}

static struct heard get_long(sd_event *e, const char *url, size_t answer_max, size_t keep) {
        const struct exchange_request q = { .path = "/x", .timeout = 30 * USEC_PER_SEC };
        struct heard h = { .done = false };
        struct exchange *x = NULL;
        char why[256];

        ASSERT_OK(exchange_new(e, &(struct exchange_options){ .url = url, .answer_max = answer_max,
                                                              .keep = keep,
                                                              .user_agent = "test", .name = "test",
                                                              .done = on_long, .userdata = &h }, &x, why));
        ASSERT_OK(exchange_start(x, &q));
        while (!h.done)
                ASSERT_TRUE(sd_event_run(e, 60 * USEC_PER_SEC) > 0);
        x = exchange_free(x);
        return h;
}

/* What is not kept counts all the same. */
static void test_long_answer(void) {
        struct heard h;
        sd_event *e = NULL;
        char url[64];
        pid_t server;

        (void) snprintf(url, sizeof(url), "http://127.0.0.1:%u", serve(&server));
        ASSERT_TRUE(sd_event_new(&e) >= 0);
        h = get_long(e, url, LONG, 1000);
        ASSERT_TRUE(!h.failed && h.len == 1000);
        h = get_long(e, url, LONG - 1, 1000);
        ASSERT_TRUE(h.failed);
        ASSERT_STREQ(h.what, "the answer is too long");
        ASSERT_TRUE(waitpid(server, NULL, 0) == server);
        (void) sd_event_unref(e);
}

TEST_MAIN(test_what_was_not_started_blocks_nothing, test_long_answer)
