/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One client of a server in this very loop: what it sends comes at once, then nothing more. */
#include <assert.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-event.h>

#include "base.h"

#define FUZZ_ANSWER_MAX (256 * 1024)

/* A listening Unix socket without a name in the file system; *ret is its address. */
static inline int fuzz_listen(struct sockaddr_un *ret, socklen_t *ret_len) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        *ret = (struct sockaddr_un) { .sun_family = AF_UNIX };
        *ret_len = sizeof(sa_family_t);
        assert(fd >= 0 && bind(fd, (struct sockaddr *) ret, *ret_len) == 0); /* the kernel finds a name */
        *ret_len = sizeof(*ret);
        assert(getsockname(fd, (struct sockaddr *) ret, ret_len) == 0 && listen(fd, 8) == 0);
        return fd;
}

static inline void fuzz_turn(sd_event *e) {
        while (sd_event_run(e, 0) > 0)
                ;
}

/* What came back in all, with a 0 behind; malloc'ed. */
static inline char *fuzz_exchange(sd_event *e, const struct sockaddr_un *to, socklen_t to_len,
                                  const uint8_t *data,
                                  size_t size, size_t *ret_len) {
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        char *answer = malloc(FUZZ_ANSWER_MAX + 1);
        size_t len = 0;
        ssize_t n;

        assert(fd >= 0 && answer && connect(fd, (const struct sockaddr *) to, to_len) == 0);
        if (size > 0)
                (void) send(fd, data, size, MSG_NOSIGNAL);
        fuzz_turn(e);
        (void) shutdown(fd, SHUT_WR);
        fuzz_turn(e);
        while (len < FUZZ_ANSWER_MAX && (n = recv(fd, answer + len, FUZZ_ANSWER_MAX - len, 0)) > 0)
                len += (size_t) n;
        (void) close(fd);
        fuzz_turn(e);
        answer[len] = 0;
        *ret_len = len;
        return answer;
}
