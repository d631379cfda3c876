/* SPDX-License-Identifier: Apache-2.0 */
#include "nic_queues.h"

#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

void driver_socket_open(struct driver_socket *e, const struct host *h) {
        e->fd = h->real_root ? socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
}

void driver_socket_close(struct driver_socket *e) {
        e->fd = close_fd(e->fd);
}

static int ask_driver(const struct driver_socket *e, const char *nic, void *question) {
        struct ifreq r = { .ifr_data = question };

        (void) snprintf(r.ifr_name, sizeof(r.ifr_name), "%s", nic);
        return ioctl(e->fd, SIOCETHTOOL, &r) < 0 ? -errno : 0;
}

/* --- Names --------------------------------------------------------------------------------------------- */

static size_t count_digits(const char *p) {
        return strspn(p, "0123456789");
}

/*
 * Of gve "rx_bytes[3]"; of virtio_net "rx_queue_3_bytes", of later ones "rx3_bytes", which is also mlx5's;
 * of idpf "rx_q-3_bytes" (Linux, drivers/net). The sums that stand beside them ("rx_bytes") are not meant.
 */
bool queue_bytes_name(const char *name, enum queue_direction *ret) {
        enum queue_direction d = startswith(name, "rx") ? QUEUE_RECEIVE : QUEUE_TRANSMIT;
        const char *p = name + 2;
        size_t n;

        if (!startswith(name, "rx") && !startswith(name, "tx"))
                return false;
        if (startswith(p, "_bytes[")) {
                p += strlen("_bytes[");
                n = count_digits(p);
                if (n == 0 || !streq(p + n, "]"))
                        return false;
        } else {
                p += startswith(p, "_queue_") ? strlen("_queue_") : startswith(p, "_q-") ? strlen("_q-") : 0;
                n = count_digits(p);
                if (n == 0 || !streq(p + n, "_bytes"))
                        return false;
        }
        *ret = d;
        return true;
}

double queue_imbalance(const uint64_t *bytes, size_t n) {
        double sum = 0, most = 0;

        for (size_t i = 0; i < n; i++) {
                sum += (double) bytes[i];
                most = MAX(most, (double) bytes[i]);
        }
        return n == 0 || sum < QUEUE_BYTES_LEAST ? 0 : most * (double) n / sum;
}

/* --- Asking the driver --------------------------------------------------------------------------------- */

void nic_queues_clear(struct nic_queues *q) {
        free(q->stats);
        for (size_t d = 0; d < _QUEUE_DIRECTION_MAX; d++)
                free(q->queues[d]);
        *q = NIC_QUEUES_NULL;
}

static int count_stats(const struct driver_socket *e, const char *nic, uint32_t *ret) {
        union {
                struct ethtool_sset_info info;
                /* with one number behind it */
                uint8_t room[sizeof(struct ethtool_sset_info) + sizeof(uint32_t)];
        } question = { .info = { .cmd = ETHTOOL_GSSET_INFO, .sset_mask = 1ULL << ETH_SS_STATS } };
        int r = ask_driver(e, nic, &question);

        if (r < 0)
                return r;
        *ret = 0;
        if (question.info.sset_mask)
                memcpy(ret, question.info.data, sizeof(*ret));
        return *ret > QUEUE_STATS_MAX ? -E2BIG : 0;
}

static int add_queue(struct nic_queues *q, enum queue_direction d, uint32_t index) {
        struct queue_bytes *more;

        if (q->n[d] == QUEUES_MAX)
                return -E2BIG;
        more = realloc(q->queues[d], (q->n[d] + 1) * sizeof(*more));
        if (!more)
                return -ENOMEM;
        q->queues[d] = more;
        more[q->n[d]++] = (struct queue_bytes){ .index = index };
        return 0;
}

/*
 * Which of the driver's numbers are bytes of a queue. The kernel writes as many as the driver has at that
 * moment, whatever we say that there is room for: both buffers have room for the most that we take, so that
 * a queue that was added since we counted cannot write behind them. Pages that nobody touches cost nothing.
 */
static int learn_queues(struct nic_queues *q, const struct driver_socket *e, const char *nic,
                        uint32_t n_stats) {
        _cleanup_free_ struct ethtool_gstrings *names = NULL;
        int r;

        nic_queues_clear(q);
        names = calloc(1, sizeof(*names) + (size_t) QUEUE_STATS_MAX * 2 * ETH_GSTRING_LEN);
        q->stats = calloc(1, sizeof(struct ethtool_stats) + QUEUE_STATS_MAX * 2 * sizeof(uint64_t));
        if (!names || !q->stats)
                return -ENOMEM;
        names->cmd = ETHTOOL_GSTRINGS;
        names->string_set = ETH_SS_STATS;
        names->len = n_stats;
        r = ask_driver(e, nic, names);
        if (r < 0)
                return r;
        if (names->len != n_stats)
                return -EAGAIN; /* its queues changed meanwhile */
        for (uint32_t i = 0; i < n_stats; i++) {
                char name[ETH_GSTRING_LEN + 1] = "";
                enum queue_direction d;

                memcpy(name, names->data + (size_t) i * ETH_GSTRING_LEN, ETH_GSTRING_LEN);
                if (!queue_bytes_name(name, &d))
                        continue;
                r = add_queue(q, d, i);
                if (r < 0)
                        return r;
        }
        q->n_stats = n_stats;
        q->silent = q->n[QUEUE_RECEIVE] < 2 && q->n[QUEUE_TRANSMIT] < 2;
        return 0;
}

static void compare_looks(struct nic_queues *q, enum queue_direction d, const char *nic,
                          const struct metrics_look *l) {
        const __u64 *data = ((const struct ethtool_stats *) q->stats)->data;
        uint64_t moved[QUEUES_MAX];
        bool whole = q->known;
        double imbalance;

        for (size_t i = 0; i < q->n[d]; i++) {
                struct queue_bytes *b = &q->queues[d][i];
                uint64_t now = data[b->index];

                whole &= now >= b->bytes; /* else the NIC was reset */
                moved[i] = now - b->bytes;
                b->bytes = now;
        }
        imbalance = whole && q->n[d] > 1 ? queue_imbalance(moved, q->n[d]) : 0;
        if (imbalance > 0)
                put_double(l->sink, METRIC_NIC_IMBALANCE, imbalance, nic,
                           d == QUEUE_RECEIVE ? "receive" : "transmit", NULL);
}

void nic_queues_look(struct nic_queues *q, const struct driver_socket *e, const char *nic,
                     const struct metrics_look *l) {
        struct ethtool_stats *stats;
        uint32_t n_stats;

        if (e->fd < 0 || q->silent)
                return;
        if (count_stats(e, nic, &n_stats) < 0 || n_stats == 0) {
                q->silent = true; /* this driver has no statistics of its own */
                return;
        }
        if (n_stats != q->n_stats && learn_queues(q, e, nic, n_stats) < 0) {
                nic_queues_clear(q);
                return;
        }
        if (q->silent)
                return;
        stats = q->stats;
        stats->cmd = ETHTOOL_GSTATS;
        stats->n_stats = n_stats;
        if (ask_driver(e, nic, stats) < 0 || stats->n_stats != n_stats) {
                q->known = false;
                return;
        }
        compare_looks(q, QUEUE_RECEIVE, nic, l);
        compare_looks(q, QUEUE_TRANSMIT, nic, l);
        q->known = true;
}
