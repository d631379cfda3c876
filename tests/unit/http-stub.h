/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * A tiny HTTP server on loopback in threads of its own: answers each POST by the next step of a script
 * (then by 200), and remembers what it took: path, record header, body.
 */
#include <arpa/inet.h>
#include <pthread.h>
#include <strings.h>
#include <sys/socket.h>

#include "test.h"

enum stub_step {
        STUB_OK,
        STUB_BUSY,
        STUB_HANG,
        STUB_RESET,
        STUB_BAD,
        STUB_DENIED,
        STUB_PARTIAL,
        STUB_PAGE,
        STUB_HUGE
};

#define STUB_TAKEN_MAX 4096
struct stub_taken {
        char path[32], record[96];
        uint8_t body[256]; /* its beginning */
        size_t len;
};

struct stub {
        pthread_mutex_t lock;
        int listen_fd;
        uint16_t port;
        const enum stub_step *script;
        bool busy; /* 503 to all, and the script waits */
        size_t n_script, requests, connections, open;
        struct stub_taken taken[STUB_TAKEN_MAX];
        size_t n_taken;
        pthread_t thread;
};

struct stub_connection {
        struct stub *stub;
        int fd;
};

/* The next step; what is taken with 200 is remembered before the answer goes out. */
static enum stub_step stub_next(struct stub *s, const struct stub_taken *t) {
        enum stub_step step = STUB_OK;

        pthread_mutex_lock(&s->lock);
        if (s->busy)
                step = STUB_BUSY;
        else if (s->requests++ < s->n_script)
                step = s->script[s->requests - 1];
        if (step == STUB_OK || step == STUB_PARTIAL || step == STUB_RESET) {
                ASSERT_TRUE(s->n_taken < STUB_TAKEN_MAX);
                s->taken[s->n_taken++] = *t;
        }
        pthread_mutex_unlock(&s->lock);
        return step;
}

static void stub_send(int fd, const char *data, size_t len) {
        (void) !send(fd, data, len, MSG_NOSIGNAL);
}

#define STUB_SEND(fd, text) stub_send((fd), (text), sizeof(text) - 1)

/* Answers one request; false: the connection ends. */
static bool stub_answer(struct stub *s, int fd, const struct stub_taken *t) {
        struct linger reset = { .l_onoff = 1 };

        switch (stub_next(s, t)) {
        case STUB_OK:
                STUB_SEND(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
                              "0\r\n\r\n");
                return true;
        case STUB_BUSY:
                STUB_SEND(fd, "HTTP/1.1 503 Busy\r\nretry-after:  1 \r\nContent-Length: 0\r\n\r\n");
                return true;
        case STUB_HANG: {
                char c;

                (void) !recv(fd, &c, 1, 0); /* until the client gives up */
                return false;
        }
        case STUB_RESET: /* taken, but the answer breaks off: it has to come once more */
                STUB_SEND(fd, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nxx");
                (void) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
                return false;
        case STUB_BAD:
                STUB_SEND(fd, "HTTP/1.1 400 Bad\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
                              "7\r\n\r\n\x12\x05wrong");
                return true;
        case STUB_DENIED:
                STUB_SEND(fd, "HTTP/1.1 401 No\r\nContent-Length: 0\r\n\r\n");
                return true;
        case STUB_PARTIAL:
                STUB_SEND(fd, "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: "
                              "4\r\n\r\n\x0a\x02\x08\x05");
                return true;
        case STUB_PAGE:
                STUB_SEND(fd,
                          "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>");
                return true;
        case STUB_HUGE: {
                static const char zeros[65536];

                STUB_SEND(fd, "HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n");
                for (int i = 0; i < 1000; i++)
                        if (send(fd, zeros, sizeof(zeros), MSG_NOSIGNAL) < 0)
                                break;
                return false;
        }
        }
        return false;
}

/* Reads one request: head to the empty line, then Content-Length bytes. */
static bool stub_receive(int fd, struct stub_taken *ret) {
        char head[4096];
        const char *p;
        size_t n = 0, length;

        memset(ret, 0, sizeof(*ret));
        while (n < 4 || memcmp(head + n - 4, "\r\n\r\n", 4) != 0)
                if (n + 1 >= sizeof(head) || recv(fd, head + n++, 1, 0) != 1)
                        return false;
        head[n] = '\0';
        ASSERT_EQ(sscanf(head, "POST %31s", ret->path), 1);
        ASSERT_TRUE(strcasestr(head, "\r\nContent-Type: application/x-protobuf\r\n"));
        ASSERT_FALSE(strcasestr(head, "\r\nExpect:"));
        p = strcasestr(head, "\r\nTPU-Spool-Record: ");
        ASSERT_TRUE(p && sscanf(p, "%*s %95s", ret->record) == 1);
        p = strcasestr(head, "\r\nContent-Length: ");
        ASSERT_TRUE(p);
        length = strtoul(p + 18, NULL, 10);
        for (size_t at = 0; at < length; at++) {
                uint8_t byte;

                if (recv(fd, &byte, 1, 0) != 1)
                        return false;
                if (at < sizeof(ret->body))
                        ret->body[at] = byte;
        }
        ret->len = length;
        return true;
}

static void *stub_serve(void *userdata) {
        struct stub_connection *c = userdata;
        struct stub_taken t;

        while (stub_receive(c->fd, &t) && stub_answer(c->stub, c->fd, &t))
                ;
        (void) close(c->fd);
        pthread_mutex_lock(&c->stub->lock);
        c->stub->open--;
        pthread_mutex_unlock(&c->stub->lock);
        free(c);
        return NULL;
}

static void *stub_main(void *userdata) {
        struct stub *s = userdata;
        int fd;

        while ((fd = accept4(s->listen_fd, NULL, NULL, SOCK_CLOEXEC)) >= 0) {
                struct stub_connection *c = malloc(sizeof(*c));
                pthread_t thread;

                ASSERT_TRUE(c);
                *c = (struct stub_connection) { s, fd };
                pthread_mutex_lock(&s->lock);
                s->connections++;
                s->open++;
                pthread_mutex_unlock(&s->lock);
                ASSERT_OK(pthread_create(&thread, NULL, stub_serve, c));
                ASSERT_OK(pthread_detach(thread));
        }
        return NULL;
}

/* Binds a free port; stub_start() begins to listen, so that before it connections are refused. */
static inline struct stub *stub_new(const enum stub_step *script, size_t n) {
        struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
        socklen_t len = sizeof(a);
        struct stub *s = calloc(1, sizeof(*s));

        ASSERT_TRUE(s);
        pthread_mutex_init(&s->lock, NULL);
        s->script = script;
        s->n_script = n;
        s->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        ASSERT_TRUE(s->listen_fd >= 0);
        ASSERT_OK(bind(s->listen_fd, (struct sockaddr *) &a, sizeof(a)));
        ASSERT_OK(getsockname(s->listen_fd, (struct sockaddr *) &a, &len));
        s->port = ntohs(a.sin_port);
        return s;
}

static inline void stub_start(struct stub *s) {
        ASSERT_OK(listen(s->listen_fd, 16));
        ASSERT_OK(pthread_create(&s->thread, NULL, stub_main, s));
}

/* Ends the listening, waits until the clients' connections are closed (at most 5 s), and frees. */
static inline void stub_stop(struct stub *s) {
        size_t open = 1;

        (void) shutdown(s->listen_fd, SHUT_RDWR);
        (void) pthread_join(s->thread, NULL);
        (void) close(s->listen_fd);
        for (int i = 0; i < 5000 && open > 0; i++) {
                (void) usleep(1000);
                pthread_mutex_lock(&s->lock);
                open = s->open;
                pthread_mutex_unlock(&s->lock);
        }
        ASSERT_EQ(open, 0);
        free(s);
}

static inline size_t stub_taken_count(struct stub *s) {
        size_t n;

        pthread_mutex_lock(&s->lock);
        n = s->n_taken;
        pthread_mutex_unlock(&s->lock);
        return n;
}
