/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* What tpu-hostd is started for, once its configuration is read. */
#include "settings.h"

/*
 * Watches this host (agent.c) until a signal ends it (leave.h); SIGHUP reads the configuration again.
 * config_file is what the settings were read from, NULL as usual. 0, or -errno: the reason was logged.
 */
int agent_run(const struct host *h, const char *config_file, const struct settings *s);

/*
 * tpu-hostd --generalize: makes an image of this machine, or of the tree below --root. What belongs to one
 * machine is removed, so that each host that starts from the image makes its own:
 *
 *   - all that the state directories of the daemons hold (paths.h), and what hostd.conf puts elsewhere. So
 *     nothing that an image should carry may be kept there;
 *   - certificates and keys of the host, as hostd.conf names them;
 *   - the machine id (machine-id(5)), also D-Bus's copy, from which systemd would make the same id again.
 *
 * Configuration stays. On the running system the daemons are stopped first, and stay so until the next boot:
 * each of them writes its state. With a run in progress nothing is done.
 *
 * What was removed is printed, a line each. 0, or -errno: what could not be removed was logged.
 */
int generalize(const struct host *h, const struct settings *s);
