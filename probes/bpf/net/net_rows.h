/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The network set's entries (net_figures.h) under names: peer, NIC and run. Entries of one name are added up, those of peers
 * beyond NET_ROWS_MAX into one row "other". Rows stay where they are from look to look, so that their counters only rise; one whose
 * entries are all gone is forgotten. Pure.
 */
#include "base.h"
#include "net_figures.h"

#define NET_ROWS_MAX 48
#define NET_ROW_NAME 64
#define NET_ROW_NIC 16

struct net_name {
        char peer[NET_ROW_NAME], nic[NET_ROW_NIC], job[NET_ROW_NAME]; /* "": not known */
};

struct net_row {
        struct net_name name;
        uint64_t retransmits[_NET_RETRANSMIT_MAX], timeouts; /* segments; events */
        uint64_t resets_sent, resets_received, connects, connect_failures;
        unsigned look; /* in which it was seen last */
};

struct net_rows {
        struct net_row *rows; /* the first is that of the others */
        size_t n, size;
        unsigned look;
};

/* Says whose an entry is. */
typedef void (*net_name_t)(const struct net_peer_key *key, struct net_name *ret, void *userdata);

/* -ENOMEM: nothing is lost, but what is new is among the others. */
int net_rows_look(struct net_rows *r, const struct net_figures *f, net_name_t name, void *userdata);
void net_rows_clear(struct net_rows *r);

/* "10.0.0.5", "fd00::5". */
void net_address_text(const __u64 address[static 2], char ret[static NET_ROW_NAME]);
