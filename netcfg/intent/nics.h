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
/* Takes out of i what ignore_settings names; intent_load() has done it. */
void intent_drop_ignored(struct intent *i);
