/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <linux/errqueue.h>
#include <linux/icmp.h>
#include <linux/icmpv6.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "lane.h"

#include <assert.h>

#define ECHO_HEADER 8 /* of ICMP, ICMPv6 and UDP alike */
#define SOCKET_BUFFER (4 * 1024 * 1024) /* the kernel cuts it to net.core.[rw]mem_max */
#define RECEIVE_MAX                                                                                         \
        256 /* the head is enough; the rest goes where nobody looks, for only so do ping sockets tell the   \
               length */

struct lane {
        union path_address source;
        uint64_t secret;
        uint16_t sequence;
        int ping_fd, udp_fd;
        uint8_t *zeros, *rest; /* UINT16_MAX each: what is sent behind the head, and what came behind it */
};

static size_t header_size(int family) {
        return family == AF_INET ? 20 : 40; /* IPv4 and IPv6 without options: we send none */
}

/* --- Sockets ------------------------------------------------------------------------------------------- */

static int set_option(int fd, int level, int name, int value) {
        return setsockopt(fd, level, name, &value, sizeof(value)) < 0 ? -errno : 0;
}

/* Don't fragment, whatever path MTU the kernel remembers, and tell in which pieces an answer came. */
static int set_probe_options(int fd, int family) {
        bool v4 = family == AF_INET;
        int r;

        /* a smaller one loses, and lost is tried again */
        (void) set_option(fd, SOL_SOCKET, SO_RCVBUF, SOCKET_BUFFER);
        (void) set_option(fd, SOL_SOCKET, SO_SNDBUF, SOCKET_BUFFER);
        r = v4 ? set_option(fd, IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_PROBE)
               : set_option(fd, IPPROTO_IPV6, IPV6_MTU_DISCOVER, IPV6_PMTUDISC_PROBE);
        if (r == 0 && !v4)
                r = set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, 1);
        if (r == 0)
                r = v4 ? set_option(fd, IPPROTO_IP, IP_RECVFRAGSIZE, 1)
                       : set_option(fd, IPPROTO_IPV6, IPV6_RECVFRAGSIZE, 1);
        return r;
}

static int open_socket(const union path_address *source, int protocol) {
        _cleanup_close_ int fd =
                socket(source->sa.sa_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, protocol);
        int r;

        if (fd < 0)
                return -errno;
        r = set_probe_options(fd, source->sa.sa_family);
        if (r < 0)
                return r;
        if (bind(fd, &source->sa, address_len(source)) < 0)
                return -errno;
        return TAKE_FD(fd);
}

int lane_new(const union path_address *source, uint64_t secret, struct lane **ret) {
        _cleanup_(lane_freep) struct lane *l = calloc(1, sizeof(*l));
        bool v4 = source->sa.sa_family == AF_INET;
        int r;

        if (!l)
                return -ENOMEM;
        *l = (struct lane){ .source = *source, .secret = secret, .ping_fd = -1, .udp_fd = -1 };
        l->zeros = calloc(1, UINT16_MAX);
        l->rest = malloc(UINT16_MAX);
        if (!l->zeros || !l->rest)
                return -ENOMEM;
        l->ping_fd = open_socket(source, v4 ? IPPROTO_ICMP : IPPROTO_ICMPV6);
        if (l->ping_fd < 0)
                return l->ping_fd;
        l->udp_fd = open_socket(source, IPPROTO_UDP);
        if (l->udp_fd < 0)
                return l->udp_fd;
        r = v4 ? set_option(l->udp_fd, IPPROTO_IP, IP_RECVERR, 1)
               : set_option(l->udp_fd, IPPROTO_IPV6, IPV6_RECVERR, 1);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(l);
        return 0;
}

struct lane *lane_free(struct lane *l) {
        if (!l)
                return NULL;
        (void) close_fd(l->ping_fd);
        (void) close_fd(l->udp_fd);
        free(l->zeros);
        free(l->rest);
        free(l);
        return NULL;
}

int lane_ping_fd(const struct lane *l) {
        return l->ping_fd;
}

int lane_udp_fd(const struct lane *l) {
        return l->udp_fd;
}

/* --- Sending ------------------------------------------------------------------------------------------- */

int lane_send(struct lane *l, const union path_address *to, const struct proof_packet *packet) {
        size_t headers = header_size(l->source.sa.sa_family) + ECHO_HEADER;
        struct lane_payload payload = { .secret = l->secret,
                                        .target = (uint32_t) packet->target,
                                        .size = packet->size,
                                        .sequence = ++l->sequence,
                                        .kind = (uint8_t) packet->kind,
                                        .number = (uint8_t) packet->number };
        /* identifier and checksum are the kernel's */
        struct icmphdr echo = { .type = l->source.sa.sa_family == AF_INET ? ICMP_ECHO : ICMPV6_ECHO_REQUEST,
                                .un.echo.sequence = htons(l->sequence) };
        bool ping = packet->kind == PROOF_ECHO;
        union path_address peer = *to;
        struct iovec parts[] = { { &echo, ping ? sizeof(echo) : 0 },
                                 { &payload, sizeof(payload) },
                                 { l->zeros, packet->size - headers - sizeof(payload) } };
        struct msghdr m = { .msg_name = &peer,
                            .msg_namelen = address_len(to),
                            .msg_iov = parts,
                            .msg_iovlen = ELEMENTSOF(parts) };
        int error = 0;

        assert(packet->size >= headers + sizeof(payload)); /* PROOF_SMALL holds both */
        peer.in.sin_port = ping ? 0 : htons(LANE_CLOSED_PORT); /* at the same place for IPv6 */
        /* An error that waits on the UDP socket belongs to an earlier packet, is in the error queue as well,
         * and goes by being reported. */
        for (int i = 0; i < 3; i++) {
                if (sendmsg(ping ? l->ping_fd : l->udp_fd, &m, MSG_NOSIGNAL) >= 0)
                        return 0;
                error = -errno;
                if (error == -EAGAIN || error == -ENOBUFS)
                        return -EAGAIN;
        }
        return error;
}

/* --- Receiving ----------------------------------------------------------------------------------------- */

int lane_parse_quote(uint64_t secret, const void *data, size_t got, struct proof_packet *ret) {
        struct lane_payload p;

        if (got < sizeof(p))
                return -EBADMSG;
        memcpy(&p, data, sizeof(p));
        if (p.secret != secret || (p.kind != PROOF_ECHO && p.kind != PROOF_UDP))
                return -EBADMSG;
        *ret = (struct proof_packet){ .target = p.target,
                                      .kind = (enum proof_kind) p.kind,
                                      .size = p.size,
                                      .number = p.number };
        return 0;
}

int lane_parse_echo(int family, uint64_t secret, const void *data, size_t got, size_t len,
                    struct proof_packet *ret) {
        uint8_t reply = family == AF_INET ? ICMP_ECHOREPLY : ICMPV6_ECHO_REPLY;
        struct proof_packet packet;
        struct lane_payload p;
        struct icmphdr echo;

        if (got < sizeof(echo) + sizeof(p) || got > len)
                return -EBADMSG;
        memcpy(&echo, data, sizeof(echo));
        memcpy(&p, (const uint8_t *) data + sizeof(echo), sizeof(p));
        if (echo.type != reply || echo.code != 0 || ntohs(echo.un.echo.sequence) != p.sequence ||
            lane_parse_quote(secret, &p, sizeof(p), &packet) < 0 || packet.kind != PROOF_ECHO ||
            packet.size != len + header_size(family))
                return -EBADMSG;
        *ret = packet;
        return 0;
}

static uint32_t take_fragment(const struct cmsghdr *c) {
        int size;

        if (c->cmsg_len < CMSG_LEN(sizeof(size)))
                return 0;
        memcpy(&size, CMSG_DATA(c), sizeof(size));
        return size > 0 ? (uint32_t) size : 0;
}

/* The kernel's and a router's errors say nothing about the size: the peer's own counts only. */
static void take_error(const struct cmsghdr *c, bool v4, struct lane_control *ret) {
        size_t len = v4 ? sizeof(ret->offender.in) : sizeof(ret->offender.in6);
        struct sock_extended_err e;

        if (c->cmsg_len < CMSG_LEN(sizeof(e) + len))
                return;
        memcpy(&e, CMSG_DATA(c), sizeof(e));
        memcpy(&ret->offender, CMSG_DATA(c) + sizeof(e), len); /* SO_EE_OFFENDER() */
        ret->port_unreachable = v4 ? e.ee_origin == SO_EE_ORIGIN_ICMP && e.ee_type == ICMP_DEST_UNREACH &&
                                             e.ee_code == ICMP_PORT_UNREACH
                                   : e.ee_origin == SO_EE_ORIGIN_ICMP6 &&
                                             e.ee_type == ICMPV6_DEST_UNREACH &&
                                             e.ee_code == ICMPV6_PORT_UNREACH;
}

void lane_parse_control(struct msghdr *m, struct lane_control *ret) {
        const uint8_t *end = (const uint8_t *) m->msg_control + m->msg_controllen;

        *ret = (struct lane_control){ 0 };
        for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
                bool v4 = c->cmsg_level == IPPROTO_IP, v6 = c->cmsg_level == IPPROTO_IPV6;

                if (c->cmsg_len < sizeof(*c) || c->cmsg_len > (size_t) (end - (const uint8_t *) c))
                        return;
                if ((v4 && c->cmsg_type == IP_RECVFRAGSIZE) || (v6 && c->cmsg_type == IPV6_RECVFRAGSIZE))
                        ret->fragment = take_fragment(c);
                if ((v4 && c->cmsg_type == IP_RECVERR) || (v6 && c->cmsg_type == IPV6_RECVERR))
                        take_error(c, v4, ret);
        }
}

/* One message of a socket or its error queue. 1: an answer; 0: something else came; -EAGAIN: nothing is
 * there. */
static int receive_one(struct lane *l, bool ping, struct lane_answer *ret) {
        uint8_t data[RECEIVE_MAX];
        union {
                struct cmsghdr align;
                uint8_t bytes[512];
        } control;
        struct lane_answer a = { 0 };
        struct lane_control said;
        union path_address quoted; /* where an error's packet was going */
        struct iovec parts[] = { { data, sizeof(data) }, { l->rest, UINT16_MAX } };
        struct msghdr m = { .msg_name = ping ? &a.from : &quoted,
                            .msg_namelen = sizeof(a.from),
                            .msg_iov = parts,
                            .msg_iovlen = ELEMENTSOF(parts),
                            .msg_control = &control,
                            .msg_controllen = sizeof(control) };
        ssize_t n = recvmsg(ping ? l->ping_fd : l->udp_fd, &m, ping ? 0 : MSG_ERRQUEUE);
        size_t got;
        int r;

        if (n < 0)
                /* an earlier packet's error: taken by being reported */
                return errno == EAGAIN ? -EAGAIN : 0;
        got = MIN((size_t) n, sizeof(data));
        lane_parse_control(&m, &said);
        if (ping) {
                r = lane_parse_echo(l->source.sa.sa_family, l->secret, data, got, (size_t) n, &a.packet);
                a.fragment = said.fragment;
        } else {
                r = said.port_unreachable ? lane_parse_quote(l->secret, data, got, &a.packet) : -EBADMSG;
                a.from = said.offender;
        }
        if (r < 0 || (!ping && a.packet.kind != PROOF_UDP))
                return 0;
        *ret = a;
        return 1;
}

/* Nobody has a reason to send us datagrams: thrown away, or the loop would never sleep again. */
static void drop_datagrams(struct lane *l) {
        char byte;

        for (int i = 0; i < 64; i++)
                if (recv(l->udp_fd, &byte, sizeof(byte), MSG_TRUNC) < 0 && errno == EAGAIN)
                        return;
}

int lane_receive(struct lane *l, struct lane_answer *ret) {
        for (int k = 0; k < 2; k++)
                /* Bounded: a flood of rubbish must not hold the loop. */
                for (int i = 0; i < 4096; i++) {
                        int r = receive_one(l, k == 0, ret);

                        if (r > 0)
                                return 1;
                        if (r < 0)
                                break;
                }
        drop_datagrams(l);
        return 0;
}
