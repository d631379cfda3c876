/* SPDX-License-Identifier: Apache-2.0 */
#include "network.h"

/* --- /proc/net/softnet_stat: a line of hexadecimal columns a CPU (Linux, net/core/net-procfs.c) ---------
 */

#define SOFTNET_PROCESSED 0
#define SOFTNET_DROPPED 1
#define SOFTNET_SQUEEZED 2
#define SOFTNET_FLOW_LIMIT 10 /* where the kernel has CONFIG_NET_FLOW_LIMIT, else 0 */
#define SOFTNET_COLUMNS 11

static void look_at_softnet(struct network_state *n, const struct look *l) {
        int64_t sums[SOFTNET_COLUMNS] = { 0 };
        unsigned cpus = 0;

        if (lines_begin(l->lines, &n->softnet, l->host, "/proc/net/softnet_stat") < 0)
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

/* --- /proc/net/snmp and netstat: a line of names, then one of values, both headed by the protocol -------
 */

struct counter {
        const char *protocol, *name;
        enum metric_id id;
        const char *value0;
};

static const struct counter snmp[] = {
        { "Tcp:", "CurrEstab", METRIC_TCP_ESTABLISHED, NULL },
        { "Tcp:", "InSegs", METRIC_TCP_SEGMENTS, "receive" },
        { "Tcp:", "OutSegs", METRIC_TCP_SEGMENTS, "transmit" },
        { "Tcp:", "RetransSegs", METRIC_TCP_RETRANSMITS, NULL },
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
        { "TcpExt:", "TCPLostRetransmit", METRIC_TCP_LOST_RETRANSMITS, NULL },
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
                       const struct look *l) {
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

static void look_at_table(struct source *s, const char *path, const struct counter *c, size_t n,
                          const struct look *l) {
        struct header h = { .n = 0 };
        bool values = false;

        if (lines_begin(l->lines, s, l->host, path) < 0)
                return;
        for (char *line; (line = lines_next(l->lines)); values = !values)
                if (values)
                        put_values(&h, line, c, l);
                else
                        take_header(&h, line, c, n);
}

/* --- Connection tracking ------------------------------------------------------------------------------- */

static void put_file(struct source *s, const char *path, enum metric_id id, const struct look *l) {
        char text[64];
        const char *p = text;
        int64_t v;

        if (source_read(s, l->host, path, text, sizeof(text)) >= 0 && take_number(&p, &v) &&
            (*p == 0 || *p == '\n'))
                put_int(l->sink, id, v, NULL, NULL, NULL);
}

/* A line of names, then a line of hexadecimal values a CPU. */
static void look_at_conntrack(struct network_state *n, const struct look *l) {
        static const char *const wanted[] = { "drop", "early_drop", "insert_failed", "invalid" };
        int64_t sums[ELEMENTSOF(wanted)] = { 0 };
        uint8_t columns[64] = { 0 };
        const char *p, *word;
        size_t len, n_columns = 0;
        char *line;

        put_file(&n->entries, "/proc/sys/net/netfilter/nf_conntrack_count", METRIC_CONNTRACK_ENTRIES, l);
        put_file(&n->limit, "/proc/sys/net/netfilter/nf_conntrack_max", METRIC_CONNTRACK_LIMIT, l);
        if (lines_begin(l->lines, &n->conntrack, l->host, "/proc/net/stat/nf_conntrack") < 0 ||
            !(line = lines_next(l->lines)))
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

void network_look(struct network_state *n, const struct look *l) {
        look_at_softnet(n, l);
        look_at_table(&n->snmp, "/proc/net/snmp", snmp, ELEMENTSOF(snmp), l);
        look_at_table(&n->netstat, "/proc/net/netstat", netstat, ELEMENTSOF(netstat), l);
        look_at_conntrack(n, l);
}

void network_close(struct network_state *n) {
        source_close(&n->softnet);
        source_close(&n->snmp);
        source_close(&n->netstat);
        source_close(&n->entries);
        source_close(&n->limit);
        source_close(&n->conntrack);
}
