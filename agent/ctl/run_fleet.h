/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* Runs over slices: an intent for the registry, and what became of it. */
#include "ask.h"

/* Hands the intent over; *ret_serial: which run of that name this is. Exit code 0, or complains. */
int run_fleet_start(struct collector *c, const json_t *intent, char ret_serial[static 64]);
/* Shows each change until it runs or has ended. The exit code. */
int run_fleet_watch(struct collector *c, const char *name, const char *serial, FILE *out);
/* One line of a run/ record: "running, generation 2, on s0, s1 (8 hosts)". Pure. */
void run_fleet_line(const json_t *run, char *buf, size_t size);
/* DELETE of it: 0, -ENOENT when there is none, or -errno with problem. */
int run_fleet_stop(struct collector *c, const char *name, json_t **ret, struct problem *problem);
