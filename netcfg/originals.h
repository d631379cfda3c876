/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The values that settings had before our first write of this boot, kept in /run/tpu-netcfg/originals: saved
 * durably before the write, kept over restarts, forgotten by a new boot id or after --restore. A NIC is
 * known by its MAC address, and by its name where several share one. With the first route or sysctl of a NIC
 * its address is kept, too, which says whose name it was; that is no setting, and is not restored. Rules and
 * routes of source routing are not in it: they carry our mark, and were not there.
 *
 * The file is text: a line "tpu-netcfg-originals 1", a line "boot BOOT_ID", then lines
 * "sysctl NAME VALUE", "nic NAME MAC", "mtu NAME MAC VALUE", "route VALUE SUBJECT" (route_subject(), plan.h), and of other
 * settings of a NIC "nic.feature NAME MAC VALUE SETTING", "nic.private_flag NAME MAC VALUE SETTING",
 * "nic.gso_max_size NAME MAC VALUE" and so on.
 */
#include "host.h"
#include "plan.h"

#define ORIGINALS_MAX (INTENT_SYSCTLS_MAX + LINKS_MAX + ROUTES_MAX + NIC_SETTINGS_MAX)

struct original {
        enum op_kind kind;
        char subject[64];
        char address[24]; /* of a NIC: "02:00:…", lower case */
        char value[96]; /* empty: kind is OP_MTU, and only the NIC's name is kept */
};

struct originals {
        struct original *items;
        size_t n;
};
#define ORIGINALS_NULL ((struct originals) { 0 })
void originals_clear(struct originals *o);
#define _cleanup_originals_ _cleanup_(originals_clear)

/* No file, or one of another boot, is an empty list. -EBADMSG with the line (from 1) in ret_line: the file
 * is not ours to guess at. */
int originals_load(int dir_fd, const char *boot_id, struct originals *ret, unsigned *ret_line);
/* Adds the found values of the plan's settings that are not there yet, and saves when anything was added. */
int originals_keep(struct originals *o, int dir_fd, const char *boot_id, const struct plan *p,
                   const struct link_table *links);
/* Gives the settings of NICs that were renamed since their new names. -ENOMEM. */
int originals_follow(struct originals *o, const struct link_table *links);
/* The writes that bring the originals back. ret_gone: how many NICs and routes are not there any more. */
int originals_plan(const struct originals *o, const struct host *h, const struct link_table *links,
                   struct plan *ret, size_t *ret_gone);
/* How many settings there are. */
size_t originals_count(const struct originals *o);
int originals_forget(int dir_fd);
