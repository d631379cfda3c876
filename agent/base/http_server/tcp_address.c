/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>

#include "tcp_address.h"

/* Connections that wait for accept(2): agents of a whole site come back at once. The kernel cuts it to
 * net.core.somaxconn. */
#define BACKLOG 4096

/* Splits at the last colon; brackets around an IPv6 address are required, so that "::1:80" is never a guess.
 */
static int split_address(const char *text, char host[static TCP_ADDRESS_TEXT_MAX], const char **ret_port) {
        const char *colon = strrchr(text, ':');
        size_t len = colon ? (size_t) (colon - text) : 0;

        if (len == 0 || len >= TCP_ADDRESS_TEXT_MAX || !colon[1])
                return -EINVAL;
        if (text[0] == '[') {
                if (text[len - 1] != ']' || len < 3)
                        return -EINVAL;
                text++;
                len -= 2;
        } else if (memchr(text, ':', len))
                return -EINVAL;
        memcpy(host, text, len);
        host[len] = '\0';
        *ret_port = colon + 1;
        return 0;
}

int tcp_address_parse(const char *text, struct tcp_address *ret) {
        static const struct addrinfo hints = {
                .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV | AI_PASSIVE,
                .ai_family = AF_UNSPEC,
                .ai_socktype = SOCK_STREAM,
        };
        struct addrinfo *found = NULL;
        char host[TCP_ADDRESS_TEXT_MAX];
        const char *port;
        unsigned long number;
        char *end;
        int r;

        r = split_address(text, host, &port);
        if (r < 0)
                return r;
        number = strtoul(port, &end, 10);
        if (*port < '0' || *port > '9' || *end || number > UINT16_MAX ||
            getaddrinfo(host, port, &hints, &found) != 0)
                return -EINVAL;
        *ret = (struct tcp_address) { .len = found->ai_addrlen };
        memcpy(&ret->sa, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
        return 0;
}

bool tcp_address_is_loopback(const struct tcp_address *a) {
        if (a->sa.ss_family == AF_INET) {
                struct sockaddr_in in;

                memcpy(&in, &a->sa, sizeof(in));
                return ntohl(in.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
        }
        if (a->sa.ss_family == AF_INET6) {
                struct sockaddr_in6 in6;

                memcpy(&in6, &a->sa, sizeof(in6));
                return IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
        }
        return false;
}

/* "::ffff:10.0.0.7" is how a socket of both families sees 10.0.0.7. */
static bool is_mapped(const struct sockaddr *sa, struct sockaddr_in *ret) {
        struct sockaddr_in6 six;

        if (sa->sa_family != AF_INET6)
                return false;
        memcpy(&six, sa, sizeof(six));
        *ret = (struct sockaddr_in){ .sin_family = AF_INET };
        memcpy(&ret->sin_addr, &six.sin6_addr.s6_addr[12], sizeof(ret->sin_addr));
        return IN6_IS_ADDR_V4MAPPED(&six.sin6_addr);
}

void tcp_address_host(const struct sockaddr *sa, char ret[static TCP_ADDRESS_TEXT_MAX]) {
        socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
        struct sockaddr_in four;

        (void) snprintf(ret, TCP_ADDRESS_TEXT_MAX, "?");
        if (is_mapped(sa, &four)) {
                sa = (const struct sockaddr *) &four;
                len = sizeof(four);
        }
        if (sa->sa_family == AF_INET || sa->sa_family == AF_INET6)
                (void) getnameinfo(sa, len, ret, TCP_ADDRESS_TEXT_MAX, NULL, 0,
                                   NI_NUMERICHOST); /* a failure leaves "?" */
}

static int describe(int fd, char ret[static TCP_ADDRESS_TEXT_MAX]) {
        struct tcp_address a = { .len = sizeof(a.sa) };
        struct sockaddr *sa = (struct sockaddr *) &a.sa;
        char host[TCP_ADDRESS_TEXT_MAX];
        in_port_t port; /* at the same place in both families */

        if (getsockname(fd, sa, &a.len) < 0)
                return -errno;
        tcp_address_host(sa, host);
        memcpy(&port, (const uint8_t *) &a.sa + offsetof(struct sockaddr_in, sin_port), sizeof(port));
        (void) snprintf(ret, TCP_ADDRESS_TEXT_MAX, sa->sa_family == AF_INET6 ? "[%.52s]:%u" : "%.52s:%u",
                        host, ntohs(port));
        return 0;
}

int tcp_address_listen(const struct tcp_address *a, int *ret_fd,
                       char ret_where[static TCP_ADDRESS_TEXT_MAX]) {
        _cleanup_close_ int fd = -1;
        static const int on = 1, off = 0;
        int r;

        fd = socket(a->sa.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0)
                return -errno;
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0)
                return -errno;
        if (a->sa.ss_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0)
                return -errno;
        if (bind(fd, (const struct sockaddr *) &a->sa, a->len) < 0 || listen(fd, BACKLOG) < 0)
                return -errno;
        r = describe(fd, ret_where);
        if (r < 0)
                return r;
        *ret_fd = TAKE_FD(fd);
        return 0;
}
