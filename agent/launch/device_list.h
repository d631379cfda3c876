/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which device nodes a run may open besides the TPU's, as people, intents and the configuration name them:
 * paths below /dev and names of drivers in /proc/devices (char-NAME, block-NAME; '*' stands for any
 * letters), as DeviceAllow= of systemd.resource-control(5) takes them.
 */
#include "base.h"
#include "host.h"

#define DEVICE_LIST_MAX 32
#define DEVICE_NODE_MAX 64

/*
 * Appends the entries of text (blanks or commas between) to *list, a NULL-terminated list (text_list.h) or
 * NULL. -EINVAL with bad the entry that is none, -E2BIG beyond DEVICE_LIST_MAX of all, -ENOMEM; *list is
 * then as it was. Pure.
 */
int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]);

/*
 * What the host's own configuration says of its runs: "launchd" (base's config.h), read anew for each start.
 *   [Devices] Policy=tpu         tpu: the TPU's nodes, the pseudo devices and what is allowed besides;
 *                                any: no policy at all
 *             Allow=/dev/x …     for every run of this host
 */
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
