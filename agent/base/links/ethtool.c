/* SPDX-License-Identifier: Apache-2.0 */
#include <linux/ethtool_netlink.h>
#include <linux/genetlink.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/socket.h>

#include "dump.h"
#include "ethtool.h"

#define ANSWER_MAX (32 * 1024) /* a NIC's features are about 6 KiB; more than this is a mapping of its own for each answer */
#define RECORDED_MAX (1024 * 1024)

DEFINE_CLEANUP(struct nl_msg *, nlmsg_free)

_Static_assert(ETHTOOL_HEAD_SIZE == NLMSG_HDRLEN + GENL_HDRLEN, "two headers");

/* --- Asking ------------------------------------------------------------------------------------------- */

static struct nl_msg *message_new(int type, int flags, uint8_t cmd, uint8_t version) {
        const struct genlmsghdr head = { .cmd = cmd, .version = version };
        struct nl_msg *m = nlmsg_alloc_simple(type, NLM_F_REQUEST | flags);

        if (m && nlmsg_append(m, (void *) (uintptr_t) &head, sizeof(head), NLMSG_ALIGNTO) < 0) {
                nlmsg_free(m);
                return NULL;
        }
        return m;
}

/* libnl has error numbers of its own; -errno here is what the system call left. */
static int ask(struct nl_sock *s, struct nl_msg *m, unsigned char **ret, size_t *ret_len) {
        struct sockaddr_nl from = { 0 };
        int k;

        errno = 0;
        if (nl_send_auto(s, m) < 0)
                return errno ? -errno : -EIO;
        /* The answer is there, and is one datagram. */
        k = nl_recv(s, &from, ret, NULL);
        if (k <= 0)
                return -EIO;
        if (from.nl_pid != 0 || k > ANSWER_MAX) {
                free(TAKE_PTR(*ret));
                return -EBADMSG;
        }
        *ret_len = (size_t) k;
        return 0;
}

static int find_family(struct ethtool *e) {
        _cleanup_(nlmsg_freep) struct nl_msg *m = message_new(GENL_ID_CTRL, 0, CTRL_CMD_GETFAMILY, 1);
        _cleanup_free_ unsigned char *answer = NULL;
        size_t len = 0;
        int r;

        if (!m || nla_put_string(m, CTRL_ATTR_FAMILY_NAME, ETHTOOL_GENL_NAME) < 0)
                return -ENOMEM;
        r = ask(e->sock, m, &answer, &len);
        if (r == 0)
                r = ethtool_parse_family(answer, len, &e->family, &e->monitor);
        return r == -ENOENT ? -EPROTONOSUPPORT : r;
}

int ethtool_open(const struct host *h, struct ethtool *ret) {
        _cleanup_ethtool_ struct ethtool e = { .host = h };
        int r;

        if (h->real_root) {
                e.sock = nl_socket_alloc();
                if (!e.sock)
                        return -ENOMEM;
                errno = 0;
                if (nl_connect(e.sock, NETLINK_GENERIC) < 0)
                        return errno == EPROTONOSUPPORT || errno == 0 ? -EPROTONOSUPPORT : -errno;
                if (nl_socket_set_msg_buf_size(e.sock, ANSWER_MAX) < 0)
                        return -ENOMEM;
                nl_socket_disable_msg_peek(e.sock); /* the size of an answer need not be asked for first */
                nl_socket_disable_auto_ack(e.sock); /* one answer a request */
                if (nl_socket_set_nonblocking(e.sock) < 0)
                        return -EIO;
                r = find_family(&e);
                if (r < 0)
                        return r;
        }
        *ret = e;
        e = ETHTOOL_NULL;
        return 0;
}

void ethtool_close(struct ethtool *e) {
        if (e->sock)
                nl_socket_free(e->sock);
        *e = ETHTOOL_NULL;
}

/* --- Reading ------------------------------------------------------------------------------------------ */

static int put_header(struct nl_msg *m, int index, uint32_t flags) {
        struct nlattr *header = nla_nest_start(m, ETHTOOL_A_FEATURES_HEADER | NLA_F_NESTED);

        if (!header || nla_put_u32(m, ETHTOOL_A_HEADER_DEV_INDEX, (uint32_t) index) < 0 ||
            (flags && nla_put_u32(m, ETHTOOL_A_HEADER_FLAGS, flags) < 0))
                return -ENOMEM;
        nla_nest_end(m, header);
        return 0;
}

static int read_real(struct ethtool *e, enum ethtool_group g, int index, char **ret, size_t *ret_len) {
        uint8_t cmd = g == ETHTOOL_FEATURES ? ETHTOOL_MSG_FEATURES_GET : ETHTOOL_MSG_PRIVFLAGS_GET;
        _cleanup_(nlmsg_freep) struct nl_msg *m = message_new(e->family, 0, cmd, ETHTOOL_GENL_VERSION);

        if (!m || put_header(m, index, 0) < 0)
                return -ENOMEM;
        return ask(e->sock, m, (unsigned char **) ret, ret_len);
}

int ethtool_read(struct ethtool *e, enum ethtool_group g, int index, struct ethtool_bit *bits, size_t n) {
        static const char *const recorded[_ETHTOOL_GROUP_MAX] = {
                [ETHTOOL_FEATURES] = "/netlink/features",
                [ETHTOOL_PRIVATE_FLAGS] = "/netlink/private-flags",
        };
        _cleanup_free_ char *answer = NULL;
        size_t len = 0;
        int r = e->sock ? read_real(e, g, index, &answer, &len) :
                          dump_read_recorded(e->host, recorded[g], RECORDED_MAX, &answer, &len);

        return r < 0 ? r : ethtool_parse(answer, len, g, index, bits, n);
}

/* --- Writing ------------------------------------------------------------------------------------------ */

/* A set with a mask of one bit: the others stay. */
static int put_bit(struct nl_msg *m, int attr, const char *name, bool on) {
        struct nlattr *set = nla_nest_start(m, attr | NLA_F_NESTED), *bits, *bit;

        bits = set ? nla_nest_start(m, ETHTOOL_A_BITSET_BITS | NLA_F_NESTED) : NULL;
        bit = bits ? nla_nest_start(m, ETHTOOL_A_BITSET_BITS_BIT | NLA_F_NESTED) : NULL;
        if (!bit || nla_put_string(m, ETHTOOL_A_BITSET_BIT_NAME, name) < 0 ||
            (on && nla_put_flag(m, ETHTOOL_A_BITSET_BIT_VALUE) < 0))
                return -ENOMEM;
        nla_nest_end(m, bit);
        nla_nest_end(m, bits);
        nla_nest_end(m, set);
        return 0;
}

int ethtool_set(struct ethtool *e, enum ethtool_group g, int index, const char *name, bool on) {
        bool feature = g == ETHTOOL_FEATURES;
        _cleanup_(nlmsg_freep) struct nl_msg *m = NULL;
        _cleanup_free_ unsigned char *answer = NULL;
        struct ethtool_bit none;
        size_t len = 0;
        int r;

        if (!e->sock)
                return -EROFS;
        m = message_new(e->family, NLM_F_ACK, feature ? ETHTOOL_MSG_FEATURES_SET : ETHTOOL_MSG_PRIVFLAGS_SET,
                        ETHTOOL_GENL_VERSION);
        if (!m || put_header(m, index, feature ? ETHTOOL_FLAG_OMIT_REPLY : 0) < 0 ||
            put_bit(m, feature ? ETHTOOL_A_FEATURES_WANTED : ETHTOOL_A_PRIVFLAGS_FLAGS, name, on) < 0)
                return -ENOMEM;
        r = ask(e->sock, m, &answer, &len);
        if (r == 0)
                r = ethtool_parse(answer, len, g, index, &none, 0);
        return r == -ENODATA ? 0 : r; /* an acknowledgement and no more */
}

bool ethtool_tells_bits(const void *head, size_t len) {
        struct genlmsghdr g;

        if (len < ETHTOOL_HEAD_SIZE)
                return true; /* not understood: look */
        memcpy(&g, (const char *) head + NLMSG_HDRLEN, sizeof(g));
        return g.cmd == ETHTOOL_MSG_FEATURES_NTF || g.cmd == ETHTOOL_MSG_PRIVFLAGS_NTF;
}
