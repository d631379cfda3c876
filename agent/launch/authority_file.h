/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The authority file: the inside of authority.h. */
#include "authority.h"

struct grants {
        char group[64];
        uid_t users[AUTHORITY_USERS_MAX];
        size_t n_users;
};
/* -errno: it is not known what it grants. show: NULL, or where what is in force is printed. */
int grants_load(const struct host *h, const char *config, FILE *show, struct grants *ret,
                unsigned *ret_warnings);
