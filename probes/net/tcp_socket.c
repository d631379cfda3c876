/* SPDX-License-Identifier: Apache-2.0 */
#include "tcp_socket.h"

#include <linux/sock_diag.h>
#include <sys/socket.h>

/* The ends of what older kernels tell. */
#define SENT_END (offsetof(struct tcp_figures, bytes_sent) + sizeof(uint64_t))
#define TIMEOUTS_END (offsetof(struct tcp_figures, total_rto) + sizeof(uint16_t))
_Static_assert(sizeof(struct tcp_figures) == 248 && TIMEOUTS_END == 242 && SENT_END == 208,
               "as the kernel lays it out");

void tcp_socket_unmap(struct tcp_socket *s) {
        static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff }; /* ::ffff:0:0/96, RFC 4291 2.5.5.2 */

        if (s->family != AF_INET6 || memcmp(s->peer, mapped, sizeof(mapped)) != 0 ||
            memcmp(s->local, mapped, sizeof(mapped)) != 0)
                return;
        s->family = AF_INET;
        memmove(s->local, s->local + sizeof(mapped), 4);
        memmove(s->peer, s->peer + sizeof(mapped), 4);
        memset(s->local + 4, 0, sizeof(mapped));
        memset(s->peer + 4, 0, sizeof(mapped));
}

static uint32_t memory_of(const struct tcp_connection *c, size_t which) {
        return which < c->n_memory ? c->memory[which] : 0;
}

void tcp_socket_take(const struct tcp_connection *c, struct tcp_socket *ret) {
        struct tcp_socket s = { .family = c->family,
                                .state = c->state,
                                .timer = c->timer,
                                .nic = c->interface <= INT32_MAX ? (int) c->interface : 0,
                                .cookie = c->cookie,
                                .cgroup = c->cgroup,
                                .has_figures = c->info && c->info_size > 0,
                                .has_sent = c->info && c->info_size >= SENT_END,
                                .has_timeouts = c->info && c->info_size >= TIMEOUTS_END,
                                .has_memory = c->n_memory > SK_MEMINFO_RCVBUF,
                                .receive_buffer = memory_of(c, SK_MEMINFO_RCVBUF),
                                .drops = memory_of(c, SK_MEMINFO_DROPS) };

        memcpy(s.local, c->local, sizeof(s.local));
        memcpy(s.peer, c->peer, sizeof(s.peer));
        if (c->info)
                tcp_connection_info(c, &s.figures, sizeof(s.figures));
        tcp_socket_unmap(&s);
        *ret = s;
}
