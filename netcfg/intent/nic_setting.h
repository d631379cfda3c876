/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The settings of each data-centre NIC that a profile wants ([Feature …], [PrivateFlag …]):
 * what the NIC has, and the verdict, the same for netcfg and for probes.
 *
 * What a NIC or kernel does not offer is no fault of the host: OK, and the finding says so. Most drivers fix
 * most features, and the private flag of a driver comes and goes with its version (gve's
 * enable-max-rx-buffer-size is in Google's own driver before Linux 6.8 only).
 */
#include "intent.h"
#include "qdiscs.h"

enum nic_offer {
        NIC_SETTABLE,
        NIC_FIXED,         /* the driver says: not to be changed; value says what it is */
        NIC_HELD_BACK,     /* asked for already, and kept off by the kernel */
        NIC_NOT_OF_DRIVER, /* no such setting with this driver */
        NIC_NOT_OF_KERNEL, /* no such setting with this kernel; of a feature, a wrong name looks the same */
};

struct found_nic_setting {
        int index;      /* of the NIC */
        size_t setting; /* in intent->nic_settings */
        int error;      /* 0, or the -errno of reading it; the rest is then empty */
        enum nic_offer offer;
        char value[16];
};

struct found_nic_settings {
        struct found_nic_setting *items; /* by NIC, in the order of links, then of intent->nic_settings */
        size_t n;
};
#define FOUND_NIC_SETTINGS_NULL ((struct found_nic_settings) { 0 })
void found_nic_settings_clear(struct found_nic_settings *f);
#define _cleanup_found_nic_settings_ _cleanup_(found_nic_settings_clear)

/* Every wanted setting of every data-centre NIC of links. What cannot be read is noted in it. -ENOMEM. */
int nic_settings_read(const struct host *h, const struct intent *i, const struct link_table *links,
                      struct found_nic_settings *ret);
/* A write is due: it can be set, and is not as wanted. */
bool nic_setting_is_due(const struct intent *i, const struct found_nic_setting *f);
/* "eth0 tx-nocache-copy" */
void nic_setting_subject(const struct intent_nic_setting *s, const struct link *l, char buf[static 64]);
/* "nic.feature", "nic.private_flag" */
const char *nic_setting_check(enum nic_setting_kind k);
void intent_judge_nic_setting(const struct intent *i, const struct link *l,
                              const struct found_nic_setting *f, struct finding *ret);

/* Whether what a NIC sends is held back on this host itself: check nic.qdisc. False: the kernel tells of no
 * queue for this NIC. Pure. */
bool nic_qdisc_judge(const struct qdisc_table *t, const struct link *nic, struct finding *ret);
