/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Who is at the other end: the TCP connections of captured processes, with both ends matched over all hosts.
 * An end whose addresses are another end's, swapped, is that one's peer; loopback only within its host.
 * Behind NAT the byte counts of both ends tell (acknowledged = received), where they are many and nobody
 * else's. Else the remote address says which host it is. What is none of these is outside of the run.
 *
 * Forked processes share sockets: the process counts that has one and whose parent has not.
 */
#include "scene.h"

#define PEER_NONE UINT32_MAX
#define PEER_NAT_BYTES 65536u /* in each direction: fewer may be alike by chance */

/* An address within a text, not ended by NUL. */
struct address_text {
        const char *s;
        size_t len;
};
int compare_addresses(struct address_text a, struct address_text b);
/* Of "10.0.0.1:80" and "[::1]:80": without port and brackets; empty without a port. */
struct address_text address_alone(const char *text);

struct peer_end {
        const struct captured_process *process;
        const struct captured_socket *socket; /* of the host's last capture */
        uint32_t host;                        /* of the evidence */
        uint32_t peer;                        /* an end; PEER_NONE */
        uint32_t peer_host;                   /* PEER_NONE: outside */
        bool moved;                           /* bytes passed between the two captures */
};
struct peers {
        struct named_host *names; /* addresses of hosts, sorted */
        size_t n_names;
        struct peer_end *ends; /* by host */
        uint32_t *first;       /* of each host, and behind the last */
        size_t n, size;
};
#define PEERS_NULL ((struct peers){ 0 })
void peers_clear(struct peers *p);

/* -ENOMEM, -E2BIG. */
int peers_gather(struct peers *p, const struct seen_hosts *all);
/* PEER_NONE: none of the hosts has this address. */
uint32_t peers_host_of(const struct peers *p, struct address_text address);
/* The connection of a host's socket; NULL: it is none. */
const struct peer_end *peers_find(const struct peers *p, uint32_t host, uint64_t inode);
/* The thread waits on a connection to another host. c: the last capture of its host. */
bool peers_watched(const struct peers *p, uint32_t host, const struct host_capture *c,
                   const struct captured_thread *t);
/* What it sends is not acknowledged again and again, or not taken though nothing lies unread at the other
 * end: neither of the two programs is why. */
bool peer_end_lost(const struct peers *p, const struct peer_end *end);
