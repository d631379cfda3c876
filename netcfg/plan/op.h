/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * One write to the host's network, and a list of them: a plan. Pure.
 */
#include "base.h"
#include "intent.h"
#include "routes.h"
#include "addresses.h"

enum op_kind {
        OP_SYSCTL,
        OP_MTU,
        OP_ROUTE, /* the least retransmission time of a route */
        OP_RULE, /* source routing: a rule of ours (source.h) */
        OP_SOURCE_ROUTE, /* … and a route of its table */
        OP_NIC_SETTING, /* + enum nic_setting_kind; the last */
        _OP_KIND_MAX = OP_NIC_SETTING + _NIC_SETTING_KIND_MAX,
};

/* One write. */
struct op {
        enum op_kind kind;
        char subject[64];      /* "net.ipv4.tcp_rmem", "eth0", "10.0.0.0/24 dev eth0", "eth0 rx-gro" */
        int index;             /* of the NIC; 0: it is of none */
        uint32_t carrier_changes; /* of a route's NIC: with its link, the kernel drops its routes */
        char nic[IF_NAMESIZE]; /* source routing: its name, empty when it is gone */
        char from[96], to[96]; /* values as text, blanks collapsed */
        char source[128];      /* who wants it */
        union {                /* of source routing: what is added, replaced or removed */
                struct rule rule;
                struct route route;
        };
};

struct plan {
        struct op *ops;
        size_t n;
};
#define PLAN_NULL ((struct plan) { 0 })

/* Appends one write. -ENOMEM. */
int plan_add(struct plan *p, const struct op *op);
void plan_clear(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_clear)

/* Of a feature's or private flag's subject "eth0 tx-nocache-copy" the setting; NULL when there is none. */
const char *op_bit_name(const char *subject);

/* The name of the check that judges settings of this kind: "sysctl", "nic.mtu", "route.rto_min",
 * "route.source", … */
const char *op_check(enum op_kind k);
/* A rule or route of source routing: it has no original value, and findings are its NIC's. */
bool op_is_source(enum op_kind k);
