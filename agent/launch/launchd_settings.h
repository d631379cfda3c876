/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the host's own configuration says of its runs: "launchd" (base's config.h), read anew for each start.
 *   [Devices] Policy=tpu         tpu: the TPU's nodes, the pseudo devices and what is allowed besides;
 *                                any: no policy at all
 *             Allow=/dev/x …     for every run of this host, as device_list.h takes it
 */
#include "base.h"
#include "host.h"

struct launchd_settings {
        bool any_device;
        char **devices; /* NULL: none */
};
void launchd_settings_clear(struct launchd_settings *s);
#define _cleanup_settings_ _cleanup_(launchd_settings_clear)

/* config: --config or NULL. show: prints what is in force there, if not NULL. 0 or -errno of a file that
 * cannot be read. */
int launchd_settings_load(const struct host *h, const char *config, FILE *show, struct launchd_settings *ret,
                          unsigned *ret_warnings);
