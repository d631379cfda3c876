/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <linux/inet_diag.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>

#include "unanswered.h"

#include "dump.h"

#define TCP_DUMP "/netlink/tcp"
#define DUMP_MAX (4 * 1024 * 1024) /* about 12,000 connections */
#define STATE_ESTABLISHED 1        /* include/net/tcp_states.h; states are asked for by bits */
#define TIMER_REPEAT 1             /* idiag_timer, as in ss(8): the retransmission timer runs */

void unanswered_table_clear(struct unanswered_table *t) {
        free(t->pairs);
        *t = UNANSWERED_TABLE_NULL;
}

static struct unanswered *pair_of(struct unanswered_table *t, const struct inet_diag_msg *m) {
        size_t size = m->idiag_family == AF_INET ? 4 : 16;
        struct unanswered *u;

        for (size_t i = 0; i < t->n; i++)
                if (t->pairs[i].family == m->idiag_family &&
                    memcmp(t->pairs[i].local, m->id.idiag_src, size) == 0 &&
                    memcmp(t->pairs[i].peer, m->id.idiag_dst, size) == 0)
                        return &t->pairs[i];
        if (t->n == UNANSWERED_MAX)
                return NULL;
        u = &t->pairs[t->n++];
        *u = (struct unanswered) { .family = m->idiag_family };
        memcpy(u->local, m->id.idiag_src, size);
        memcpy(u->peer, m->id.idiag_dst, size);
        return u;
}

static bool is_unanswered(const struct inet_diag_msg *m, const struct tcp_info *info) {
        return m->idiag_timer == TIMER_REPEAT && info->tcpi_unacked > 0 &&
               info->tcpi_retransmits >= UNANSWERED_REPEATS &&
               info->tcpi_last_ack_recv * USEC_PER_MSEC >= UNANSWERED_SILENCE;
}

static int take_message(struct nlmsghdr *h, void *userdata) {
        struct nlattr *a[INET_DIAG_MAX + 1];
        struct unanswered_table *t = userdata;
        struct tcp_info info = { 0 };
        const struct inet_diag_msg *m;
        struct unanswered *u;

        if (h->nlmsg_type != SOCK_DIAG_BY_FAMILY || !nlmsg_valid_hdr(h, sizeof(*m)) ||
            nlmsg_parse(h, sizeof(*m), a, INET_DIAG_MAX, NULL) < 0)
                return -EBADMSG;
        m = nlmsg_data(h);
        if ((m->idiag_family != AF_INET && m->idiag_family != AF_INET6) || !a[INET_DIAG_INFO])
                return 0;
        /* kernels append to it: what one does not tell is 0, what we do not know is left out */
        memcpy(&info, nla_data(a[INET_DIAG_INFO]), MIN(sizeof(info), (size_t) nla_len(a[INET_DIAG_INFO])));
        u = is_unanswered(m, &info) ? pair_of(t, m) : NULL;
        if (!u) {
                t->answered++;
                return 0;
        }
        u->connections++;
        u->repeats = MAX(u->repeats, (unsigned) info.tcpi_retransmits);
        u->silence = MAX(u->silence, info.tcpi_last_ack_recv * USEC_PER_MSEC);
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
        r = dump_parse(data, len, take_message, &t);
        if (r < 0)
                return r;
        *ret = t;
        t = UNANSWERED_TABLE_NULL;
        return 0;
}

/* One family's connections, counted into t. */
static int read_family(uint8_t family, struct unanswered_table *t) {
        const struct inet_diag_req_v2 head = { .sdiag_family = family,
                                               .sdiag_protocol = IPPROTO_TCP,
                                               .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                                               .idiag_states = 1 << STATE_ESTABLISHED };
        const struct dump_request request = { .protocol = NETLINK_SOCK_DIAG,
                                              .type = SOCK_DIAG_BY_FAMILY,
                                              .head = &head,
                                              .head_size = sizeof(head),
                                              .max = DUMP_MAX };
        int r = -EINTR;

        for (int i = 0; i < DUMP_TRIES && (r == -EINTR || r == -EAGAIN); i++) {
                _cleanup_unanswered_ struct unanswered_table some = UNANSWERED_TABLE_NULL;
                _cleanup_free_ char *dump = NULL;
                size_t len = 0;

                r = dump_read(&request, &dump, &len);
                if (r == 0)
                        r = unanswered_parse(dump, len, &some);
                if (r < 0)
                        continue;
                t->answered += some.answered;
                for (size_t k = 0; k < some.n && t->n < UNANSWERED_MAX; k++)
                        t->pairs[t->n++] = some.pairs[k];
        }
        return r;
}

static int read_recorded(const struct host *h, struct unanswered_table *ret) {
        _cleanup_free_ char *dump = NULL;
        size_t len = 0;
        int r = dump_read_recorded(h, TCP_DUMP, DUMP_MAX, &dump, &len);

        return r < 0 ? r : unanswered_parse(dump, len, ret);
}

int unanswered_read(const struct host *h, struct unanswered_table *ret) {
        _cleanup_unanswered_ struct unanswered_table t = UNANSWERED_TABLE_NULL;
        int r;

        if (!h->real_root)
                return read_recorded(h, ret);
        t.pairs = calloc(UNANSWERED_MAX, sizeof(*t.pairs));
        if (!t.pairs)
                return -ENOMEM;
        r = read_family(AF_INET, &t);
        if (r == 0)
                r = read_family(AF_INET6, &t);
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
