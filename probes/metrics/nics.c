/* SPDX-License-Identifier: Apache-2.0 */
#include "nics.h"

#include <fcntl.h>

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

void nics_init(struct nics_state *n, const struct host *h) {
        n->dev = SOURCE_NULL;
        n->n = 0;
        n->bytes = -1;
        driver_socket_open(&n->driver, h);
}

static void drop_slot(struct nics_state *n, size_t i) {
        nic_queues_clear(&n->slots[i].queues);
        n->slots[i] = n->slots[--n->n];
}

void nics_close(struct nics_state *n) {
        while (n->n > 0)
                drop_slot(n, n->n - 1);
        source_close(&n->dev);
        driver_socket_close(&n->driver);
}

static bool has_device(const struct host *h, const char *name) {
        char path[64];
        int fd;

        (void) snprintf(path, sizeof(path), "/sys/class/net/%s/device", name);
        fd = host_open_file(h, path, O_PATH);
        close_fd(fd);
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
        *slot = (struct nic_slot){ .queues = NIC_QUEUES_NULL };
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

static void put_row(const struct nic_row *r, const struct look *l) {
        for (size_t i = 0; i < ELEMENTSOF(counters); i++) {
                put_int(l->sink, counters[i].id, r->columns[counters[i].receive], r->slot->name, "receive",
                        NULL);
                put_int(l->sink, counters[i].id, r->columns[counters[i].transmit], r->slot->name, "transmit",
                        NULL);
        }
}

/* Rows of NICs that count, at most NICS_MAX. -errno. */
static int read_rows(struct nics_state *n, const struct look *l, struct nic_row rows[static NICS_MAX]) {
        bool hardware = false;
        int read = 0, kept = 0, r;

        n->bytes = -1;
        r = lines_begin(l->lines, &n->dev, l->host, "/proc/net/dev");
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

void nics_look_at_bytes(struct nics_state *n, const struct look *l) {
        struct nic_row rows[NICS_MAX];

        (void) read_rows(n, l, rows); /* not known, then */
}

void nics_look(struct nics_state *n, const struct look *l) {
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
                        drop_slot(n, i - 1);
        for (size_t i = 0; i < n->n; i++)
                if (n->slots[i].hardware)
                        nic_queues_look(&n->slots[i].queues, &n->driver, n->slots[i].name, l);
}
