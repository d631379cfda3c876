/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Which device nodes a run may open besides the TPU's, as people, intents and the configuration name them:
 * paths below /dev and names of drivers in /proc/devices (char-NAME, block-NAME; '*' stands for any
 * letters), as DeviceAllow= of systemd.resource-control(5) takes them.
 */
#include "base.h"

#define DEVICE_LIST_MAX 32
#define DEVICE_NODE_MAX 64

/*
 * Appends the entries of text (blanks or commas between; "tpu" stands for those of the TPU and is left out)
 * to *list, a NULL-terminated list (texts.h) or NULL. -EINVAL with bad the entry that is none, -E2BIG
 * beyond DEVICE_LIST_MAX of all, -ENOMEM; *list is then as it was. Pure.
 */
int device_list_add(const char *text, char ***list, char bad[static DEVICE_NODE_MAX]);
