/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The values that settings had before our first write of this boot, and the content of the state file
 * (state_file.h) that keeps them:
 *
 *   boot BOOT_ID
 *   CHECK <tab> ADDRESS <tab> SUBJECT <tab> VALUE
 *
 * One line for each setting, whatever its kind: check, subject and value are those of its op (op.h), ADDRESS
 * is the MAC address of its NIC, "-" when it is of none. A NIC is known by its address, and by its name
 * where several share one. Rules and routes of source routing are not in it: they carry our mark, and were
 * not there. Pure.
 */
#include "op.h"

#define ORIGINALS_MAX \
        (INTENT_SYSCTLS_MAX + INTENT_PARAMETERS_MAX + LINKS_MAX + ROUTES_MAX + NIC_SETTINGS_MAX)

struct original {
        enum op_kind kind;
        uint8_t address[6]; /* of its NIC; all zero: it is of none */
        char subject[64], value[96];
};

struct originals {
        struct original *items;
        size_t n;
};
#define ORIGINALS_NULL ((struct originals) { 0 })
void originals_clear(struct originals *o);
#define _cleanup_originals_ _cleanup_(originals_clear)

/* A text of another boot is an empty list. -EBADMSG, -E2BIG, -ENOMEM. */
int originals_parse(const char *text, size_t len, const char *boot_id, struct originals *ret);
/* *ret is malloc'ed. -ENOMEM. */
int originals_format(const struct originals *o, const char *boot_id, char **ret, size_t *ret_len);

/* Gives the settings of NICs that were renamed since their new names. */
void originals_follow(struct originals *o, const struct link_table *links);
/* Adds the found values of the plan's settings that are not there yet. Returns 1 when anything was added,
 * else 0; -ENODEV: a NIC of the plan is not in links; -E2BIG, -ENOMEM. */
int originals_note(struct originals *o, const struct plan *p, const struct link_table *links);
/*
 * Where those of a plan would not have room, takes out those of routes that are gone: a route that comes
 * again is noted again. Else routes that come and go would fill it, and nothing is written without it.
 * -ENOMEM.
 */
int originals_make_room(struct originals *o, const struct plan *p, const struct route_table *routes,
                        const struct link_table *links);
/* Leaves those of NICs that are not there now. */
void originals_keep_absent(struct originals *o, const struct link_table *links);
/* The NIC that a setting is of. NULL: it is of none, or the NIC is gone. */
const struct link *original_link(const struct original *o, const struct link_table *links);
