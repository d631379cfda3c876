/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <netdb.h>
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "resolve.h"

#define WORKERS 12

struct resolver {
        struct resolve_item *items;
        size_t n;
        void (*done)(void *userdata);
        void *userdata;
        int fd; /* answers of all workers; ends when the last worker does */
        sd_event_source *io, *timer;
        bool finished;
};

struct answer { /* written at once, less than PIPE_BUF */
        uint32_t index;
        int32_t error;
        union path_address address, other;
};

/* The resolver's first choice, and the first of the other family: the NIC may have that one only. */
static int ask(const char *name, union path_address *ret, union path_address *ret_other) {
        const struct addrinfo hints = { .ai_family = AF_UNSPEC,
                                        .ai_socktype = SOCK_DGRAM,
                                        .ai_flags = AI_ADDRCONFIG };
        struct addrinfo *list = NULL;
        int r = getaddrinfo(name, NULL, &hints, &list), found = -ENOENT;

        if (r == EAI_AGAIN || r == EAI_SYSTEM || r == EAI_MEMORY)
                return -EAGAIN;
        for (const struct addrinfo *i = list; r == 0 && i; i = i->ai_next) {
                union path_address *into = found < 0 ? ret : ret_other;

                if ((i->ai_family != AF_INET && i->ai_family != AF_INET6) ||
                    (found == 0 && (i->ai_family == ret->sa.sa_family || into->sa.sa_family != 0)))
                        continue;
                memcpy(into, i->ai_addr, MIN((size_t) i->ai_addrlen, sizeof(*into)));
                found = 0;
        }
        if (list)
                freeaddrinfo(list);
        return found;
}

/* It ends by itself when time is up, for nobody waits for it: one that a stuck file system holds would hold
 * the waiter, too. */
__attribute__((noreturn)) static void work(const struct resolver *r, size_t worker, int fd, usec_t timeout) {
        const struct itimerval end = { .it_value = { .tv_sec = (time_t) (timeout / USEC_PER_SEC),
                                                     .tv_usec = (suseconds_t) (timeout % USEC_PER_SEC) } };
        sigset_t none;

        (void) signal(SIGALRM, SIG_DFL);
        (void) sigemptyset(&none);
        (void) sigprocmask(SIG_SETMASK, &none, NULL);
        if (setitimer(ITIMER_REAL, &end, NULL) < 0)
                _exit(1);
        for (size_t i = worker; i < r->n; i += WORKERS) {
                struct answer a = { .index = (uint32_t) i };

                if (r->items[i].error == 0)
                        continue;
                a.error = ask(r->items[i].name, &a.address, &a.other);
                if (write(fd, &a, sizeof(a)) != (ssize_t) sizeof(a))
                        break;
        }
        _exit(0);
}

/* The worker is nobody's child: a first one starts it and is gone at once. */
static int start_worker(const struct resolver *r, size_t worker, int fd, usec_t timeout) {
        pid_t first = fork(), second;
        int status;

        if (first < 0)
                return -errno;
        if (first == 0) {
                second = fork();
                if (second == 0)
                        work(r, worker, fd, timeout);
                _exit(second < 0);
        }
        while (waitpid(first, &status, 0) < 0)
                if (errno != EINTR)
                        return -errno;
        return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EAGAIN;
}

static void finish(struct resolver *r) {
        if (r->finished)
                return;
        r->finished = true;
        (void) sd_event_source_set_enabled(r->io, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(r->timer, SD_EVENT_OFF);
        r->done(r->userdata);
}

static int on_answers(sd_event_source *s, int fd, uint32_t events, void *userdata) {
        struct resolver *r = userdata;
        struct answer a;
        ssize_t n;

        (void) s;
        (void) events;
        while ((n = read(fd, &a, sizeof(a))) == (ssize_t) sizeof(a))
                if (a.index < r->n) {
                        r->items[a.index].error = a.error;
                        r->items[a.index].address = a.address;
                        r->items[a.index].other = a.other;
                }
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                finish(r);
        return 0;
}

static int on_time(sd_event_source *s, uint64_t usec, void *userdata) {
        (void) s;
        (void) usec;
        finish(userdata);
        return 0;
}

static int start_workers(struct resolver *r, int write_fd, usec_t timeout) {
        int k = 0;

        for (size_t w = 0; w < WORKERS && k == 0; w++) {
                bool work_to_do = false;

                for (size_t i = w; i < r->n && !work_to_do; i += WORKERS)
                        work_to_do = r->items[i].error != 0;
                if (work_to_do)
                        k = start_worker(r, w, write_fd, timeout);
        }
        return k;
}

int resolver_new(sd_event *e, struct resolve_item *items, size_t n, usec_t timeout,
                 void (*done)(void *userdata), void *userdata, struct resolver **ret) {
        _cleanup_(resolver_freep) struct resolver *r = calloc(1, sizeof(*r));
        _cleanup_close_ int write_fd = -1;
        int fds[2], k;

        if (!r)
                return -ENOMEM;
        *r = (struct resolver){ .items = items, .n = n, .done = done, .userdata = userdata, .fd = -1 };
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        r->fd = fds[0];
        write_fd = fds[1];
        if (fcntl(r->fd, F_SETFL, O_NONBLOCK) < 0)
                return -errno;
        for (size_t i = 0; i < n; i++) {
                items[i].other = (union path_address){ 0 };
                items[i].error = address_parse(items[i].name, &items[i].address) < 0 ? -ETIMEDOUT : 0;
        }
        k = start_workers(r, write_fd, timeout);
        if (k == 0)
                k = sd_event_add_io(e, &r->io, r->fd, EPOLLIN, on_answers, r);
        if (k >= 0)
                k = sd_event_source_set_description(r->io, "path: names");
        if (k >= 0)
                k = sd_event_add_time_relative(e, &r->timer, CLOCK_MONOTONIC, timeout, USEC_PER_MSEC,
                                               on_time, r);
        if (k >= 0)
                k = sd_event_source_set_description(r->timer, "path: time for names");
        if (k < 0)
                return k;
        *ret = TAKE_PTR(r);
        return 0;
}

struct resolver *resolver_free(struct resolver *r) {
        if (!r)
                return NULL;
        (void) sd_event_source_disable_unref(r->io);
        (void) sd_event_source_disable_unref(r->timer);
        (void) close_fd(r->fd);
        free(r);
        return NULL;
}
