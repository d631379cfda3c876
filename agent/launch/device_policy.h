/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * Whether the device policy of a run (unit_message.c) holds on this host. systemd starts a unit also where
 * the kernel or a container refuses it the program that guards the devices (cgroup v2: BPF; legacy: the
 * devices controller), and says so in its own log alone. What that program lets through of another unit is
 * not to be seen without CAP_NET_ADMIN, which we do not have; but we are such a unit ourselves:
 * PrivateDevices= in tpu-launchd.service is DevicePolicy=closed. So we ask for a node that is not let in:
 * EPERM is the policy's word (rights of files say EACCES), and a node that may be read says that there is
 * none. access(2) opens nothing.
 */
#include "host.h"
#include "run_spec.h"

enum device_policy {
        DEVICE_POLICY_HOLDS,
        DEVICE_POLICY_FAILS,   /* a node that no unit of this policy may open can be opened */
        DEVICE_POLICY_UNKNOWN, /* we are in no unit of ours, or there is no node that tells */
        _DEVICE_POLICY_MAX,
};
enum device_policy device_policy_look(const struct host *h);
/* What faccessat(2) answered for such a node: 0 or -errno. */
enum device_policy device_policy_of(int error);

/* Adds a line to warning when the run is to have a policy that does not hold, or may not. */
void device_policy_warn(const struct host *h, const struct run_spec *s, char *warning, size_t size);
