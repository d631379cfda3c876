/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Dumps of sockets for flows, written by hand. */
#include <arpa/inet.h>
#include <linux/sock_diag.h>

#include "flow_samples.h"
#include "flow_words.h"
#include "tcp_figures.h"
#include "test.h"

#define RUN "run1"

struct flow_case {
        struct flows f;
        uint8_t run, nics[2];
        unsigned asked;
};

static inline struct flow_place place_of(const struct tcp_connection *s, void *userdata) {
        struct flow_case *c = userdata;

        c->asked++;
        if (s->peer[0] == 127)
                return (struct flow_place){ .leave_out = true };
        return (struct flow_place){ .nic = c->nics[s->local[2] & 1],
                                    .run = s->cgroup == 7 ? c->run : FLOW_NOBODY };
}

static inline void case_init(struct flow_case *c) {
        *c = (struct flow_case){ 0 };
        ASSERT_OK(flows_init(&c->f));
        c->f.receive_max = 1000000;
        c->run = flows_run(&c->f, RUN);
        c->nics[0] = flows_nic(&c->f, 2, "eth0");
        c->nics[1] = flows_nic(&c->f, 3, "eth1");
}

/* One that the kernel tells, with what it tells of it. */
struct tcp_socket {
        struct tcp_connection c;
        struct tcp_figures figures;
        bool has_timeouts, has_sent; /* this kernel tells them */
        uint32_t receive_buffer, drops;
};

/* An established one of the run from 10.0.NIC.1. */
static inline struct tcp_socket socket_of(uint64_t cookie, unsigned nic, const char *peer) {
        struct tcp_socket s = { .c = { .family = AF_INET,
                                       .local = { 10, 0, (uint8_t) nic, 1 },
                                       .state = 1,
                                       .cookie = cookie,
                                       .cgroup = 7 },
                                .has_timeouts = true,
                                .has_sent = true,
                                .receive_buffer = 100000 };

        ASSERT_EQ(inet_pton(AF_INET, peer, s.c.peer), 1);
        return s;
}

static inline int take_any(struct flow_case *c, const struct tcp_socket *s) {
        const uint32_t memory[SK_MEMINFO_VARS] = { [SK_MEMINFO_RCVBUF] = s->receive_buffer,
                                                   [SK_MEMINFO_DROPS] = s->drops };
        struct tcp_connection connection = s->c;

        connection.info = &s->figures;
        connection.info_size = s->has_timeouts ? sizeof(s->figures)
                               : s->has_sent   ? TCP_SENT_END
                                               : TCP_SENT_END - 8;
        connection.memory = memory;
        connection.n_memory = ELEMENTSOF(memory);
        return flows_take(&c->f, &connection, place_of, c);
}

static inline void take(struct flow_case *c, const struct tcp_socket *s) {
        ASSERT_TRUE(take_any(c, s) >= 0);
}

/* One dump, ten seconds after the last. */
static inline void dump(struct flow_case *c, const struct tcp_socket *sockets, size_t n) {
        flows_begin(&c->f, (c->f.at ? c->f.at : 100 * USEC_PER_SEC) + 10 * USEC_PER_SEC);
        for (size_t i = 0; i < n; i++)
                take(c, &sockets[i]);
        flows_end(&c->f, true);
}

static inline const struct flow_link *link_to(const struct flow_case *c, const char *peer) {
        uint8_t address[16] = { 0 };

        ASSERT_EQ(inet_pton(AF_INET, peer, address), 1);
        for (size_t i = 0; i < c->f.n_links; i++)
                if (c->f.links[i].used && memcmp(c->f.links[i].peer, address, 16) == 0)
                        return &c->f.links[i];
        test_fail(__FILE__, __LINE__, "there is no link to %s", peer);
}
