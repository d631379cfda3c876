/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/*
 * The TPU's devices before a start: who else has one open, the lock that libtpu leaves behind when it is
 * killed, which nodes the run may open, and whether this host holds it to them. This is decided here, on
 * what the kernel shows, whatever tpu-hostd says.
 */
#include "host.h"
#include "problem.h"
#include "run_spec.h"

/*
 * Where libtpu keeps its lock (jax#10192, pytorch/xla#3214: a stale one, or another user's, stops every
 * later run with "libtpu already in use"). It is removed when no process has a TPU open, nobody holds a lock
 * on it, and it is a plain file; else it stays.
 */
#define LIBTPU_LOCKFILE_DIRECTORY "/tmp"
#define LIBTPU_LOCKFILE "libtpu_lockfile"

/*
 * Returns 0, or -EBUSY with p naming device, process, unit and command. Not every process could be looked
 * at, or none: 0 and a line in warning (size bytes; NULL: none is wanted). A spec that shares devices is not
 * looked at.
 */
int devices_check(const struct host *h, const Run__Spec *s, const char *run, struct problem *p,
                  char *warning, size_t size);

/*
 * The nodes that a run may open, as PID 1 sees them (our own /dev is a private one): /dev/accelN, those in
 * /dev/vfio, /dev/fuse, by which gcsfuse mounts the training data, and what the run's spec names.
 * NULL-terminated, to be freed by strings_free(); NULL when out of memory.
 */
char **devices_nodes(const struct host *h, const Run__Spec *s);

/* --- Whether the policy holds -------------------------------------------------------------------------- */

/*
 * systemd starts a unit also where the kernel or a container refuses it the program that guards the devices
 * (cgroup v2: BPF; legacy: the devices controller), and says so in its own log alone. What that program lets
 * through of another unit is not to be seen without CAP_NET_ADMIN, which we do not have; but we are such a
 * unit ourselves: PrivateDevices= in tpu-launchd.service is DevicePolicy=closed. So we ask for a node that
 * is not let in: EPERM is the policy's word (rights of files say EACCES), and a node that may be read says
 * that there is none. access(2) opens nothing.
 */
enum device_policy {
        DEVICE_POLICY_HOLDS,
        DEVICE_POLICY_FAILS,   /* a node that no unit of this policy may open can be opened */
        DEVICE_POLICY_UNKNOWN, /* we are in no unit of ours, or there is no node that shows it */
        _DEVICE_POLICY_MAX,
};
enum device_policy device_policy_look(const struct host *h);
/* What faccessat(2) answered for such a node: 0 or -errno. */
enum device_policy device_policy_of(int error);

/* Adds a line to warning when the run is to have a policy that does not hold, or may not. */
void device_policy_warn(const struct host *h, const Run__Spec *s, char *warning, size_t size);

/* --- What the host itself allows its runs ------------------------------------------------------------ */

/*
 * What the host's own configuration says of its runs: "launchd" (base's config.h), read again for each
 * start.
 *   [Devices] Policy=tpu         tpu: the TPU's nodes, the pseudo devices and what is allowed besides;
 *                                any: no policy at all
 *             Allow=/dev/x …     for every run of this host
 *   [Adopt]   Adopt=yes          whether what others started on the chips is a run; observe: one that only
 *                                root and its user see
 *             Ignore=jupyter* …  what is none: patterns (fnmatch(3)) of the program's name
 */
enum adopt { ADOPT_YES, ADOPT_NO, ADOPT_OBSERVE };

struct device_settings {
        bool any_device;
        char **devices; /* NULL: none */
        enum adopt adopt;
        char adopt_ignore[256];
};
void device_settings_clear(struct device_settings *s);
#define _cleanup_device_settings_ _cleanup_(device_settings_clear)
/* config: --config or NULL. show: prints what is in force there, if not NULL. 0 or -errno of a file that
 * cannot be read. */
int device_settings_load(const struct host *h, const char *config, FILE *show, struct device_settings *ret,
                         unsigned *ret_warnings);
