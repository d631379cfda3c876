/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What GKE, or a person, has set in the environment of the asking command. Apart from identity.h, because no
 * daemon may ask for it. */
#include "identity.h"

/*
 * environment: "NAME=VALUE", NULL at the end: TPU_NAME, TPU_WORKER_ID, … Origin "environment TPU_NAME".
 * TPU_PROCESS_ADDRESSES stands where there is no TPU_WORKER_HOSTNAMES (tpu7x on GKE from 1.34.1 on): the
 * same hosts, each with a port. What cannot be is passed over and named, once, in bad. -ENOMEM.
 */
int identity_add_environment(struct identity *i, char *const *environment, char bad[static 128]);
