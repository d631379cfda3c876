/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What is wanted of this host's network, as data: the profile of its TPU generation
 * (/usr/lib/tpu-hostd/profiles/NAME.conf), the site's overrides (/etc/tpu-hostd/netcfg.conf.d), and the MTU
 * of the network itself, which the static file states ([Network] Mtu= in /etc/tpu-hostd/identity.conf.d/).
 * Every value carries its source. Read through the seam; pure otherwise. netcfg plans with it, the nic and
 * sysctl probes compare with it. Where the static file does not state the network's MTU, the one
 * that tpu-hostd handed over for a NIC counts (network.h).
 */
#include "base.h"
#include "finding.h"
#include "host.h"
#include "links.h"

#define INTENT_SYSCTLS_MAX 32
/* GCE allows a network's MTU from 1300 to 8896 (cloud.google.com/vpc/docs/mtu). */
#define INTENT_MTU_MIN 1300
#define INTENT_MTU_MAX 8896

struct intent_sysctl {
        char name[64];    /* "net.ipv4.tcp_rmem" */
        char value[96];   /* fields separated by single blanks */
        char source[128]; /* where the value comes from: profile, file and the public source it names */
};

/* What tpu-hostd handed over from the metadata server, for one NIC. */
#define INTENT_NETWORKS_MAX 32
struct intent_network {
        uint8_t mac[6];
        uint32_t mtu;
        char source[64];
};

struct intent {
        char profile[32];       /* "v6e", "generic" */
        char profile_note[192]; /* why the generic profile stands in; empty when the right one was found */
        bool observe;           /* Mode=observe: change nothing */
        uint32_t mtu;           /* the profile's MTU; 0: none wanted */
        char mtu_source[128];
        uint32_t network_mtu; /* every network's own MTU, from the static file; 0: not stated */
        char network_mtu_source[128];
        struct intent_network networks[INTENT_NETWORKS_MAX]; /* where the static file does not state it */
        size_t n_networks;
        struct intent_sysctl sysctls[INTENT_SYSCTLS_MAX];
        size_t n_sysctls;
};

/*
 * Loads configuration and profile. The profile is Profile= of [Netcfg], else the generation that
 * AcceleratorType= of [Identity] names ("v6e-16" → v6e), else generic; its file is the first of /etc, /run
 * and /usr/lib /tpu-hostd/profiles/NAME.conf. config_file: --config (it then holds [Netcfg], [Identity] and
 * [Network]) or NULL. Problems in content warn with file and line and keep what was there; a value without a
 * Source= is refused. -errno when not even the generic profile can be read.
 */
int intent_load(const struct host *h, const char *config_file, struct intent *ret);

/*
 * For --show-config and --check-config: loads as intent_load() does, prints to out (unless NULL) what is in
 * force and where it is from, and counts in *ret_warnings what was wrong; each was logged. A profile that had
 * to be replaced by the generic one counts.
 */
int intent_report_config(const struct host *h, const char *config_file, FILE *out, unsigned *ret_warnings);

/*
 * The MTU rule: min(profile, the NIC's max_mtu, the network's MTU). 0 when nothing may be wanted (the
 * network's MTU is not known, or the profile wants none), with the reason in *ret_why (static text, NULL
 * when there is nothing to explain; ret_why may be NULL). Never above what the network carries, whatever the
 * NIC has now.
 */
uint32_t intent_mtu(const struct intent *i, const struct link *l, const char **ret_why);

/*
 * The verdict on one NIC or sysctl, the same for netcfg and for probes; checks "nic.mtu" and "sysctl". value
 * is what was read (any white space), error the -errno of reading it or 0 (value may then be NULL).
 */
void intent_judge_mtu(const struct intent *i, const struct link *l, struct finding *ret);
void intent_judge_sysctl(const struct intent_sysctl *s, const char *value, int error, struct finding *ret);

/* "net.ipv4.tcp_rmem" → "/proc/sys/net/ipv4/tcp_rmem". -EINVAL for a name that has anything but [a-z0-9_.-]
 * or leaves /proc/sys. */
int intent_sysctl_path(const char *name, char *buf, size_t size);
/* Collapses white space of a sysctl's value as read: "4096\t131072\t6291456" → "4096 131072 6291456". In
 * place. */
void intent_sysctl_normalize(char *value);
