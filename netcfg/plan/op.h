/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the machine has of what is planned; one write to the host's network; a list of them, which is a plan;
 * and how plans and findings name routes. Pure.
 */
#include "addresses.h"
#include "intent.h"
#include "links.h"
#include "nic_setting.h"
#include "qdiscs.h"
#include "routes.h"
#include "addresses.h"

/* Of all data-centre NICs together, there being 16 at the most on any machine that has such settings. */
#define NIC_SETTINGS_MAX (16 * INTENT_NIC_SETTINGS_MAX)

struct found_sysctl {
        /* 0, or the -errno of reading it; -EROFS: there is a value, which no one may write here */
        int error;
        char value[96]; /* blanks collapsed */
};

/* What the machine has, for one intent. */
struct found {
        struct found_sysctl sysctls[INTENT_SYSCTLS_MAX]; /* in the order of intent->sysctls */
        struct found_sysctl parameters[INTENT_PARAMETERS_MAX];
        bool container;                                  /* parameters are then the machine's */
        int links_error;                                 /* 0, or the -errno of reading the links */
        struct link_table links;
        struct found_rp_filter {
                int error; /* 0, or the -errno of reading it */
                unsigned value;
        } rp_filter_all, rp_filters[LINKS_MAX]; /* net.ipv4.conf.all.rp_filter; in the order of links, of
                                                   data NICs only */
        int nic_settings_error; /* 0, or -ENOMEM: what the NICs have is not known */
        struct found_nic_settings nic_settings;
        /* 0, or the -errno of reading them */
        int routes_error, rules_error, addresses_error, qdiscs_error;
        struct route_table routes;
        struct rule_table rules;
        struct address_table addresses;
        struct qdisc_table qdiscs;
};
#define FOUND_NULL ((struct found) { 0 })
void found_clear(struct found *f);
#define _cleanup_found_ _cleanup_(found_clear)

enum op_kind {
        OP_SYSCTL,
        OP_PARAMETER, /* of a kernel module: the machine's, and root's to write */
        OP_MTU,
        OP_ROUTE, /* the least retransmission time of a route */
        OP_RULE, /* source routing: a rule of ours (source.h) */
        OP_SOURCE_ROUTE, /* … and a route of its table */
        OP_MAIN_RULE, /* a rule that the kernel itself made (main_rule.h) */
        OP_NIC_SETTING, /* + enum nic_setting_kind; the last */
        _OP_KIND_MAX = OP_NIC_SETTING + _NIC_SETTING_KIND_MAX,
};

/* One write. */
struct plan_op {
        enum op_kind kind;
        char subject[64];      /* "net.ipv4.tcp_rmem", "eth0", "10.0.0.0/24 dev eth0", "eth0 rx-gro" */
        int index;             /* of the NIC; 0: it is of none */
        uint32_t carrier_changes; /* of a route's NIC: with its link, the kernel drops its routes */
        char nic[IF_NAMESIZE]; /* source routing: its name, empty when it is gone; OP_MAIN_RULE: "IPv4" */
        char from[96], to[96]; /* values as text, blanks collapsed */
        char source[128];      /* who wants it */
        union {                /* of source routing: what is added, replaced or removed */
                struct rule rule;
                struct route route;
        };
};

struct plan {
        struct plan_op *ops;
        size_t n;
};
#define PLAN_NULL ((struct plan) { 0 })

/* Appends one write. -ENOMEM. */
int plan_add(struct plan *p, const struct plan_op *op);
void plan_clear(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_clear)

/* Of a feature's or private flag's subject "eth0 tx-nocache-copy" the setting; NULL when there is none. */
const char *op_bit_name(const char *subject);

/* The name of the check that judges settings of this kind: "sysctl", "nic.mtu", "route.rto_min",
 * "route.source", … */
const char *op_check(enum op_kind k);
/* What a subject is, in front of it in a log line: "MTU of ". */
const char *op_label(enum op_kind k);
/* A rule, or a route of source routing: it has no original value, and findings are those of op->nic. */
bool op_is_source(enum op_kind k);

/* A route as it is named: where to, its first NIC, its table and priority when they are not the usual
 * ones. */
void route_subject(const struct route *r, const struct link_table *links, char buf[static 64]);
/* The first one of that name, or NULL. */
const struct route *route_by_subject(const struct route_table *t, const struct link_table *links,
                                     const char *subject);
/* Its least retransmission time: "none", "40ms", or "5ms,lock"; without the lock TCP does not heed it. */
#define ROUTE_VALUE_MAX 24
void route_value(const struct route *r, char buf[static ROUTE_VALUE_MAX]);
bool route_parse_value(const char *text, uint32_t *ret_ms, bool *ret_lock);
