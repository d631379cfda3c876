/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is wanted of this host's network, in memory (intent.h says where it is from).
 */
#include "base.h"
#include "finding.h"
#include "links.h"

#define INTENT_SYSCTLS_MAX 32
#define INTENT_SYSCTL_PREFIX "net." /* of what may be set: the others are the machine's, and take root */
/* GCE allows a network's MTU from 1300 to 8896 (cloud.google.com/vpc/docs/mtu). */
#define INTENT_MTU_MIN 1300
#define INTENT_MTU_MAX 8896

struct intent_sysctl {
        char name[64];    /* "net.ipv4.tcp_rmem" */
        char value[96];   /* fields separated by single blanks */
        char source[128]; /* where the value comes from: profile, file and the public source it names */
};

#define INTENT_PARAMETERS_MAX 8
#define INTENT_PARAMETER_PREFIX "tcp_" /* of modules that may be set: what root writes is the network's */

/* A setting of each data-centre NIC. */
enum nic_setting_kind {
        NIC_FEATURE,      /* ethtool -k, ethtool -K */
        NIC_PRIVATE_FLAG, /* ethtool --show-priv-flags, --set-priv-flags */
        _NIC_SETTING_KIND_MAX,
};

#define INTENT_NIC_SETTINGS_MAX 16
struct intent_nic_setting {
        enum nic_setting_kind kind;
        char name[32];   /* "tx-nocache-copy", "enable-max-rx-buffer-size" */
        char driver[16]; /* only of NICs of this driver; empty: of all */
        char value[16];  /* "on", "off" */
        char source[128];
};

/* What tpu-hostd handed over from the metadata server, for one NIC. */
#define INTENT_NETWORKS_MAX 32
struct intent_network {
        uint8_t mac[6];
        uint32_t mtu;
        char source[64];
        /* boot clock; when a handover changed mtu, the latest last; 0: never. Not in the file */
        usec_t moved[4];
};

struct intent {
        char profile[32];       /* "v6e", "generic", "none" */
        /* why the generic profile stands in, or none; empty: the right one was found */
        char profile_note[192];
        bool no_tpu;            /* profile none: nothing is wanted, nothing is changed */
        bool observe;           /* Mode=observe: change nothing */
        uint32_t mtu;           /* the profile's MTU; 0: none wanted */
        char mtu_source[128];
        uint32_t network_mtu; /* every network's own MTU, from the static file; 0: not stated */
        char network_mtu_source[128];
        struct intent_network networks[INTENT_NETWORKS_MAX]; /* where the static file does not state it */
        size_t n_networks;
        struct intent_sysctl sysctls[INTENT_SYSCTLS_MAX];
        size_t n_sysctls;
        /* "tcp_cubic.hystart_detect"; written by root alone, else verified */
        struct intent_sysctl parameters[INTENT_PARAMETERS_MAX];
        size_t n_parameters;
        struct intent_nic_setting nic_settings[INTENT_NIC_SETTINGS_MAX]; /* nic_setting.h */
        size_t n_nic_settings;
        /* of every data-centre route; 0: none wanted, or the sysctl tcp_rto_min_us stands for it */
        usec_t rto_min;
        char rto_min_source[128];
        bool loose_rp_filter; /* with several data NICs no strict one stays */
        char rp_filter_source[128];
        bool source_routing; /* with several data NICs what is sent from one's address leaves by it */
        char source_routing_source[128];
        /* Nics=, IgnoreNics=: names or patterns, blanks between; empty: by what they are */
        char nics[256], ignore_nics[256];
        char nics_where[128]; /* of Nics=: "/etc/tpu-hostd/netcfg.conf.d/10-site.conf:3" */
        /* IgnoreSettings=: names or patterns of NIC settings, sysctls and parameters that the profile
         * wants and this site does not */
        char ignore_settings[256];
};

/* --- What the site's names and patterns pick: NICs and settings. Pure; below intent.c and network.c. --- */

/* Whether it is one of this host's data-centre NICs: IgnoreNics= and Nics= of [Netcfg], else
 * link_is_data_nic(). */
bool intent_is_data_nic(const struct intent *i, const struct link *l);
size_t intent_count_data_nics(const struct intent *i, const struct link_table *t);
/* Their names in the order of their indexes, "eth0,eth1"; empty when there is none. */
#define INTENT_NICS_TEXT_MAX 256
void intent_data_nics(const struct intent *i, const struct link_table *t,
                      char ret[static INTENT_NICS_TEXT_MAX]);
/* Whether what a data-centre NIC sends leaves by l: l is one, or a port of one that is a bond, or what one
 * that is a VLAN is made on. */
bool intent_carries_data(const struct intent *i, const struct link_table *t, const struct link *l);

/* Whether Nics= names what this host has not, and what is then to be said; check "nic.count", the same for
 * netcfg and for probes. A pattern may be of other hosts, as long as any NIC is left. */
bool intent_judge_names(const struct intent *i, const struct link_table *t, struct finding *ret);
/* Takes out of i what ignore_settings names; intent_load() has done it. */
void intent_drop_ignored(struct intent *i);
