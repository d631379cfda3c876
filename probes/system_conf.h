/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Settings of systemd's manager as its files state them: system.conf and system.conf.d/ of /usr/lib (and
 * /lib), /run and /etc, section [Manager] (systemd-system.conf(5)). Later files win; a drop-in of one name
 * counts only in its strongest directory; an empty value unsets.
 */
#include "base.h"
#include "host.h"

/* Calls visit with each value of key, in the order in which systemd reads them (lists append). -errno when a
 * file that is there cannot be read. */
int system_conf_visit(const struct host *h, const char *key,
                      void (*visit)(const char *value, const char *file, void *userdata), void *userdata);
