/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether what lies on the disk is this machine's (machine_state.h): asked once, before any of it is read.
 * What is another machine's is set aside, and an event names both. Where only the instance id can decide,
 * the state is used, nothing of it is sent (bus->undecided), and BUS_DECIDED follows. If it then is another
 * machine's, tpu-hostd ends: the next one sets it aside at its start.
 */
#include "bus.h"

struct own_state {
        struct bus *bus;
        char file[MACHINE_PATH_MAX];
        struct machine_state kept;
        bool unsure; /* taken for this machine's without the instance id that it names: it may still come */
        struct machine_ids other; /* whose state was set aside; machine and instance empty: nobody's */
        char aside[MACHINE_PATH_MAX]; /* what its spool is called now; empty: it had none */
};

/* certain: no metadata server is asked. Behind the static identity. */
void own_state_start(struct bus *b, bool certain, struct own_state *p);
/* The metadata server has said the instance id; NULL: it has been waited for long enough. False: tpu-hostd
 * ends. */
bool own_state_learn(struct own_state *p, const char *instance);
/* What was set aside, as an event, once; when there is a spool. */
void own_state_report(struct own_state *p);
