/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* tpuctl.conf, section [Ctl]: whom tpuctl asks over the network, and with which certificates. */
#include "options.h"

struct ctl_certificates { /* PEM files; empty: the system's authorities, no certificate of one's own */
        char ca[256], certificate[256], key[256];
};

struct ctl_settings {
        char collector_url[256];
        bool collector_configured; /* it is no default */
        struct ctl_certificates collector, agents;
};

/* An http or https URL that was given otherwise. -EINVAL, -ENAMETOOLONG with why. */
int ctl_settings_take_url(const char *text, char dest[static 256], char why[static 96]);
/* -errno after saying what is wrong. */
int ctl_settings_load(const struct options *o, struct ctl_settings *ret);
