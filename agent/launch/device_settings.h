/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * What the host's own configuration says of its runs: "launchd" (base's config.h), read again for each
 * start.
 *   [Devices] Policy=tpu         tpu: the TPU's nodes, the pseudo devices and what is allowed besides;
 *                                any: no policy at all
 *             Allow=/dev/x …     for every run of this host
 */
#include "host.h"

struct device_settings {
        bool any_device;
        char **devices; /* NULL: none */
};
void device_settings_clear(struct device_settings *s);
#define _cleanup_device_settings_ _cleanup_(device_settings_clear)
/* config: --config or NULL. show: prints what is in force there, if not NULL. 0 or -errno of a file that
 * cannot be read. */
int device_settings_load(const struct host *h, const char *config, FILE *show, struct device_settings *ret,
                         unsigned *ret_warnings);

