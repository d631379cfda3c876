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
#include "sysctl.h"
#include "wanted.h"

/*
 * Loads configuration and profile. The profile is Profile= of [Netcfg], else the generation that
 * AcceleratorType= of [Identity] names ("v6e-16" → v6e), else that of the chips in sysfs, else generic. A
 * machine on which there is no TPU, and whose site states neither, gets no profile: nothing is wanted
 * (no_tpu). The profile's file is the first of /etc, /run and /usr/lib /tpu-hostd/profiles/NAME.conf.
 * config_file: --config (it then holds [Netcfg], [Identity] and [Network]) or NULL. Problems in content warn
 * with file and line and keep what was there; a value without a Source= is refused. RtoMin= of [Netcfg] says
 * how the least retransmission time is set: "sysctl", "routes", or "auto" (the sysctl where this kernel has
 * it); SourceRouting= there stands before the profile's, where there is one. -errno when not even the
 * generic profile can be read, or at a shortage (errno_is_shortage()), which is no reason for another
 * profile.
 */
int intent_load(const struct host *h, const char *config_file, struct intent *ret);

/*
 * For --show-config and --check-config: loads as intent_load() does, prints to out (unless NULL) what is in
 * force and where it is from, and counts in *ret_warnings what was wrong; each was logged. A profile that
 * had to be replaced by the generic one counts.
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

/* The verdict on one NIC, the same for netcfg and for probes; check "nic.mtu". */
void intent_judge_mtu(const struct intent *i, const struct link *l, struct finding *ret);
