/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the site's names and patterns pick: NICs and settings. Pure.
 */
#include "links.h"
#include "wanted.h"

/* Whether it is one of this host's data-centre NICs: IgnoreNics= and Nics= of [Netcfg], else
 * link_is_data_nic(). */
bool intent_is_data_nic(const struct intent *i, const struct link *l);
size_t intent_count_data_nics(const struct intent *i, const struct link_table *t);
/* Their names in the order of their indexes, "eth0,eth1"; empty when there is none. */
#define INTENT_NICS_TEXT_MAX 256
void intent_data_nics(const struct intent *i, const struct link_table *t,
                      char ret[static INTENT_NICS_TEXT_MAX]);
/* Takes out of i what ignore_settings names; intent_load() has done it. */
void intent_drop_ignored(struct intent *i);
