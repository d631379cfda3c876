/* SPDX-License-Identifier: Apache-2.0 */
#include "port_probe.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h> /* linux/errqueue.h needs it */

#include <linux/errqueue.h>

#include "lane.h"
#include "loop_timer.h"

struct port_probe {
        sd_event_source *io, *timer;
        int fd, error; /* error: of connect(2), reported by the timer */
        void (*done)(enum port_answer a, int error, void *userdata);
        void *userdata;
};

static void end(struct port_probe *p, enum port_answer a, int error) {
        /* Both fail for a source without a loop only. */
        (void) sd_event_source_set_enabled(p->timer, SD_EVENT_OFF);
        (void) sd_event_source_set_enabled(p->io, SD_EVENT_OFF);
        p->fd = close_fd(p->fd);
        p->done(a, error, p->userdata); /* and p may be gone */
}

/*
 * The kernel makes ECONNREFUSED of an ICMP error (REJECT of iptables), too. It keeps the packet for us; what
 * has no packet is a RST, or the word of this host's own routes.
 */
static bool is_icmp(int fd) {
        char control[256];
        struct msghdr m = { .msg_control = control, .msg_controllen = sizeof(control) };
        bool icmp = false;

        if (recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) < 0)
                return false;
        for (struct cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
                const struct sock_extended_err *e = (const void *) CMSG_DATA(c);

                if ((c->cmsg_level == SOL_IP && c->cmsg_type == IP_RECVERR) ||
                    (c->cmsg_level == SOL_IPV6 && c->cmsg_type == IPV6_RECVERR))
                        icmp = icmp || e->ee_origin == SO_EE_ORIGIN_ICMP ||
                               e->ee_origin == SO_EE_ORIGIN_ICMP6;
        }
        return icmp;
}

static void judge(struct port_probe *p, int error) {
        if (error != 0 && is_icmp(p->fd))
                end(p, PORT_REJECTED, error);
        else if (error == 0)
                end(p, PORT_ANSWERS, 0);
        else if (error == ECONNREFUSED || error == ECONNRESET)
                end(p, PORT_REFUSES, error);
        else
                end(p, error == ETIMEDOUT ? PORT_SILENT : PORT_NO_WAY, error);
}

static int on_io(sd_event_source *source, int fd, uint32_t revents, void *userdata) {
        socklen_t len = sizeof(int);
        int error = 0;

        (void) source, (void) revents;
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &len) < 0)
                error = errno;
        judge(userdata, error);
        return 0;
}

/*
 * On a busy host the loop may come to both at once: an answer that is there counts, however late it is seen.
 */
static int on_timer(sd_event_source *source, uint64_t usec, void *userdata) {
        struct port_probe *p = userdata;
        struct pollfd answer = { .fd = p->fd, .events = POLLOUT };

        (void) source, (void) usec;
        if (!p->error && poll(&answer, 1, 0) > 0)
                return on_io(p->io, p->fd, 0, p);
        judge(p, p->error ? p->error : ETIMEDOUT);
        return 0;
}

static void set_port(union path_address *a, uint16_t port) {
        if (a->sa.sa_family == AF_INET6)
                a->in6.sin6_port = htobe16(port);
        else
                a->in.sin_port = htobe16(port);
}

int port_probe_new(sd_event *e, const union path_address *from, const union path_address *to, uint16_t port,
                   usec_t timeout,
                   void (*done)(enum port_answer a, int error, void *userdata), void *userdata,
                   struct port_probe **ret) {
        _cleanup_(port_probe_freep) struct port_probe *p = calloc(1, sizeof(*p));
        union path_address there = *to;
        int r, on = 1;

        if (!p)
                return -ENOMEM;
        *p = (struct port_probe){ .fd = -1, .done = done, .userdata = userdata };
        set_port(&there, port);
        p->fd = socket(to->sa.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (p->fd < 0)
                return -errno;
        if (setsockopt(p->fd, to->sa.sa_family == AF_INET6 ? SOL_IPV6 : SOL_IP,
                       to->sa.sa_family == AF_INET6 ? IPV6_RECVERR : IP_RECVERR, &on, sizeof(on)) < 0)
                return -errno;
        if (from && bind(p->fd, &from->sa, address_len(from)) < 0)
                return -errno;
        if (connect(p->fd, &there.sa, address_len(&there)) < 0 && errno != EINPROGRESS)
                p->error = errno;
        r = sd_event_add_io(e, &p->io, p->fd, EPOLLOUT, on_io, p);
        if (r >= 0 && p->error)
                r = sd_event_source_set_enabled(p->io, SD_EVENT_OFF);
        if (r >= 0)
                r = loop_timer_new(e, CLOCK_BOOTTIME, 50 * USEC_PER_MSEC, "port-probe-timeout", on_timer, p,
                                   &p->timer);
        if (r >= 0)
                r = loop_timer_in(p->timer, p->error ? 0 : timeout);
        if (r < 0)
                return r;
        (void) sd_event_source_set_description(p->io, "port-probe");
        *ret = TAKE_PTR(p);
        return 0;
}

struct port_probe *port_probe_free(struct port_probe *p) {
        if (!p)
                return NULL;
        p->io = sd_event_source_disable_unref(p->io);
        p->timer = sd_event_source_disable_unref(p->timer);
        p->fd = close_fd(p->fd);
        free(p);
        return NULL;
}

/* As the run will: earlier connections that have not quite ended are no hindrance. */
int port_is_free(uint16_t port) {
        _cleanup_close_ int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
        bool six = fd >= 0;
        union path_address any = { .in6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_ANY_INIT } };
        int on = 1, off = 0;

        if (!six) {
                fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
                if (fd < 0)
                        return -errno;
                any = (union path_address){ .in = { .sin_family = AF_INET } };
        }
        set_port(&any, port);
        if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
            (six && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off)) < 0))
                return -errno;
        /*
         * With SO_REUSEADDR on both sides bind(2) lets us in beside one who is bound and does not listen
         * yet; listen(2) does not.
         */
        if (bind(fd, &any.sa, address_len(&any)) < 0 || listen(fd, 1) < 0)
                return -errno;
        return 0;
}

/* --- What this host threw away ------------------------------------------------------------------------- */

#define NETSTAT "/proc/net/netstat"
#define XFRM_STAT "/proc/net/xfrm_stat"
#define TEXT_MAX 16384

/* The number below a name in the two lines of a protocol: names in the first, numbers in the second. */
static uint64_t column_of(char *text, const char *protocol, const char *name) {
        char *line = NULL, *names = NULL, *numbers = NULL, *save = NULL, *save_names = NULL;

        for (line = strtok_r(text, "\n", &save); line && !numbers; line = strtok_r(NULL, "\n", &save))
                if (startswith(line, protocol)) {
                        numbers = names ? line : NULL;
                        names = names ? names : line;
                }
        save = NULL;
        names = numbers ? strtok_r(names, " ", &save_names) : NULL;
        numbers = numbers ? strtok_r(numbers, " ", &save) : NULL;
        while (names && numbers && !streq(names, name)) {
                names = strtok_r(NULL, " ", &save_names);
                numbers = strtok_r(NULL, " ", &save);
        }
        return names && numbers ? strtoull(numbers, NULL, 10) : 0;
}

static uint64_t sum_of_ipsec(char *text) {
        uint64_t sum = 0;
        char *save = NULL;

        for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
                if (startswith(line, "XfrmOut"))
                        sum += strtoull(line + strcspn(line, " \t"), NULL, 10);
        return sum;
}

void own_drops_read(const struct host *h, struct own_drops *ret) {
        char text[TEXT_MAX];

        *ret = (struct own_drops){ 0 };
        if (host_read(h, NETSTAT, text, sizeof(text), NULL) == 0)
                ret->refused = column_of(text, "TcpExt:", "TCPRetransFail");
        if (host_read(h, XFRM_STAT, text, sizeof(text), NULL) == 0)
                ret->ipsec = sum_of_ipsec(text);
}

const char *own_drops_words(const struct own_drops *before, const struct own_drops *after) {
        if (after->ipsec > before->ipsec)
                return "an IPsec policy (ip xfrm policy)";
        if (after->refused > before->refused)
                return "its packet filter, a mark or a BPF program";
        return NULL;
}
