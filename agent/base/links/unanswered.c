/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <netinet/tcp.h>

#include "unanswered.h"

#include "netlink.h"
#include "tcp_connections.h"

#define DUMP_MAX (4 * 1024 * 1024) /* about 12,000 connections */
/* idiag_timer, as in ss(8): data, or a request to connect, is sent again; an idle connection, a closed window is probed */
#define TIMER_REPEAT 1
#define TIMER_IDLE 2
#define TIMER_WINDOW 4
#define SHIFT_MAX 7u
/* Where data of ours may wait for an answer: all but LISTEN and those that wait for the peer alone. TCP_SYN_RECV is the
 * peer's request, which may be anybody's. */
#define STATES                                                                                              \
        (1u << TCP_ESTABLISHED | 1u << TCP_SYN_SENT | 1u << TCP_FIN_WAIT1 | 1u << TCP_CLOSE_WAIT |         \
         1u << TCP_LAST_ACK | 1u << TCP_CLOSING)

void unanswered_table_clear(struct unanswered_table *t) {
        free(t->pairs);
        *t = UNANSWERED_TABLE_NULL;
}

static struct unanswered *pair_of(struct unanswered_table *t, const struct tcp_connection *c) {
        struct unanswered *u;

        for (size_t i = 0; i < t->n; i++)
                if (t->pairs[i].family == c->family &&
                    memcmp(t->pairs[i].local, c->local, sizeof(c->local)) == 0 &&
                    memcmp(t->pairs[i].peer, c->peer, sizeof(c->peer)) == 0)
                        return &t->pairs[i];
        if (t->n == UNANSWERED_MAX)
                return NULL;
        u = &t->pairs[t->n++];
        *u = (struct unanswered) { .family = c->family };
        memcpy(u->local, c->local, sizeof(u->local));
        memcpy(u->peer, c->peer, sizeof(u->peer));
        return u;
}

struct wait {
        unsigned repeats;
        usec_t silence;
};

/* tcpi_retransmits, tcpi_probes and tcpi_backoff go back to 0 with an answer. */
static bool is_unanswered(const struct tcp_connection *c, const struct tcp_info *info, struct wait *ret) {
        unsigned least = UNANSWERED_REPEATS;

        *ret = (struct wait){ .silence = info->tcpi_last_ack_recv * USEC_PER_MSEC };
        if (c->timer == TIMER_REPEAT && c->state == TCP_SYN_SENT) {
                ret->repeats = info->tcpi_retransmits;
                ret->silence = ((UINT64_C(1) << MIN(ret->repeats, SHIFT_MAX)) - 1) * USEC_PER_SEC;
                least = UNANSWERED_REQUESTS; /* nothing was ever received: the kernel tells no time of it */
        } else if (c->timer == TIMER_REPEAT && info->tcpi_unacked > 0)
                ret->repeats = MAX(info->tcpi_retransmits, info->tcpi_backoff);
        else if (c->timer == TIMER_IDLE || c->timer == TIMER_WINDOW)
                ret->repeats = info->tcpi_probes;
        return ret->repeats >= least && ret->silence >= UNANSWERED_SILENCE;
}

static int take_connection(const struct tcp_connection *c, void *userdata) {
        struct unanswered_table *t = userdata;
        struct unanswered *u;
        struct tcp_info info;
        struct wait wait;

        if (!c->info)
                return 0;
        tcp_connection_info(c, &info, sizeof(info));
        u = is_unanswered(c, &info, &wait) ? pair_of(t, c) : NULL;
        if (!u) {
                t->answered++;
                return 0;
        }
        u->connections++;
        u->repeats = MAX(u->repeats, wait.repeats);
        u->silence = MAX(u->silence, wait.silence);
        return 0;
}

int unanswered_parse(const void *data, size_t len, struct unanswered_table *ret) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r;

        if (len > DUMP_MAX)
                return -EBADMSG;
        t.pairs = calloc(UNANSWERED_MAX, sizeof(*t.pairs));
        if (!t.pairs)
                return -ENOMEM;
        r = tcp_connections_parse(data, len, take_connection, &t);
        if (r < 0)
                return r;
        *ret = t;
        t = UNANSWERED_TABLE_NULL;
        return 0;
}

int unanswered_read(const struct host *h, struct unanswered_table *ret) {
        const struct tcp_query query = { .states = STATES, .with_info = true, .max = DUMP_MAX };
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r = -EINTR;

        t.pairs = calloc(UNANSWERED_MAX, sizeof(*t.pairs));
        if (!t.pairs)
                return -ENOMEM;
        for (int i = 0; i < NETLINK_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                t.n = t.answered = 0;
                r = tcp_connections_read(h, &query, take_connection, &t);
        }
        if (r < 0)
                return r;
        *ret = t;
        t = UNANSWERED_TABLE_NULL;
        return 0;
}

int unanswered_tell(const struct unanswered_table *t, struct finding_list *list) {
        int r = 0;

        for (size_t i = 0; i < t->n && r == 0; i++) {
                const struct unanswered *u = &t->pairs[i];
                char local[INET6_ADDRSTRLEN], peer[INET6_ADDRSTRLEN];
                struct finding f;

                if (!inet_ntop(u->family, u->local, local, sizeof(local)) ||
                    !inet_ntop(u->family, u->peer, peer, sizeof(peer)))
                        continue; /* no other family is kept */
                finding_init(&f, UNANSWERED_CHECK, peer);
                f.verdict = VERDICT_WARN;
                finding_set(f.found,
                            "from %s, nothing for %.0f s although data was sent again %u times (%u "
                            "connection%s)",
                            local, (double) u->silence / (double) USEC_PER_SEC, u->repeats, u->connections,
                            u->connections == 1 ? "" : "s");
                r = finding_list_add(list, &f);
        }
        return r;
}
