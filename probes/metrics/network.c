/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

#include <fcntl.h>

/* --- NICs ---------------------------------------------------------------------------------------------- */

/* The columns behind the name (Linux, net/core/net-procfs.c): eight of receive, eight of transmit. */
#define COLUMNS 16
static const struct {
        enum metric_id id;
        unsigned receive, transmit;
} counters[] = {
        { METRIC_NIC_IO, 0, 8 },
        { METRIC_NIC_PACKETS, 1, 9 },
        { METRIC_NIC_ERRORS, 2, 10 },
        { METRIC_NIC_DROPPED, 3, 11 },
};

void nics_init(struct nics_state *n) {
        n->n = 0;
        n->bytes = -1;
}

static bool has_device(const struct host *h, const char *name) {
        _cleanup_close_ int fd = -1;
        char path[64];

        (void) snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
        fd = host_open_file(h, path, O_PATH);
        return fd >= 0;
}

/* NULL: no room, or no name. */
static struct nic_slot *find_slot(struct nics_state *n, const struct host *h, const char *name, size_t len) {
        struct nic_slot *slot;

        if (len == 0 || len >= IF_NAMESIZE || memchr(name, '/', len) || word_is(name, len, "lo") ||
            name[0] == '.')
                return NULL;
        for (size_t i = 0; i < n->n; i++)
                if (word_is(name, len, n->slots[i].name))
                        return &n->slots[i];
        if (n->n == NICS_MAX)
                return NULL;
        slot = &n->slots[n->n++];
        *slot = (struct nic_slot) { 0 };
        memcpy(slot->name, name, len);
        slot->hardware = has_device(h, slot->name);
        return slot;
}

struct nic_row {
        const struct nic_slot *slot;
        int64_t columns[COLUMNS];
};

/* "  eth0: 1234 5 …" */
static bool take_row(struct nics_state *n, const struct host *h, const char *line, struct nic_row *ret) {
        const char *colon = strrchr(line, ':'), *name = line + strspn(line, " "), *p;
        struct nic_slot *slot;

        if (!colon)
                return false; /* a line of the heading */
        slot = find_slot(n, h, name, (size_t) (colon - name));
        if (!slot)
                return false;
        slot->seen = true;
        ret->slot = slot;
        p = colon + 1;
        for (size_t i = 0; i < COLUMNS; i++)
                if (!take_number(&p, &ret->columns[i]))
                        return false;
        return true;
}

static void put_row(const struct nic_row *r, const struct metrics_look *l) {
        for (size_t i = 0; i < ELEMENTSOF(counters); i++) {
                put_int(l->sink, counters[i].id, r->columns[counters[i].receive], r->slot->name, "receive",
                        NULL);
                put_int(l->sink, counters[i].id, r->columns[counters[i].transmit], r->slot->name, "transmit",
                        NULL);
        }
}

/* Rows of NICs that count, at most NICS_MAX. -errno. */
static int read_rows(struct nics_state *n, const struct metrics_look *l,
                     struct nic_row rows[static NICS_MAX]) {
        bool hardware = false;
        int read = 0, kept = 0, r;

        n->bytes = -1;
        r = look_lines(l, FILE_NET_DEV);
        if (r < 0)
                return r;
        for (char *line; read < NICS_MAX && (line = lines_next(l->lines));)
                if (take_row(n, l->host, line, &rows[read]))
                        hardware |= rows[read++].slot->hardware;
        n->bytes = 0;
        for (int i = 0; i < read; i++)
                if (rows[i].slot->hardware || !hardware) {
                        n->bytes = sum_held(n->bytes, sum_held(rows[i].columns[0], rows[i].columns[8]));
                        rows[kept++] = rows[i];
                }
        return kept;
}

void nics_look_at_bytes(struct nics_state *n, const struct metrics_look *l) {
        struct nic_row rows[NICS_MAX];

        (void) read_rows(n, l, rows); /* not known, then */
}

void nics_look(struct nics_state *n, const struct metrics_look *l) {
        struct nic_row rows[NICS_MAX];
        int n_rows;

        for (size_t i = 0; i < n->n; i++)
                n->slots[i].seen = false;
        n_rows = read_rows(n, l, rows);
        if (n_rows < 0)
                return;
        for (int i = 0; i < n_rows; i++)
                put_row(&rows[i], l);
        /* A name that comes back later is another NIC: what is known of it is found out anew. */
        for (size_t i = n->n; i > 0; i--)
                if (!n->slots[i - 1].seen)
                        n->slots[i - 1] = n->slots[--n->n];
}

/* --- /proc/net/softnet_stat: a line of hexadecimal columns a CPU (Linux, net/core/net-procfs.c) --- */

#define SOFTNET_PROCESSED 0
#define SOFTNET_DROPPED 1
#define SOFTNET_SQUEEZED 2
#define SOFTNET_FLOW_LIMIT 10 /* where the kernel has CONFIG_NET_FLOW_LIMIT, else 0 */
#define SOFTNET_COLUMNS 11

static void look_at_softnet(const struct metrics_look *l) {
        int64_t sums[SOFTNET_COLUMNS] = { 0 };
        unsigned cpus = 0;

        if (look_lines(l, FILE_SOFTNET) < 0)
                return;
        for (char *line; (line = lines_next(l->lines)); cpus++) {
                int64_t columns[SOFTNET_COLUMNS];
                const char *p = line;

                for (size_t i = 0; i < SOFTNET_COLUMNS; i++)
                        if (!take_hex(&p, &columns[i]))
                                return; /* a sum without one CPU would step back */
                for (size_t i = 0; i < SOFTNET_COLUMNS; i++)
                        sums[i] = sum_held(sums[i], columns[i]);
        }
        if (cpus == 0)
                return;
        put_int(l->sink, METRIC_SOFTNET, sums[SOFTNET_PROCESSED], "processed", NULL, NULL);
        put_int(l->sink, METRIC_SOFTNET, sums[SOFTNET_DROPPED], "dropped", NULL, NULL);
        put_int(l->sink, METRIC_SOFTNET, sums[SOFTNET_FLOW_LIMIT], "flow_limit", NULL, NULL);
        put_int(l->sink, METRIC_SOFTNET_SQUEEZED, sums[SOFTNET_SQUEEZED], NULL, NULL, NULL);
}

/* --- /proc/net/snmp and netstat: a line of names, then one of values, both headed by the protocol --- */

struct counter {
        const char *protocol, *name;
        enum metric_id id;
        const char *value0;
};

static const struct counter snmp[] = {
        { "Tcp:", "CurrEstab", METRIC_TCP_ESTABLISHED, NULL },
        { "Tcp:", "InSegs", METRIC_TCP_SEGMENTS, "received" },
        { "Tcp:", "OutSegs", METRIC_TCP_SEGMENTS, "sent" },
        { "Tcp:", "RetransSegs", METRIC_TCP_SEGMENTS, "sent_again" },
        { "Tcp:", "EstabResets", METRIC_TCP_RESETS, "receive" },
        { "Tcp:", "OutRsts", METRIC_TCP_RESETS, "transmit" },
        { "Tcp:", "AttemptFails", METRIC_TCP_ERRORS, "attempt_failed" },
        { "Tcp:", "InErrs", METRIC_TCP_ERRORS, "bad_segment" },
        { "Udp:", "NoPorts", METRIC_UDP_ERRORS, "no_port" },
        { "Udp:", "InErrors", METRIC_UDP_ERRORS, "receive" },
        { "Udp:", "RcvbufErrors", METRIC_UDP_ERRORS, "receive_buffer" },
        { "Udp:", "SndbufErrors", METRIC_UDP_ERRORS, "send_buffer" },
};

static const struct counter netstat[] = {
        { "TcpExt:", "TCPTimeouts", METRIC_TCP_TIMEOUTS, NULL },
        { "TcpExt:", "TCPLostRetransmit", METRIC_TCP_ERRORS, "lost_retransmit" },
        { "TcpExt:", "ListenOverflows", METRIC_TCP_ERRORS, "listen_overflow" },
        { "TcpExt:", "TCPBacklogDrop", METRIC_TCP_ERRORS, "backlog" },
        { "TcpExt:", "TCPRcvQDrop", METRIC_TCP_ERRORS, "receive_queue" },
        { "TcpExt:", "TCPAbortOnTimeout", METRIC_TCP_ERRORS, "abort_timeout" },
        { "TcpExt:", "TCPAbortOnMemory", METRIC_TCP_ERRORS, "abort_memory" },
};

static const struct counter *find_counter(const struct counter *c, size_t n, const char *protocol,
                                          size_t protocol_len, const char *name, size_t len) {
        for (size_t i = 0; i < n; i++)
                if (word_is(name, len, c[i].name) && word_is(protocol, protocol_len, c[i].protocol))
                        return &c[i];
        return NULL;
}

#define COLUMNS_MAX 256

static bool wants(const struct counter *c, size_t n, const char *protocol, size_t len) {
        for (size_t i = 0; i < n; i++)
                if (word_is(protocol, len, c[i].protocol))
                        return true;
        return false;
}

/* The columns of one protocol that are wanted: 0, or the place in the table of counters plus one. */
struct header {
        char protocol[16];
        uint8_t wanted[COLUMNS_MAX];
        size_t n;
};

static void take_header(struct header *h, const char *line, const struct counter *c, size_t n) {
        const char *p = line, *word, *protocol;
        size_t len, protocol_len;

        h->n = 0;
        h->protocol[0] = 0;
        protocol = take_word(&p, &protocol_len);
        if (!protocol || protocol_len >= sizeof(h->protocol))
                return;
        memcpy(h->protocol, protocol, protocol_len);
        h->protocol[protocol_len] = 0;
        if (!wants(c, n, protocol, protocol_len))
                return; /* most of what these files say */
        while (h->n < COLUMNS_MAX && (word = take_word(&p, &len))) {
                const struct counter *found = find_counter(c, n, protocol, protocol_len, word, len);

                h->wanted[h->n++] = found ? (uint8_t) (found - c + 1) : 0;
        }
}

static void put_values(const struct header *h, const char *line, const struct counter *c,
                       const struct metrics_look *l) {
        const char *p = line, *word;
        size_t len;

        word = take_word(&p, &len);
        if (!word || !word_is(word, len, h->protocol))
                return;
        for (size_t i = 0; i < h->n && (word = take_word(&p, &len)); i++) {
                const struct counter *found = h->wanted[i] > 0 ? &c[h->wanted[i] - 1] : NULL;
                const char *text = word;
                int64_t v;

                if (found && take_number(&text, &v) && text == word + len)
                        put_int(l->sink, found->id, v, found->value0, NULL, NULL);
        }
}

static void look_at_table(enum host_file f, const struct counter *c, size_t n,
                          const struct metrics_look *l) {
        struct header h = { .n = 0 };
        bool values = false;

        if (look_lines(l, f) < 0)
                return;
        for (char *line; (line = lines_next(l->lines)); values = !values)
                if (values)
                        put_values(&h, line, c, l);
                else
                        take_header(&h, line, c, n);
}

/* --- Connection tracking ------------------------------------------------------------------------------- */

static void put_file(enum host_file f, enum metric_id id, const struct metrics_look *l) {
        char text[64];
        const char *p = text;
        int64_t v;

        if (look_text(l, f, text, sizeof(text)) >= 0 && take_number(&p, &v) && (*p == 0 || *p == '\n'))
                put_int(l->sink, id, v, NULL, NULL, NULL);
}

/* A line of names, then a line of hexadecimal values a CPU. */
static void look_at_conntrack(const struct metrics_look *l) {
        static const char *const wanted[] = { "drop", "early_drop", "insert_failed", "invalid" };
        int64_t sums[ELEMENTSOF(wanted)] = { 0 };
        uint8_t columns[64] = { 0 };
        const char *p, *word;
        size_t len, n_columns = 0;
        char *line;

        put_file(FILE_CONNTRACK_COUNT, METRIC_CONNTRACK_ENTRIES, l);
        put_file(FILE_CONNTRACK_MAX, METRIC_CONNTRACK_LIMIT, l);
        if (look_lines(l, FILE_CONNTRACK) < 0 || !(line = lines_next(l->lines)))
                return;
        for (p = line; n_columns < ELEMENTSOF(columns) && (word = take_word(&p, &len)); n_columns++)
                for (size_t i = 0; i < ELEMENTSOF(wanted); i++)
                        if (word_is(word, len, wanted[i]))
                                columns[n_columns] = (uint8_t) (i + 1);
        while ((line = lines_next(l->lines))) {
                p = line;
                for (size_t i = 0; i < n_columns; i++) {
                        int64_t v;

                        if (!take_hex(&p, &v))
                                return; /* a sum without one CPU would step back */
                        if (columns[i] > 0)
                                sums[columns[i] - 1] = sum_held(sums[columns[i] - 1], v);
                }
        }
        for (size_t i = 0; i < n_columns; i++)
                if (columns[i] > 0)
                        put_int(l->sink, METRIC_CONNTRACK_DROPPED, sums[columns[i] - 1],
                                wanted[columns[i] - 1], NULL, NULL);
}

void network_look(const struct metrics_look *l) {
        look_at_softnet(l);
        look_at_table(FILE_SNMP, snmp, ELEMENTSOF(snmp), l);
        look_at_table(FILE_NETSTAT, netstat, ELEMENTSOF(netstat), l);
        look_at_conntrack(l);
}
