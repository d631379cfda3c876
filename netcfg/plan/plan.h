/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * From what is wanted and what was found to the writes that are still to do, and to verdicts, which probes
 * give in the same words. Pure, but for plan_read_rp_filters(), which reads through the seam.
 *
 * Holds, and is tested: applying a plan reaches what is wanted; a second plan is empty; no write of a plan
 * sets an MTU above the NIC's maximum or the network's own; one may stop after any write, for each stands by
 * itself.
 */
#include "addresses.h"
#include "base.h"
#include "finding.h"
#include "intent.h"
#include "links.h"
#include "nic_setting.h"
#include "routes.h"
#include "rules.h"

enum op_kind {
        OP_SYSCTL,
        OP_MTU,
        OP_ROUTE, /* the least retransmission time of a route */
        OP_RULE, /* source routing: a rule of ours (source.h) */
        OP_SOURCE_ROUTE, /* … and a route of its table */
        OP_NIC_SETTING, /* + enum nic_setting_kind; the last */
        _OP_KIND_MAX = OP_NIC_SETTING + _NIC_SETTING_KIND_MAX,
};

/* Of all data-centre NICs together, there being 16 at the most on any machine that has such settings. */
#define NIC_SETTINGS_MAX (16 * INTENT_NIC_SETTINGS_MAX)

/* One write. */
struct op {
        enum op_kind kind;
        char subject[64];      /* "net.ipv4.tcp_rmem", "eth0", "10.0.0.0/24 dev eth0", "eth0 rx-gro" */
        int index;             /* of the NIC; 0: it is of none */
        uint32_t carrier_changes; /* of a route's NIC: with its link, the kernel drops its routes */
        char nic[IF_NAMESIZE]; /* source routing: its name, empty when it is gone */
        char from[96], to[96]; /* values as text, blanks collapsed */
        char source[128];      /* who wants it */
};

struct plan {
        struct op *ops;
        size_t n;
};
#define PLAN_NULL ((struct plan) { 0 })

struct found_sysctl {
        int error; /* 0, or the -errno of reading it; -EROFS: there is a value, which no one may write here
                    */
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
        int routes_error, rules_error, addresses_error; /* 0, or the -errno of reading them */
        struct route_table routes;
        struct rule_table rules;
        struct address_table addresses;
};
#define FOUND_NULL ((struct found) { 0 })
void found_clear(struct found *f);
#define _cleanup_found_ _cleanup_(found_clear)

/* "net.ipv4.conf.eth0.rp_filter", and of eth0.7 "net.ipv4.conf.eth0/7.rp_filter" */
void rp_filter_name(const char *nic, char buf[static 64]);

/* What could not be read gives no write. -ENOMEM. */
int plan_make(const struct intent *i, const struct found *f, struct plan *ret);
/* Its part about reverse-path filters: with several data NICs, none that is strict stays where the profile
 * wants it loose. */
int plan_add_rp_filters(struct plan *p, const struct intent *i, const struct found *f);
/* The filters of f->links; what cannot be read is noted there. */
void plan_read_rp_filters(const struct host *h, const struct intent *i, struct found *f);
/* One finding for each data NIC, none where there are fewer than two. Of f only links and filters count. */
int plan_judge_rp_filters(const struct intent *i, const struct found *f, struct finding_list *l);
/* One finding for each route that is wrong, one for all that are right. Of f only links and routes count; i
 * has to want a least retransmission time of routes. */
int plan_judge_routes(const struct intent *i, const struct found *f, struct finding_list *l);
/* Its part about the settings of NICs. */
int plan_add_nic_settings(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_nic_settings(const struct intent *i, const struct found *f, struct finding_list *l);
/* Its part about source routing (source.h). Findings "route.source", one for each NIC. */
int plan_add_source(struct plan *p, const struct intent *i, const struct found *f);
int plan_judge_source(const struct intent *i, const struct found *f, struct finding_list *l);
/* Appends one write. -ENOMEM. */
int plan_add(struct plan *p, const struct op *op);
void plan_clear(struct plan *p);
#define _cleanup_plan_ _cleanup_(plan_clear)

/* Verdicts on every wanted setting, on the choice of the profile, and on there being NICs at all. Adds to
 * *l. */
int plan_findings(const struct intent *i, const struct found *f, struct finding_list *l);
/* A route as it is named: where to, its first NIC, its table and priority when they are not the usual ones.
 */
void route_subject(const struct route *r, const struct link_table *links, char buf[static 64]);
/* Its least retransmission time: "none", "40ms", or "5ms,lock"; without the lock TCP does not heed it. */
#define ROUTE_VALUE_MAX 24
void route_value(const struct route *r, char buf[static ROUTE_VALUE_MAX]);
bool route_parse_value(const char *text, uint32_t *ret_ms, bool *ret_lock);
/* A route, not of source routing's own tables, all of whose next hops are data-centre NICs. */
bool plan_is_data_route(const struct intent *i, const struct link_table *links, const struct route *r);

/* Whether it is a setting of a NIC, and which. */
bool op_is_nic_setting(enum op_kind k, enum nic_setting_kind *ret);
/* Of a feature's or private flag's subject "eth0 tx-nocache-copy" the setting; NULL when there is none. */
const char *op_bit_name(const char *subject);

/* The name of the check that judges settings of this kind: "sysctl", "nic.mtu", "route.rto_min",
 * "route.source", … */
const char *op_check(enum op_kind k);
/* A rule or route of source routing: it has no original value, and findings are its NIC's. */
bool op_is_source(enum op_kind k);
