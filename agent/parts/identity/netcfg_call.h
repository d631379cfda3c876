/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Tells tpu-netcfg what the network of each NIC carries (KIND_NETWORK_MTU of proto/local.proto), without
 * ever blocking. What could not be handed over is tried again after a random wait until tpu-netcfg has
 * answered; what it refuses is not.
 */
#include <systemd/sd-event.h>

#include "base.h"

#define MTU_HANDOVER_MAX 32

struct mtu_entry {
        uint8_t mac[6];
        uint32_t mtu;
};
struct mtu_handover;

/* socket: tpu-netcfg's (copied). taken: it answered, and what it took is in force. */
int mtu_handover_new(sd_event *e, const char *socket, void (*taken)(void *userdata), void *userdata,
                     struct mtu_handover **ret);
struct mtu_handover *mtu_handover_free(struct mtu_handover *h);
DEFINE_CLEANUP(struct mtu_handover *, mtu_handover_free)

/* Hands these over, in place of what was not handed over yet. source: who says so, at most 63 characters. */
void mtu_handover_offer(struct mtu_handover *h, const struct mtu_entry *entries, size_t n,
                        const char *source);

/*
 * Tells tpu-netcfg whether a person ordered to observe (KIND_OBSERVE of proto/local.proto), without ever
 * blocking: tried again after a random wait until it has answered. An answer of "does not know that" ends it
 * with a warning.
 */

struct observe_handover;

/* socket: tpu-netcfg's (copied). */
int observe_handover_new(sd_event *e, const char *socket, struct observe_handover **ret);
struct observe_handover *observe_handover_free(struct observe_handover *h);
DEFINE_CLEANUP(struct observe_handover *, observe_handover_free)

/* Says this, in place of what was not said yet. until: the order's end, real clock; 0: none. */
void observe_handover_offer(struct observe_handover *h, bool observe, usec_t until);
