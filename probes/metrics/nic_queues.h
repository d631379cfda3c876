/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * How evenly a NIC's queues are used: bytes per queue from the driver's statistics (ethtool -S, which needs
 * no privilege), compared over the time between two looks. Only of the host itself, not of a folder.
 */
#include "source.h"

#define QUEUES_MAX 256          /* of one direction */
#define QUEUE_STATS_MAX 16384 /* numbers of one driver */
/* Less than this in an interval says nothing about the spread of the load. */
#define QUEUE_BYTES_LEAST (16 * 1024 * 1024)

enum queue_direction { QUEUE_RECEIVE, QUEUE_TRANSMIT, _QUEUE_DIRECTION_MAX };

struct driver_socket {
        int fd; /* -1: nobody to ask */
};
void driver_socket_open(struct driver_socket *e, const struct host *h);
void driver_socket_close(struct driver_socket *e);

struct queue_bytes {
        uint32_t index; /* among the driver's statistics */
        uint64_t bytes; /* at the last look */
};
struct nic_queues {
        uint32_t n_stats; /* 0: the driver was not asked yet; the names below are those of so many */
        bool silent;      /* this driver does not tell bytes per queue */
        bool known;       /* bytes are of the last look */
        void *stats;      /* room for the driver's answer */
        struct queue_bytes *queues[_QUEUE_DIRECTION_MAX];
        size_t n[_QUEUE_DIRECTION_MAX];
};
#define NIC_QUEUES_NULL ((struct nic_queues){ 0 })
void nic_queues_clear(struct nic_queues *q);
void nic_queues_look(struct nic_queues *q, const struct driver_socket *e, const char *nic,
                     const struct metrics_look *l);

/* Pure. Whether a statistic of this name is the bytes of one queue, and of which direction. */
bool queue_bytes_name(const char *name, enum queue_direction *ret);
/* The busiest queue against the mean: 1 when all carried the same, n when one of n carried all. 0: too
 * little to say. */
double queue_imbalance(const uint64_t *bytes, size_t n);
