/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* One function in a room of its own: probes take the answer (device_owners.h), and only who asks links the
 * local frames. Asks tpu-launchd who has the TPU devices open. Blocking, for workers and command lines. */
#include "device_owners.h"
#include "host.h"

/* Fills *ret in any case; its error says why it holds nothing. Takes at most 2 s. */
void ask_owners(const struct host *h, struct device_owners *ret);
