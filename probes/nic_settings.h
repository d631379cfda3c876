/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The settings of data-centre NICs that the profile wants: features, private flags, sizes of packets. */
#include "intent.h"
#include "probe.h"

/* Checks nic.feature, nic.private_flag, nic.gso_max_size and so on. -ENOMEM. */
int nic_look_at_settings(const struct host *h, const struct intent *i, const struct link_table *links,
                         struct sink *s);
