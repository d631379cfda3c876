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

#define INTENT_PARAMETERS_MAX 8

/* A setting of each data-centre NIC. */
enum nic_setting_kind {
        NIC_FEATURE,      /* ethtool -k, ethtool -K */
        NIC_PRIVATE_FLAG, /* ethtool --show-priv-flags, --set-priv-flags */
        NIC_SIZE,         /* + enum link_size: ip link set dev NIC gso_max_size … */
        _NIC_SETTING_KIND_MAX = NIC_SIZE + _LINK_SIZE_MAX,
};

#define INTENT_NIC_SETTINGS_MAX 16
struct intent_nic_setting {
        enum nic_setting_kind kind;
        char name[32];   /* "tx-nocache-copy", "enable-max-rx-buffer-size", "gso_max_size" */
        char driver[16]; /* only of NICs of this driver; empty: of all */
        char value[16];  /* "on", "off"; of a size, bytes */
        char source[128];
};

/* What tpu-hostd handed over from the metadata server, for one NIC. */
#define INTENT_NETWORKS_MAX 32
struct intent_network {
        uint8_t mac[6];
        uint32_t mtu;
        char source[64];
        usec_t moved[4]; /* boot clock; when a handover changed mtu, the latest last; 0: never. Not in the file */
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
        struct intent_sysctl
                parameters[INTENT_PARAMETERS_MAX]; /* "tcp_cubic.hystart_detect"; only verified */
        size_t n_parameters;
        struct intent_nic_setting nic_settings[INTENT_NIC_SETTINGS_MAX]; /* nic_setting.h */
        size_t n_nic_settings;
        usec_t rto_min; /* of every data-centre route; 0: none wanted, or the sysctl tcp_rto_min_us stands
                           for it */
        char rto_min_source[128];
        bool loose_rp_filter; /* with several data NICs no strict one stays */
        char rp_filter_source[128];
        bool source_routing; /* with several data NICs what is sent from one's address leaves by it */
        char source_routing_source[128];
        char nics[256], ignore_nics[256]; /* Nics=, IgnoreNics=: names or patterns, blanks between; empty:
                                             told apart */
        char ignore_settings[256]; /* IgnoreSettings=: names or patterns of NIC settings and sysctls that the
                                      profile wants and this site does not */
};

/*
 * Loads configuration and profile. The profile is Profile= of [Netcfg], else the generation that
 * AcceleratorType= of [Identity] names ("v6e-16" → v6e), else that of the chips in sysfs, else generic; its
 * file is the first of /etc, /run and /usr/lib /tpu-hostd/profiles/NAME.conf. config_file: --config (it then
 * holds [Netcfg], [Identity] and [Network]) or NULL. Problems in content warn with file and line and keep
 * what was there; a value without a Source= is refused. RtoMin= of [Netcfg] says how the least
 * retransmission time is set: "sysctl", "routes", or "auto" (the sysctl where this kernel has it);
 * SourceRouting= there stands before the profile's. -errno when not even the generic profile can be read, or
 * at a shortage (errno_is_shortage()), which is no reason for another profile.
 */
int intent_load(const struct host *h, const char *config_file, struct intent *ret);

/* Whether it is one of this host's data-centre NICs: IgnoreNics= and Nics= of [Netcfg], else
 * link_is_data_nic(). */
bool intent_is_data_nic(const struct intent *i, const struct link *l);
/* Takes out of i what ignore_settings names; intent_load() has done it. */
void intent_drop_ignored(struct intent *i);

/*
 * For --show-config and --check-config: loads as intent_load() does, prints to out (unless NULL) what is in
 * force and where it is from, and counts in *ret_warnings what was wrong; each was logged. A profile that had
 * to be replaced by the generic one counts.
 */
int intent_report_config(const struct host *h, const char *config_file, FILE *out, unsigned *ret_warnings);

/*
 * The MTU rule: min(profile, the NIC's max_mtu, the network's MTU), whatever the NIC has now. While the
 * network's MTU is not known, only a device that states its own (link_stated_mtu()) has its MTU raised, up
 * to that, and none is lowered. A container's NIC that the host makes (link.carried_mtu) goes by what
 * carries its packets on the host in place of that, and is never raised where that is not known. 0 when
 * nothing may be wanted (no one states an MTU, or the profile wants none), with the reason in *ret_why
 * (static text, NULL when there is nothing to explain; ret_why may be NULL).
 */
uint32_t intent_mtu(const struct intent *i, const struct link *l, const char **ret_why);

/*
 * The verdict on one NIC or sysctl, the same for netcfg and for probes; checks "nic.mtu" and "sysctl". value
 * is what was read (any white space), error the -errno of reading it or 0 (value may then be NULL); with
 * -EROFS there is a value (intent_read_sysctl()).
 */
void intent_judge_mtu(const struct intent *i, const struct link *l, struct finding *ret);
void intent_judge_sysctl(const struct intent_sysctl *s, const char *value, int error, struct finding *ret);

/* As above; check "module.parameter". container: intent_in_container(), where parameters are the machine's,
 * and what is not as wanted is UNKNOWN with that reason. */
void intent_judge_parameter(const struct intent_sysctl *s, const char *value, int error, bool container,
                            struct finding *ret);

/* The value, blanks collapsed. -EROFS: buf holds the value, but nobody may write it in this network
 * namespace; -ENOENT: this kernel has none; other -errno of reading it. */
int intent_read_sysctl(const struct host *h, const char *name, char *buf, size_t size);
/* "tcp_cubic.hystart_detect": /sys/module/tcp_cubic/parameters/hystart_detect. */
int intent_read_parameter(const struct host *h, const char *name, char *buf, size_t size);
/* systemd's own mark of a container. */
bool intent_in_container(const struct host *h);

/* "net.ipv4.tcp_rmem" → "/proc/sys/net/ipv4/tcp_rmem"; a dot of a NIC's name is written "/", as sysctl(8) has
 * it: "net.ipv4.conf.eth0/7.rp_filter". -EINVAL for a name that has anything but [A-Za-z0-9_./-] or leaves
 * /proc/sys. */
int intent_sysctl_path(const char *name, char *buf, size_t size);
/* Collapses white space of a sysctl's value as read: "4096\t131072\t6291456" → "4096 131072 6291456". In
 * place. */
void intent_sysctl_normalize(char *value);
