/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the machine has of what is planned.
 */
#include "addresses.h"
#include "intent.h"
#include "links.h"
#include "nic_setting.h"
#include "routes.h"

/* Of all data-centre NICs together, there being 16 at the most on any machine that has such settings. */
#define NIC_SETTINGS_MAX (16 * INTENT_NIC_SETTINGS_MAX)

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
