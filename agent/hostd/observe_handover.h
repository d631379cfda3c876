/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells tpu-netcfg whether a person ordered to observe (KIND_OBSERVE of proto/local.proto), without ever
 * blocking: tried again after a random wait until it has answered. An answer of "does not know that" ends it
 * with a warning.
 */
#include <systemd/sd-event.h>

#include "base.h"

struct observe_handover;
/* socket: tpu-netcfg's (copied). */
int observe_handover_new(sd_event *e, const char *socket, struct observe_handover **ret);
struct observe_handover *observe_handover_free(struct observe_handover *h);
DEFINE_CLEANUP(struct observe_handover *, observe_handover_free)

/* Says this, in place of what was not said yet. until: the order's end, real clock; 0: none. */
void observe_handover_offer(struct observe_handover *h, bool observe, usec_t until);
