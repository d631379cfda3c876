/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The words behind 'tpuctl fleet' that order something by the collector's registry (docs/registry.md). What
 * holds up many, or cannot be taken back, asks for a yes; every order asks for its reason. Where there is
 * no terminal to ask on, --yes and the reason have to be given.
 */
#include "ctl.h"

struct fleet_order;

/* The order of this name; NULL: there is none. */
const struct fleet_order *fleet_order_find(const char *name);
/* In the order of --help; NULL behind the last. */
const char *fleet_order_name(size_t i);
/* One line each, for --help. */
void fleet_orders_list(FILE *out);

/* One word of a path: nothing in it may lead elsewhere. */
bool fleet_name_is_plain(const char *word);

/* argv[0] is the word. The exit code. */
int fleet_order(const struct fleet_order *which, const struct ctl *c, int argc, char *argv[]);
